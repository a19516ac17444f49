# SPDX-License-Identifier: Apache-2.0
"""Rule of TopK, in two forms without a branch.

In short rows the place of each element in the order is the number of elements before it, by
comparing all pairs. In longer rows each result is the best of the elements that come after the
result before it. Where many results of a long row are wanted, NumPy sorts it instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from vdla.compiler import operators, te
from vdla.compiler.graph.operators.record import OperatorRecord
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall
from vdla.compiler.ir import is_float, limits
from vdla.compiler.operators.results import accumulator_dtype, to_accumulator

_MOST_ELEMENTS = 128
"""Of a row: more than these take longer to compare in pairs than to sort."""
_MOST_PASSES = 32
"""Over a longer row: more results than these take longer to select than to sort."""
_ZERO, _ONE = te.const(0, "int32"), te.const(1, "int32")
_BEHIND_ALL = te.const((1 << 31) - 1, "int32")


def _top_k(call: NodeCall) -> tuple[te.Tensor, ...]:
    """Of equal elements the one with the lower index comes first; NaN counts as the largest."""
    x, count = call.tensor(0), call.required(1, "k")[0]
    axis, is_largest = call.attribute("axis") % len(x.shape), bool(call.attribute("largest"))
    extent = x.shape[axis]
    if not 0 < count <= extent:
        call.decline(f"have k from 1 to {extent}, the extent, got {count}")
    name = next(filter(None, call.node.outputs))
    if extent <= _MOST_ELEMENTS:
        places = _places_by_rank(x, axis, count, is_largest, name)
    else:
        if count > _MOST_PASSES or not is_largest:
            got = f"k {count} of the {'largest' if is_largest else 'smallest'} of {extent}"
            call.decline(
                f"have at most {_MOST_ELEMENTS} elements along the axis, or k up to {_MOST_PASSES} of the "
                f"largest, got {got}"
            )
        places = _places_by_selection(x, axis, count, name)
    names = [call.name(n) if call.wants(n) else f"{name}_{what}" for n, what in enumerate(("values", "indices"))]
    values = te.compute(places.shape, lambda *i: x[_at(i, axis, places[i])], names[0])
    return values, te.compute(places.shape, lambda *i: te.cast("int64", places[i]), names[1])


def _at(i: Sequence[te.Value], axis: int, place: te.Operand) -> tuple[te.Operand, ...]:
    """An index with another place along the axis."""
    return (*i[:axis], place, *i[axis + 1 :])


def _places_by_rank(x: te.Tensor, axis: int, count: int, is_largest: bool, name: str) -> te.Tensor:
    """The places along the axis of the first `count` elements, from the ranks of all."""
    extent = x.shape[axis]

    def rank(*i: te.Value) -> te.Value:
        rival = te.reduce_axis(extent, "rival")
        mine, theirs = to_accumulator(x[i]), to_accumulator(x[_at(i, axis, rival)])
        first, second = (theirs, mine) if is_largest else (mine, theirs)
        before = _is_greater(first, second) | ((rival < i[axis]) & ~_is_greater(second, first))
        return te.sum(te.select(before, _ONE, _ZERO), axis=rival)

    ranks = te.compute(x.shape, rank, f"{name}_ranks")

    def place(*i: te.Value) -> te.Value:
        candidate = te.reduce_axis(extent, "candidate")
        chosen = ranks[_at(i, axis, candidate)] == i[axis]
        return te.sum(te.select(chosen, te.cast("int32", candidate), _ZERO), axis=candidate)

    return te.compute((*x.shape[:axis], count, *x.shape[axis + 1 :]), place, f"{name}_places")


def _places_by_selection(x: te.Tensor, axis: int, count: int, name: str) -> te.Tensor:
    """The places of the `count` largest elements, selected one after the other.

    Every `groups`-th element of a row is of one group, whose largest element is kept; a step takes
    the largest of these, and looks in its group for the next.
    """
    rows, extent = (*x.shape[:axis], *x.shape[axis + 1 :]) or (1,), x.shape[axis]
    groups = _groups(extent)
    dtype = accumulator_dtype(x.dtype)
    least = te.const(limits(dtype)[0], dtype)

    def largest(
        row: Sequence[te.Value], group: te.Value, comes_later: Callable[[te.Value, te.Value], te.Value] | None
    ) -> tuple[te.Value, te.Value]:
        member = te.reduce_axis(-(-extent // groups), "member")
        place = te.cast("int32", member) * groups + te.cast("int32", group)
        at = row if len(x.shape) > 1 else ()
        element = to_accumulator(x[(*at[:axis], place, *at[axis:])])
        counts = place < extent if comes_later is None else (place < extent) & comes_later(element, place)
        return te.argmax(te.select(counts, element, least), member, position=te.select(counts, place, _BEHIND_ALL))

    def cell(step: te.Value, values: te.Tensor, places: te.Tensor) -> tuple[te.Tensor, ...]:
        def best(*i: te.Value) -> tuple[te.Value, te.Value]:
            group = te.reduce_axis(groups, "group")
            return te.argmax(values[(*i, group)], group, position=places[(*i, group)])

        value, place = te.compute(rows, best, (f"{name}_best", f"{name}_selected"))

        def next_best(*i: te.Value) -> tuple[te.Value, te.Value]:
            def comes_later(element: te.Value, position: te.Value) -> te.Value:
                equal = ~_is_greater(element, value[i]) & ~_is_greater(value[i], element)
                return _is_greater(value[i], element) | (equal & (position > place[i]))

            return largest(i, place[i] % groups, comes_later)

        following = te.compute(rows, next_best, (f"{name}_next", f"{name}_next_place"))

        def updated(kept: te.Tensor, new: te.Tensor, stage: str) -> te.Tensor:
            def value_of(*i: te.Value) -> te.Value:
                return te.select(te.cast("int32", i[-1]) == place[i[:-1]] % groups, new[i[:-1]], kept[i])

            return te.compute((*rows, groups), value_of, stage)

        new_values, new_places = following
        return (
            updated(values, new_values, f"{name}_values"),
            updated(places, new_places, f"{name}_places_of_groups"),
            operators.identity(place, name=f"{name}_place"),
        )

    first = te.compute(
        (*rows, groups), lambda *i: largest(i[:-1], i[-1], None), (f"{name}_first", f"{name}_first_place")
    )
    selected = te.scan(count, cell, first)[2]

    def place_of(*i: te.Value) -> te.Value:
        return selected[(i[axis], *((*i[:axis], *i[axis + 1 :]) or (te.const(0, "int32"),)))]

    return te.compute((*x.shape[:axis], count, *x.shape[axis + 1 :]), place_of, f"{name}_places")


def _groups(extent: int) -> int:
    """Groups of a row: a power of two, more groups than elements in each, as these are strided."""
    return 1 << (math.isqrt(extent).bit_length() + 2)


def _is_greater(a: te.Value, b: te.Value) -> te.Value:
    return (a > b) | ((a != a) & (b == b)) if is_float(a.dtype) else a > b


TOP_K = (OperatorRecord(name="TopK", fusion=FusionClass.OPAQUE, expression=_top_k),)
