"""Where elements lie: indices as sums, sums as pointers.

Indices are as wide as a pointer and cannot overflow inside of a buffer. The parts of a sum are added outermost loop
first, so that what does not change in a loop can leave it, and constants last, where addressing modes take them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from llvmlite import ir as llvm

from vdla.compiler import ir
from vdla.compiler.arith import Linear, bounds, linear, recombine, var_names
from vdla.compiler.codegen.llvm.function_builder import Frame, lane_numbers
from vdla.compiler.codegen.llvm.lanes import Lanes, varies
from vdla.compiler.codegen.llvm.types import Type, Value, broadcast, element, is_signed, like, nbytes, same, stored_type
from vdla.compiler.ir import reads_memory


def place_of(frame: Frame, name: str, indices: tuple[ir.Expr, ...]) -> Linear:
    """The element at `indices`, counted from the start of the buffer, as a sum.

    Rows and columns that come from one fused loop are put together again: its lanes are contiguous.
    """
    total, stride = Linear({}), Linear({}, 1)
    for index, extent in zip(reversed(indices), reversed(frame.kernel.fn.buffers[name].shape), strict=True):
        total = total + product(linear(index), stride)
        stride = product(stride, Linear({}, extent) if isinstance(extent, int) else linear(extent))
    return recombine(total)


def product(a: Linear, b: Linear) -> Linear:
    """The product of two sums, multiplied out."""
    total = b.scaled(a.const)
    for term, factor in a.terms.items():
        terms: dict[ir.Expr, int] = {ir.Binary("mul", term, other): factor * scale for other, scale in b.terms.items()}
        total = total + Linear({term: factor * b.const} if b.const else {}) + Linear(terms)
    return total


def index(frame: Frame, expr: ir.Expr, lanes: Lanes | None = None) -> Value:
    """An index expression as an integer as wide as a pointer; in every lane where it differs among them."""
    if reads_memory(expr) or (varies(expr, lanes) and not isinstance(expr, ir.Var | ir.Const)):
        return _index(frame, expr, lanes)
    key = (expr, lanes.count) if lanes is not None and varies(expr, lanes) else expr  # loops in turn may share a name
    return frame.once(key, lambda: _index(frame, expr, lanes))


def _index(frame: Frame, expr: ir.Expr, lanes: Lanes | None) -> Value:
    match expr:
        case ir.Var(name=name):
            if lanes is not None and name == lanes.var:
                return lane_numbers(lanes.count, frame.kernel.index)
            return frame.variables[name]
        case ir.Const(value=number):
            return frame.index(int(number))
        case ir.Binary(op=op, a=a, b=b) if op in ir.INDEX_OPS and not reads_memory(expr):
            return _operation(frame, op, index(frame, a, lanes), index(frame, b, lanes), expr)
    dtype = ir.dtype_of(expr, frame.kernel.fn.buffers)
    return widened(frame, frame.value(frame, expr, lanes), is_signed(dtype))


def _operation(frame: Frame, op: str, a: Value, b: Value, expr: ir.Binary) -> Value:
    if a.type != b.type:
        count = next(v.type.count for v in (a, b) if isinstance(v.type, llvm.VectorType))
        a, b = broadcast(frame.builder, a, count), broadcast(frame.builder, b, count)
    match expr:
        case ir.Binary(op="floordiv" | "mod", a=inner, b=ir.Const(value=divisor)) if divisor > 0:
            return frame.operators.divided(op, a, int(divisor), bounds(inner, frame.ranges)[0] >= 0)
    return frame.operators.binary(op, "int64", a, b)


def widened(frame: Frame, number: Value, signed: bool) -> Value:
    """An integer of any width as an index."""
    kind = like(number, frame.kernel.index)
    have, want = element(number.type).width, frame.kernel.index.width
    if have == want:
        return number
    if have > want:
        return frame.builder.trunc(number, kind)
    return frame.builder.sext(number, kind) if signed else frame.builder.zext(number, kind)


def total(frame: Frame, form: Linear, lanes: Lanes | None = None) -> Value | None:
    """The terms of a sum, without its constant; None if it has none."""
    result, order = None, {name: place for place, name in enumerate(frame.variables)}
    for term, factor in sorted(form.terms.items(), key=lambda item: depth(order, item[0])):
        part = _combined(frame, "mul", index(frame, term, lanes), factor)
        result = part if result is None else _combined(frame, "add", result, part)
    return result


def _combined(frame: Frame, op: str, a: Value, b: Value | int) -> Value:
    """`a op b`; made once, as both are what they are for good."""
    if b == 1 and op == "mul":
        return a
    right = same(a, b) if isinstance(b, int) else b
    if a.type != right.type:
        count = next(v.type.count for v in (a, right) if isinstance(v.type, llvm.VectorType))
        a, right = broadcast(frame.builder, a, count), broadcast(frame.builder, right, count)
    return frame.once((op, a, b), lambda: getattr(frame.builder, op)(a, right))


def depth(order: Mapping[str, int], term: ir.Expr) -> int:
    """How far in the innermost variable of a term is; the lane variable is inside of all others."""
    if isinstance(term, ir.Var):
        return order.get(term.name, len(order))
    if reads_memory(term):
        return len(order)
    return max((order.get(name, len(order)) for name in var_names(term)), default=-1)


def pointer(frame: Frame, name: str, form: Linear, sure: bool) -> Value:
    """The address of an element; `sure` where it is known to be inside of its buffer."""
    base, kind = frame.places[name].pointer, stored_type(frame.kernel.fn.buffers[name].dtype, frame.kernel.target)
    inside = sure and form.const >= 0 and _is_positive(frame, form)

    variable = total(frame, form)
    if variable is not None:
        base = _moved(frame, base, variable, kind, inside)
    return _moved(frame, base, frame.index(form.const), kind, inside) if form.const else base


def _moved(frame: Frame, base: Value, distance: Value, kind: Type, inside: bool) -> Value:
    """The address `distance` elements on; made once."""

    def make() -> Value:
        return frame.builder.gep(base, [distance], inbounds=inside, source_etype=kind)

    return frame.once(("pointer", base, distance, str(kind), inside), make)


def _is_positive(frame: Frame, form: Linear) -> bool:
    """Whether no part of a sum goes back, so that every partial sum is inside of the buffer too."""
    return all(factor > 0 and bounds(term, frame.ranges)[0] >= 0 for term, factor in form.terms.items())


def alignment(frame: Frame, name: str, form: Linear) -> int:
    """The bytes to which an element is known to be aligned."""
    size = nbytes(frame.kernel.fn.buffers[name].dtype)
    return gcd(frame.places[name].align, *(size * factor for factor in form.terms.values()), size * form.const)
