"""Runs compiled networks. On-board code: NumPy and the standard library only."""

from vdla.runtime.executor.errors import ExecutorError, ModelError
from vdla.runtime.executor.executor import Executor, NetworkResult, StepRun
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.network_trace import network_events, write_network_trace
from vdla.runtime.executor.operator_cycles import OperatorCycles, operator_cycles
from vdla.runtime.executor.profile import NetworkProfile, OperatorProfile, profile_of
from vdla.runtime.executor.resident_program import ResidentDamage, ResidentProgram, activation_bytes

__all__ = [
    "Executor",
    "ExecutorError",
    "Model",
    "ModelError",
    "NetworkProfile",
    "NetworkResult",
    "OperatorCycles",
    "OperatorProfile",
    "ResidentDamage",
    "ResidentProgram",
    "StepRun",
    "activation_bytes",
    "network_events",
    "operator_cycles",
    "profile_of",
    "write_network_trace",
]
