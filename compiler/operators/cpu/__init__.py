# SPDX-License-Identifier: Apache-2.0
"""CPU schedules of the operators; `default_schedule` schedules any function."""

from vdla.compiler.operators.cpu.default_schedule import default_schedule

__all__ = ["default_schedule"]
