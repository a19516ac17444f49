# SPDX-License-Identifier: Apache-2.0
"""Kernels of grids: cooperative schedules, random kernels and schedules, planted races."""
