"""The benchmark of GPU kernels: cooperative schedules, random kernels, planted races."""
