# SPDX-License-Identifier: Apache-2.0
"""Schedules for devices that run grids of threads; `grid_schedule` schedules any function."""

from vdla.compiler.operators.gpu.grid_schedule import grid_problems, grid_schedule

__all__ = ["grid_problems", "grid_schedule"]
