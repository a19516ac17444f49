"""Tensor intrinsics: their declaration, and matching loop nests against it."""

from vdla.compiler.tensorize.apply import match_block, perfect_nest, tensorize
from vdla.compiler.tensorize.errors import IntrinsicError, TensorizeError
from vdla.compiler.tensorize.intrinsic import CONDITION, GLOBAL, IMMEDIATE, MEMORY, ON_CHIP, Intrinsic, StepCycles

__all__ = [
    "CONDITION",
    "GLOBAL",
    "IMMEDIATE",
    "MEMORY",
    "ON_CHIP",
    "Intrinsic",
    "IntrinsicError",
    "StepCycles",
    "TensorizeError",
    "match_block",
    "perfect_nest",
    "tensorize",
]
