# SPDX-License-Identifier: Apache-2.0
"""Rule of TopK: the place of each element in the order is the number of elements before it.

This compares all pairs, without a branch; a row of many elements is sorted by NumPy instead.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.graph.operators.record import OperatorRecord
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall
from vdla.compiler.ir import is_float
from vdla.compiler.operators.results import to_accumulator

_MOST_ELEMENTS = 128
"""Of a row: more than these take longer to compare than to sort."""
_ZERO, _ONE = te.const(0, "int32"), te.const(1, "int32")


def _top_k(call: NodeCall) -> tuple[te.Tensor, ...]:
    """Of equal elements the one with the lower index comes first; NaN counts as the largest."""
    x, count = call.tensor(0), call.required(1, "k")[0]
    axis, is_largest = call.attribute("axis") % len(x.shape), bool(call.attribute("largest"))
    extent = x.shape[axis]
    if not 0 < count <= extent:
        call.decline(f"have k from 1 to {extent}, the extent, got {count}")
    if extent > _MOST_ELEMENTS:
        call.decline(f"have at most {_MOST_ELEMENTS} elements along the axis, got {extent}")
    name = next(filter(None, call.node.outputs))

    def at(i: tuple[te.Value, ...], place: te.Operand) -> tuple[te.Operand, ...]:
        return (*i[:axis], place, *i[axis + 1 :])

    def rank(*i: te.Value) -> te.Value:
        rival = te.reduce_axis(extent, "rival")
        mine, theirs = to_accumulator(x[i]), to_accumulator(x[at(i, rival)])
        first, second = (theirs, mine) if is_largest else (mine, theirs)
        before = _is_greater(first, second) | ((rival < i[axis]) & ~_is_greater(second, first))
        return te.sum(te.select(before, _ONE, _ZERO), axis=rival)

    ranks = te.compute(x.shape, rank, f"{name}_ranks")
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])

    def place(*i: te.Value) -> te.Value:
        candidate = te.reduce_axis(extent, "candidate")
        chosen = ranks[at(i, candidate)] == i[axis]
        return te.sum(te.select(chosen, te.cast("int32", candidate), _ZERO), axis=candidate)

    places = te.compute(shape, place, f"{name}_places")
    names = [call.name(n) if call.wants(n) else f"{name}_{what}" for n, what in enumerate(("values", "indices"))]
    values = te.compute(shape, lambda *i: x[at(i, places[i])], names[0])
    return values, te.compute(shape, lambda *i: te.cast("int64", places[i]), names[1])


def _is_greater(a: te.Value, b: te.Value) -> te.Value:
    return (a > b) | ((a != a) & (b == b)) if is_float(a.dtype) else a > b


TOP_K = (OperatorRecord(name="TopK", fusion=FusionClass.OPAQUE, expression=_top_k),)
