"""Intrinsics for random schedules: dot products of small groups, an instruction of x86-64 or else
plain code."""

from __future__ import annotations

from vdla.compiler.codegen.llvm.intrinsics.dot import madd, vnni
from vdla.compiler.tensorize import Intrinsic

LANES = 4
PAIRS, QUADS = madd(LANES), vnni(LANES)
INTRINSICS: dict[str, Intrinsic] = {intrinsic.name: intrinsic for intrinsic in (PAIRS, QUADS)}
GROUPS = {PAIRS.name: (2, "int16", "int16"), QUADS.name: (4, "uint8", "int8")}
"""The terms of one step, and the dtypes of activations and weights."""
