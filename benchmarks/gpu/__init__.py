# SPDX-License-Identifier: Apache-2.0
"""The benchmark of GPU kernels: cooperative schedules, random kernels, planted races."""
