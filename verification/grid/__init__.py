"""Kernels of grids: cooperative schedules, random kernels and schedules, planted races."""
