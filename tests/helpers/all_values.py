# SPDX-License-Identifier: Apache-2.0
"""Functions of all operators, conversions and scalar functions of a type, an element a thread."""

from __future__ import annotations

from collections.abc import Iterator

from helpers.opencl_functions import element, on_threads
from vdla.compiler import ir
from vdla.compiler.ir import DTYPES, SCALAR_FUNCTIONS, is_float

ARGUMENTS = ("a", "b", "low", "high")
_OF_FLOATS = ("add", "sub", "mul", "min", "max", *ir.COMPARE_OPS)
_OF_BOOLS = ("and", "or", "xor", "eq", "ne")


def operators_of(dtype: str) -> tuple[str, ...]:
    """The operators of a type."""
    return _OF_BOOLS if dtype == "bool" else _OF_FLOATS if is_float(dtype) else ir.BINARY_OPS


def all_values(dtype: str, count: int) -> ir.Function:
    """An output for each operator, conversion and function of `dtype`, of four inputs."""
    stores = {name: ir.Store(name, (ir.Var("i"),), value) for name, value, _ in _values(dtype)}
    inputs = [ir.Buffer(name, (count,), dtype) for name in ARGUMENTS]
    outputs = [ir.Buffer(name, (count,), result) for name, _, result in _values(dtype)]
    return on_threads(inputs + outputs, count, *stores.values())


def _values(dtype: str) -> Iterator[tuple[str, ir.Expr, str]]:
    a, b, *_ = args = tuple(element(name) for name in ARGUMENTS)
    for op in operators_of(dtype):
        yield f"{op}_of", ir.Binary(op, a, b), "bool" if op in ir.COMPARE_OPS else dtype
    for other in DTYPES:
        yield f"as_{other}", ir.Cast(other, a), other
    for name, entry in SCALAR_FUNCTIONS.items():
        if dtype in entry.dtypes:
            result = entry.result or dtype
            yield f"{name}_of", ir.Call(name, args[: entry.arity], result), result
