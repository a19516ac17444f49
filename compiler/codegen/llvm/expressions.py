"""The value of an expression: a scalar, or where it differs from lane to lane, a vector.

What is the same in all lanes is computed once and spread only where it meets a vector. A side of a select is run only
where it is taken if it might read outside of a buffer; all else is harmless, so both sides are computed and one chosen.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from vdla.compiler import ir
from vdla.compiler.codegen.llvm import math, memory
from vdla.compiler.codegen.llvm.addresses import index
from vdla.compiler.codegen.llvm.casts import cast
from vdla.compiler.codegen.llvm.function_builder import Frame, lane_numbers
from vdla.compiler.codegen.llvm.lanes import Lanes, is_safe
from vdla.compiler.codegen.llvm.types import HALF, I32, Value, broadcast, constant, value_type
from vdla.compiler.codegen.llvm.types import lanes as lanes_of
from vdla.compiler.ir import SMALL_FLOATS, is_float


def value(frame: Frame, expr: ir.Expr, lanes: Lanes | None = None) -> Value:
    """The value of `expr`; in lanes outside of the mask it is arbitrary.

    A part that one statement uses several times, as the terms of a reducer of tuples are, is computed once.
    """
    match expr:
        case ir.Var(name=name):
            return _variable(frame, name, lanes)
        case ir.Const(value=number, dtype=dtype):
            return literal(frame, number, dtype)
    return frame.part(expr, None if lanes is None else lanes.mask, lambda: _computed(frame, expr, lanes))


def _computed(frame: Frame, expr: ir.Expr, lanes: Lanes | None) -> Value:
    match expr:
        case ir.Binary():
            return _binary(frame, expr, lanes)
        case ir.Cast(dtype=dtype, value=inner):
            source = ir.dtype_of(inner, frame.kernel.fn.buffers)
            return cast(frame.operators, value(frame, inner, lanes), source, dtype)
        case ir.Select():
            return _select(frame, expr, lanes)
        case ir.Load(buffer=buffer, indices=indices):
            return memory.load(frame, buffer, indices, lanes)
        case ir.Call(name=name, args=args, dtype=dtype):
            values = together(frame, [value(frame, arg, lanes) for arg in args])
            return math.call(frame.operators, name, ir.dtype_of(args[0], frame.kernel.fn.buffers), values)


def _variable(frame: Frame, name: str, lanes: Lanes | None) -> Value:
    if lanes is not None and name == lanes.var:
        return lane_numbers(lanes.count, I32)
    number = index(frame, ir.Var(name))
    return number if number.type == I32 else frame.once(("int32", number), lambda: frame.builder.trunc(number, I32))


def literal(frame: Frame, number: ir.Scalar, dtype: str) -> Value:
    """A number of `dtype`."""
    kind = value_type(dtype, frame.kernel.target)
    if dtype in SMALL_FLOATS and kind != HALF:
        stored: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
        return constant(kind, int(np.asarray(float(number), np.float32).astype(stored).view(np.uint16)))
    return constant(kind, float(number) if is_float(dtype) else int(number))


def together(frame: Frame, values: list[Value]) -> list[Value]:
    """All of them as vectors if one is."""
    count = next((lanes_of(v) for v in values if lanes_of(v) is not None), None)
    return values if count is None else [broadcast(frame.builder, v, count) for v in values]


def _binary(frame: Frame, expr: ir.Binary, lanes: Lanes | None) -> Value:
    dtype = ir.dtype_of(expr.a, frame.kernel.fn.buffers)
    if expr.op in ("floordiv", "mod") and isinstance(expr.b, ir.Const) and expr.b.value > 0 and dtype.startswith("int"):
        return frame.operators.divided(expr.op, value(frame, expr.a, lanes), int(expr.b.value), positive=False)
    a, b = together(frame, [value(frame, expr.a, lanes), value(frame, expr.b, lanes)])
    return frame.operators.binary(expr.op, dtype, a, b)


def _select(frame: Frame, expr: ir.Select, lanes: Lanes | None) -> Value:
    cond = value(frame, expr.cond, lanes)
    ranges = memory.all_ranges(frame, lanes)
    safe = all(is_safe(side, frame.kernel.fn.buffers, ranges) for side in (expr.a, expr.b))
    if lanes is not None and lanes_of(cond) is not None:
        return _select_lanes(frame, expr, cond, lanes)
    if safe:
        a, b = together(frame, [value(frame, side, lanes) for side in (expr.a, expr.b)])
        return frame.builder.select(cond, a, b)
    return frame.choose(cond, *((lambda side=side: _spread(frame, side, lanes)) for side in (expr.a, expr.b)))


def _spread(frame: Frame, expr: ir.Expr, lanes: Lanes | None) -> Value:
    """The value as both sides of a branch must give it: of one type."""
    found = value(frame, expr, lanes)
    return found if lanes is None else broadcast(frame.builder, found, lanes.count)


def _select_lanes(frame: Frame, expr: ir.Select, cond: Value, lanes: Lanes) -> Value:
    """Each side in the lanes that take it."""
    taken = within(frame, lanes, cond)
    other = within(frame, lanes, frame.builder.not_(cond))
    a, b = (
        broadcast(frame.builder, value(frame, side, at), lanes.count) for side, at in ((expr.a, taken), (expr.b, other))
    )
    return frame.builder.select(cond, a, b)


def within(frame: Frame, lanes: Lanes, cond: Value) -> Lanes:
    """The lanes in which `cond` holds too."""
    return lanes.only(cond if lanes.mask is None else frame.builder.and_(lanes.mask, cond))
