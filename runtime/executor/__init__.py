"""Runs compiled networks. On-board code: NumPy and the standard library only."""

from vdla.runtime.executor.errors import ExecutorError
from vdla.runtime.executor.executor import Executor, NetworkResult, StepRun
from vdla.runtime.executor.resident_program import ResidentProgram

__all__ = ["Executor", "ExecutorError", "NetworkResult", "ResidentProgram", "StepRun"]
