"""Comparison of one program on two devices, event by event and byte by byte."""

from vdla.runtime.compare.comparison import Comparison, compare, memory_bytes

__all__ = ["Comparison", "compare", "memory_bytes"]
