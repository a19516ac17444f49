"""Schedules of the operators for CPUs; `default_schedule` schedules any function."""

from vdla.compiler.operators.cpu.schedule import default_schedule

__all__ = ["default_schedule"]
