# SPDX-License-Identifier: Apache-2.0
"""Tensor intrinsics: their declaration, and matching loop nests against it."""

from vdla.compiler.tensorize.apply import match_block, perfect_nest, tensorize
from vdla.compiler.tensorize.fragment import LANES, Fragment, FragmentEmitter, IntrinsicError, TensorizeError
from vdla.compiler.tensorize.intrinsic import (
    CONDITION,
    GLOBAL,
    IMMEDIATE,
    MEMORY,
    ON_CHIP,
    SHARED,
    WARP,
    Intrinsic,
    StepCycles,
)

__all__ = [
    "CONDITION",
    "GLOBAL",
    "IMMEDIATE",
    "LANES",
    "MEMORY",
    "ON_CHIP",
    "SHARED",
    "WARP",
    "Fragment",
    "FragmentEmitter",
    "Intrinsic",
    "IntrinsicError",
    "StepCycles",
    "TensorizeError",
    "match_block",
    "perfect_nest",
    "tensorize",
]
