# SPDX-License-Identifier: Apache-2.0
"""Indices and offsets of elements, as sums of loop variables.

Arithmetic on loop variables alone cannot overflow, since every value of it is an index or bounds
one; it needs no wrapping. Elements are counted in `int`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from vdla.compiler import ir
from vdla.compiler.arith import Linear, Ranges, linear, simplify, var_names


@dataclass(frozen=True, slots=True)
class LaneAccess:
    """An offset in a vectorized loop: contiguous from `start`, or the same in all lanes."""

    start: ir.Expr
    contiguous: bool


def offset_of(indices: tuple[ir.Expr, ...], buffer: ir.Buffer, ranges: Ranges) -> ir.Expr:
    """The row-major offset of an element."""
    if not indices:
        return ir.Const(0)
    if all(isinstance(extent, int) for extent in buffer.shape):
        total, stride = Linear({}), 1
        parts: list[Linear] = []
        for index, size in zip(reversed(indices), reversed(buffer.dims), strict=True):
            parts.append(linear(simplify(index, ranges) if is_index(index) else index).scaled(stride))
            stride *= size
        for part in reversed(parts):
            total = total + part
        return total.expr()
    offset: ir.Expr = indices[0]
    for index, extent in zip(indices[1:], buffer.shape[1:], strict=True):
        length = ir.Const(extent) if isinstance(extent, int) else extent
        offset = ir.Binary("add", ir.Binary("mul", offset, length), index)
    return offset


def lane_access(offset: ir.Expr, var: str) -> LaneAccess | None:
    """How an offset varies along the lanes of the loop over `var`; None in any other way."""
    form = linear(offset)
    lane = ir.Var(var)
    rest = form.only(lambda term: term != lane)
    if any(var in var_names(term) for term in rest.terms) or form.terms.get(lane, 0) not in (0, 1):
        return None
    return LaneAccess((rest + form.const).expr(), lane in form.terms)


def is_index(expr: ir.Expr) -> bool:
    """Whether an expression is arithmetic on loop variables, extents and constants alone."""
    match expr:
        case ir.Var():
            return True
        case ir.Const(dtype=dtype):
            return dtype == "int32"
        case ir.Binary(op=op, a=a, b=b):
            return op in ir.INDEX_OPS and is_index(a) and is_index(b)
    return False


def elements(buffer: ir.Buffer) -> int | None:
    """The number of elements, None if it is symbolic."""
    return prod(buffer.dims) if all(isinstance(extent, int) for extent in buffer.shape) else None
