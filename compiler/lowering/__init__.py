# SPDX-License-Identifier: Apache-2.0
"""Lowering: the passes from a scheduled loop nest to plain loops."""

from vdla.compiler.lowering.check import Level, PassError, check
from vdla.compiler.lowering.heap_slots import HeapFootprint, heap_footprint
from vdla.compiler.lowering.pipeline import PIPELINE, lower

__all__ = ["PIPELINE", "HeapFootprint", "Level", "PassError", "check", "heap_footprint", "lower"]
