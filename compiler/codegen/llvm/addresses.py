# SPDX-License-Identifier: Apache-2.0
"""Addresses of elements: indices to linear offsets, offsets to pointers.

Indices are as wide as a pointer and cannot overflow inside a buffer. The terms of an offset are
added outermost loop first, so that LLVM can hoist the loop-invariant part, and its constant last,
where it folds into the addressing mode.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.abi import element_bytes
from vdla.compiler.arith import Linear, bounds, linear, recombine, var_names
from vdla.compiler.codegen.llvm.function_builder import FunctionBuilder, lane_numbers
from vdla.compiler.codegen.llvm.lanes import AccessPattern, VectorLanes, access_pattern, varies
from vdla.compiler.codegen.llvm.types import (
    Type,
    Value,
    broadcast,
    element_type,
    is_gpu,
    is_signed,
    splat,
    stored_type,
    type_like,
)
from vdla.compiler.ir import reads_memory
from vdla.compiler.ir.by_identity import Same


def offset_of(fb: FunctionBuilder, name: str, indices: tuple[ir.Expr, ...]) -> Linear:
    """The offset of an element from the start of its buffer, in elements.

    Row and column indices that come from one fused loop are recombined, which makes the lanes of
    that loop contiguous.
    """
    key: tuple[str | int, ...] = (name, *(id(index) for index in indices))
    if key not in fb.kernel.offsets:
        total, stride = Linear({}), Linear({}, 1)
        for index, extent in zip(reversed(indices), reversed(fb.buffers[name].shape), strict=True):
            total = total + _product(_form(fb, index), stride)
            stride = _product(stride, Linear({}, extent) if isinstance(extent, int) else linear(extent))
        fb.kernel.offsets[key] = indices, recombine(total)
    return fb.kernel.offsets[key][1]


def _form(fb: FunctionBuilder, index: ir.Expr) -> Linear:
    """The linear form of an index, computed once."""
    known = fb.kernel.forms.get(id(index))
    if known is None:
        known = fb.kernel.forms[id(index)] = index, linear(index)
    return known[1]


def pattern_of(fb: FunctionBuilder, offset: Linear, lanes: VectorLanes) -> AccessPattern:
    """How an offset varies along the lanes, computed once."""
    key = id(offset), lanes.var, lanes.count
    if key not in fb.kernel.patterns:
        fb.kernel.patterns[key] = offset, access_pattern(offset, lanes)
    return fb.kernel.patterns[key][1]


def _product(a: Linear, b: Linear) -> Linear:
    """The product of two linear forms, expanded."""
    if not b.terms:
        return a.scaled(b.const)
    total = b.scaled(a.const)
    for term, factor in a.terms.items():
        terms: dict[ir.Expr, int] = {ir.Binary("mul", term, other): factor * scale for other, scale in b.terms.items()}
        total = total + Linear({term: factor * b.const} if b.const else {}) + Linear(terms)
    return total


def emit_index(fb: FunctionBuilder, expr: ir.Expr, lanes: VectorLanes | None = None) -> Value:
    """An index expression, as wide as a pointer; a vector if it varies along the lanes."""
    if reads_memory(expr) or (varies(expr, lanes) and not isinstance(expr, ir.Var | ir.Const)):
        return _index(fb, expr, lanes)
    # The lane count is part of the key: consecutive loops may share a variable name.
    key = (expr, lanes.count) if lanes is not None and varies(expr, lanes) else expr
    return fb.once(key, lambda: _index(fb, expr, lanes))


def _index(fb: FunctionBuilder, expr: ir.Expr, lanes: VectorLanes | None) -> Value:
    match expr:
        case ir.Var(name=name):
            if lanes is not None and name == lanes.var:
                return lane_numbers(lanes.count, fb.index_type)
            return fb.variables[name]
        case ir.Const(value=number):
            return fb.index(int(number))
        case ir.Binary(op=op, a=a, b=b) if op in ir.INDEX_OPS and not reads_memory(expr):
            return _operation(fb, op, emit_index(fb, a, lanes), emit_index(fb, b, lanes), expr)
    dtype = ir.dtype_of(expr, fb.buffers)
    return _resize(fb, fb.evaluate(fb, expr, lanes), is_signed(dtype))


def _operation(fb: FunctionBuilder, op: str, a: Value, b: Value, expr: ir.Binary) -> Value:
    if a.type != b.type:
        count = next(v.type.count for v in (a, b) if isinstance(v.type, llvm.VectorType))
        a, b = broadcast(fb.builder, a, count), broadcast(fb.builder, b, count)
    match expr:
        case ir.Binary(op="floordiv" | "mod", a=inner, b=ir.Const(value=divisor)) if divisor > 0:
            non_negative = bounds(inner, fb.ranges)[0] >= 0
            return fb.arithmetic.divide_by_constant(op, a, int(divisor), non_negative)
    return fb.arithmetic.binary(op, "int64", a, b)


def _resize(fb: FunctionBuilder, number: Value, signed: bool) -> Value:
    """An integer of any width, extended or truncated to an index."""
    kind = type_like(number, fb.index_type)
    have, want = element_type(number.type).width, fb.index_type.width
    if have == want:
        return number
    if have > want:
        return fb.builder.trunc(number, kind)
    return fb.builder.sext(number, kind) if signed else fb.builder.zext(number, kind)


def emit_terms(fb: FunctionBuilder, offset: Linear, lanes: VectorLanes | None = None) -> Value | None:
    """The sum of the terms of a linear form, without its constant; None if it has no terms."""
    result, order = None, {name: depth for depth, name in enumerate(fb.variables)}
    for term, factor in sorted(offset.terms.items(), key=lambda item: _depth(order, item[0])):
        product = _combine(fb, "mul", emit_index(fb, term, lanes), factor)
        result = product if result is None else _combine(fb, "add", result, product)
    return result


def _combine(fb: FunctionBuilder, op: str, a: Value, b: Value | int) -> Value:
    """`a op b`, cached by its operands."""
    if b == 1 and op == "mul":
        return a
    right = splat(a, b) if isinstance(b, int) else b
    if a.type != right.type:
        count = next(v.type.count for v in (a, right) if isinstance(v.type, llvm.VectorType))
        a, right = broadcast(fb.builder, a, count), broadcast(fb.builder, right, count)
    # Indices narrower than a pointer may not wrap either, or LLVM could not split their sums.
    flags = ("nsw",) if is_gpu(fb.target) else ()
    return fb.once((op, a, b), lambda: getattr(fb.builder, op)(a, right, flags=flags))


def _depth(order: Mapping[str, int], term: ir.Expr) -> int:
    """The loop depth of a term's innermost variable; the lane variable is innermost of all."""
    if isinstance(term, ir.Var):
        return order.get(term.name, len(order))
    if reads_memory(term):
        return len(order)
    return max((order.get(name, len(order)) for name in var_names(term)), default=-1)


