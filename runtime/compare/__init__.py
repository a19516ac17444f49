"""Comparison of two devices: one program, event by event and byte by byte; a network, down to the
instruction.
"""

from vdla.runtime.compare.comparison import Comparison, compare, memory_bytes
from vdla.runtime.compare.culprit import Culprit, find_culprit
from vdla.runtime.compare.network import NetworkComparison, compare_network

__all__ = [
    "Comparison",
    "Culprit",
    "NetworkComparison",
    "compare",
    "compare_network",
    "find_culprit",
    "memory_bytes",
]
