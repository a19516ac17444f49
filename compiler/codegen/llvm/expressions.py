# SPDX-License-Identifier: Apache-2.0
"""Expressions: a scalar value, or a vector if it varies along the lanes of the loop.

Uniform values are computed once and broadcast only where they meet a vector. A side of a select
that might read outside its buffer runs under a branch or a mask; otherwise both sides are computed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from vdla.compiler import ir
from vdla.compiler.codegen.llvm import memory
from vdla.compiler.codegen.llvm.addresses import emit_index
from vdla.compiler.codegen.llvm.casts import cast
from vdla.compiler.codegen.llvm.function_builder import FunctionBuilder, lane_numbers
from vdla.compiler.codegen.llvm.functions import call_function
from vdla.compiler.codegen.llvm.lanes import VectorLanes, is_safe
from vdla.compiler.codegen.llvm.types import HALF, I32, Value, broadcast, constant, lane_count, value_type
from vdla.compiler.ir import SMALL_FLOATS, is_float


def evaluate(fb: FunctionBuilder, expr: ir.Expr, lanes: VectorLanes | None = None) -> Value:
    """The value of `expr`; arbitrary in inactive lanes.

    A subexpression object that occurs several times in a statement, such as the terms of a tuple
    reducer, is computed once.
    """
    match expr:
        case ir.Var(name=name):
            return _variable(fb, name, lanes)
        case ir.Const(value=number, dtype=dtype):
            return literal(fb, number, dtype)
    mask = None if lanes is None else lanes.mask
    return fb.once_per_statement(expr, mask, lambda: _evaluate(fb, expr, lanes))


def _evaluate(fb: FunctionBuilder, expr: ir.Expr, lanes: VectorLanes | None) -> Value:
    match expr:
        case ir.Binary():
            return _binary(fb, expr, lanes)
        case ir.Cast(dtype=dtype, value=inner):
            value = _of_small_floats(fb, inner, lanes) if dtype in SMALL_FLOATS else None
            value = evaluate(fb, inner, lanes) if value is None else value
            return cast(fb.arithmetic, value, ir.dtype_of(inner, fb.buffers), dtype)
        case ir.Select():
            return _select(fb, expr, lanes)
        case ir.Load(buffer=buffer, indices=indices):
            return memory.load(fb, buffer, indices, lanes)
        case ir.Call(name=name, args=args, dtype=dtype):
            values = _broadcast_all(fb, [evaluate(fb, arg, lanes) for arg in args])
            return call_function(fb.arithmetic, name, ir.dtype_of(args[0], fb.buffers), values)


def _variable(fb: FunctionBuilder, name: str, lanes: VectorLanes | None) -> Value:
    if lanes is not None and name == lanes.var:
        return lane_numbers(lanes.count, I32)
    number = emit_index(fb, ir.Var(name))
    return number if number.type == I32 else fb.once(("int32", number), lambda: fb.builder.trunc(number, I32))


def literal(fb: FunctionBuilder, number: ir.Scalar, dtype: str) -> Value:
    """A constant of `dtype`."""
    kind = value_type(dtype, fb.target)
    if dtype in SMALL_FLOATS and kind != HALF:
        stored: Any = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.float16
        return constant(kind, int(np.asarray(float(number), np.float32).astype(stored).view(np.uint16)))
    return constant(kind, float(number) if is_float(dtype) else int(number))


def _broadcast_all(fb: FunctionBuilder, values: list[Value]) -> list[Value]:
    """All values as vectors if one is a vector."""
    count = next((lane_count(v) for v in values if lane_count(v) is not None), None)
    return values if count is None else [broadcast(fb.builder, v, count) for v in values]


def _binary(fb: FunctionBuilder, expr: ir.Binary, lanes: VectorLanes | None) -> Value:
    dtype = ir.dtype_of(expr.a, fb.buffers)
    if expr.op in ("floordiv", "mod") and isinstance(expr.b, ir.Const) and expr.b.value > 0 and dtype.startswith("int"):
        dividend = evaluate(fb, expr.a, lanes)
        return fb.arithmetic.divide_by_constant(expr.op, dividend, int(expr.b.value), non_negative=False)
    a, b = _broadcast_all(fb, [evaluate(fb, expr.a, lanes), evaluate(fb, expr.b, lanes)])
    return fb.arithmetic.binary(expr.op, dtype, a, b)


def _of_small_floats(fb: FunctionBuilder, expr: ir.Expr, lanes: VectorLanes | None) -> Value | None:
    """An operation on two small floats, None for anything else; never fused, as each rounds."""
    match expr:
        case ir.Binary(op=op, a=ir.Cast(dtype=wide, value=a), b=ir.Cast(value=b)):
            dtypes = [ir.dtype_of(side, fb.buffers) for side in (a, b)]
            if all(dtype in SMALL_FLOATS for dtype in dtypes):
                sides = _broadcast_all(fb, [evaluate(fb, a, lanes), evaluate(fb, b, lanes)])
                exact = replace(fb.arithmetic, contract=False)
                wider = (cast(exact, side, dtype, wide) for side, dtype in zip(sides, dtypes, strict=True))
                return exact.binary(op, wide, *wider)
    return None


def _select(fb: FunctionBuilder, expr: ir.Select, lanes: VectorLanes | None) -> Value:
    cond = evaluate(fb, expr.cond, lanes)
    ranges = memory.lane_ranges(fb, lanes)
    safe = all(is_safe(side, fb.buffers, ranges) for side in (expr.a, expr.b))
    if lanes is not None and lane_count(cond) is not None:
        return _select_by_lane(fb, expr, cond, lanes)
    if safe:
        a, b = _broadcast_all(fb, [evaluate(fb, side, lanes) for side in (expr.a, expr.b)])
        return fb.builder.select(cond, a, b)
    return fb.choose(cond, *((lambda side=side: _evaluate_broadcast(fb, side, lanes)) for side in (expr.a, expr.b)))


def _evaluate_broadcast(fb: FunctionBuilder, expr: ir.Expr, lanes: VectorLanes | None) -> Value:
    """The value as a vector if there are lanes: both sides of a branch must have one type."""
    value = evaluate(fb, expr, lanes)
    return value if lanes is None else broadcast(fb.builder, value, lanes.count)


def _select_by_lane(fb: FunctionBuilder, expr: ir.Select, cond: Value, lanes: VectorLanes) -> Value:
    """Evaluates each side in the lanes that take it."""
    in_a = restrict_lanes(fb, lanes, cond)
    in_b = restrict_lanes(fb, lanes, fb.builder.not_(cond))
    sides = ((expr.a, in_a), (expr.b, in_b))
    a, b = (broadcast(fb.builder, evaluate(fb, side, active), lanes.count) for side, active in sides)
    return fb.builder.select(cond, a, b)


def restrict_lanes(fb: FunctionBuilder, lanes: VectorLanes, cond: Value) -> VectorLanes:
    """The active lanes in which `cond` holds."""
    return lanes.with_mask(cond if lanes.mask is None else fb.builder.and_(lanes.mask, cond))