def element_pointer(fb: FunctionBuilder, name: str, offset: Linear, in_bounds: bool) -> Value:
    """The address of an element; `in_bounds` if the element is known to lie inside its buffer."""
    pointer = fb.bases[name].pointer
    in_bounds = in_bounds and offset.const >= 0 and _is_monotonic(fb, offset)

    def emit() -> Value:
        kind, place, variable = stored_type(fb.buffers[name].dtype, fb.target), pointer, emit_terms(fb, offset)
        if variable is not None:
            place = _advance(fb, place, variable, kind, in_bounds)
        return _advance(fb, place, fb.index(offset.const), kind, in_bounds) if offset.const else place

    if not all(isinstance(term, ir.Var) for term in offset.terms):  # terms may read memory, which changes
        return emit()
    return fb.once(("element", name, pointer, Same(offset), in_bounds), emit)


def _advance(fb: FunctionBuilder, pointer: Value, distance: Value, kind: Type, in_bounds: bool) -> Value:
    """The address `distance` elements further on, cached."""

    def emit() -> Value:
        return fb.builder.gep(pointer, [distance], inbounds=in_bounds, source_etype=kind)

    return fb.once(("pointer", pointer, distance, str(kind), in_bounds), emit)


def _is_monotonic(fb: FunctionBuilder, offset: Linear) -> bool:
    """Whether no term is negative, so that every partial sum lies inside the buffer too."""
    return all(factor > 0 and bounds(term, fb.ranges)[0] >= 0 for term, factor in offset.terms.items())


def alignment(fb: FunctionBuilder, name: str, offset: Linear) -> int:
    """The known alignment of an element in bytes."""
    size = element_bytes(fb.buffers[name].dtype)
    return gcd(fb.bases[name].align, *(size * factor for factor in offset.terms.values()), size * offset.const)
