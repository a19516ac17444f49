# SPDX-License-Identifier: Apache-2.0
"""Names of results, and sums of products in the dtype in which they are accumulated."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

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


def sum_of_products(
    x: te.Value,
    weight: te.Value,
    axes: Sequence[te.ReduceAxis],
    start: te.Value | None = None,
    dtype: str | None = None,
) -> te.Value:
    """The sum over axes, from `start` on, in `dtype`, by default the `accumulator_dtype`."""
    accumulate = to_accumulator if dtype is None else partial(te.cast, dtype)
    first = None if start is None else accumulate(start)
    return te.sum(accumulate(x) * accumulate(weight), axis=[*axes], init=first)


def biased(total: te.Value, bias: te.Value | None, dtype: str) -> te.Value:
    """A sum plus a bias, if there is one, as `dtype`."""
    return te.cast(dtype, total if bias is None else total + to_accumulator(bias))
