"""Runs compiled networks. On-board code: NumPy and the standard library only."""

from vdla.runtime.executor.errors import ExecutorError
from vdla.runtime.executor.executor import Executor, NetworkResult, StepRun
from vdla.runtime.executor.operator_cycles import OperatorCycles, operator_cycles
from vdla.runtime.executor.resident_program import ResidentProgram

__all__ = [
    "Executor",
    "ExecutorError",
    "NetworkResult",
    "OperatorCycles",
    "ResidentProgram",
    "StepRun",
    "operator_cycles",
]
