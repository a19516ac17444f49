# SPDX-License-Identifier: Apache-2.0
"""Names of results, and the dtype in which they are accumulated."""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.ir import SMALL_FLOATS


def result_name(x: te.Tensor, operator: str, name: str | None) -> str:
    """`name`, by default `<x>_<operator>`."""
    return f"{x.name}_{operator}" if name is None else name


def accumulator_dtype(dtype: str) -> str:
    """The dtype in which elements of `dtype` are accumulated: float32 for float16 and bfloat16."""
    return "float32" if dtype in SMALL_FLOATS else dtype


def to_accumulator(value: te.Value) -> te.Value:
    """`value` in its `accumulator_dtype`."""
    return te.cast(accumulator_dtype(value.dtype), value)
