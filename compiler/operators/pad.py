# SPDX-License-Identifier: Apache-2.0
"""Padding and cropping, as ONNX's Pad: negative pads crop.

Cropping comes first: cropped elements are neither reflected nor wrapped around. Modes: "constant",
"edge" (repeats the last element), "reflect" (mirrors about the last element), "wrap" (continues at
the other end).
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.operators.checks import OperatorError, check_choice, check_tensor, integers, number, static_extent
from vdla.compiler.operators.results import result_name

_MOST_EDGES = 8
_MODES = ("constant", "edge", "reflect", "wrap")


def pad(
    x: te.Tensor,
    pads: Sequence[int],
    constant_value: te.Number = 0,
    mode: str = "constant",
    name: str | None = None,
) -> te.Tensor:
    """`x` with `pads` elements added before each dimension, then after each; negative pads crop."""
    check_tensor("pad", "x", x)
    check_choice("pad", "mode", mode, _MODES)
    rank = len(x.shape)
    margins = integers("pad", "pads", pads, 2 * rank)
    before, after = margins[:rank], margins[rank:]
    shape = tuple(_padded_extent(d, b, n, a) for d, (b, n, a) in enumerate(zip(before, x.shape, after, strict=True)))
    result = result_name(x, "pad", name)
    if mode == "constant":
        fill = te.const(number("pad", "constant_value", constant_value), x.dtype)
        return te.compute(shape, lambda *i: _element_or_fill(x, before, after, i, fill), result)

    def source(i: Sequence[te.Value]) -> tuple[te.Value, ...]:
        sides = zip(i, before, x.shape, after, strict=True)
        return tuple(_source_index(d, mode, index, b, n, a) for d, (index, b, n, a) in enumerate(sides))

    if not _has_few_edges(before[-1], x.shape[-1], after[-1]):
        return te.compute(shape, lambda *i: x[source(i)], result)
    first, end = before[-1], before[-1] + static_extent("pad", "a dimension that changes", x.shape[-1])

    def value(*i: te.Value) -> te.Value:
        row, column = source((*i[:-1], te.const(0, "int32")))[:-1], i[-1]
        inside = te.all_of(*[column >= first] * (first > 0), *[column < end] * (after[-1] > 0))
        edges = [n for n in range(end + after[-1]) if not first <= n < end]
        element = x[source((*i[:-1], te.const(edges[-1], "int32")))]
        for n in reversed(edges[:-1]):
            element = te.select(column == n, x[source((*i[:-1], te.const(n, "int32")))], element)
        return te.select(inside, x[(*row, column - first)], element)

    return te.compute(shape, value, result)


def _has_few_edges(before: int, extent: te.Dim, after: int) -> bool:
    """Whether the elements added to a row are so few that each is one load, the others a copy."""
    return before >= 0 and after >= 0 and 0 < before + after <= _MOST_EDGES and isinstance(extent, int)


def _padded_extent(d: int, before: int, extent: te.Dim, after: int) -> te.Dim:
    """The extent of a padded dimension."""
    if before == after == 0:
        return extent
    extent = static_extent("pad", "a dimension that changes", extent)
    total = before + extent + after
    if total < 1:
        raise OperatorError(f"pad: dimension {d} must keep elements, got {before} and {after} for {extent}")
    return total


def _element_or_fill(
    x: te.Tensor, before: Sequence[int], after: Sequence[int], i: Sequence[te.Value], fill: te.Value
) -> te.Value:
    """The element of `x` for index `i` of the result, or the fill value."""
    source = tuple(index - b for index, b in zip(i, before, strict=True))
    inside = [index >= 0 for index, b in zip(source, before, strict=True) if b > 0]
    inside += [index < n for index, n, a in zip(source, x.shape, after, strict=True) if a > 0]
    return te.select(te.all_of(*inside), x[source], fill) if inside else x[source]


def _source_index(d: int, mode: str, index: te.Value, before: int, extent: te.Dim, after: int) -> te.Value:
    """The index in `x` for an index of the result along dimension `d`."""
    if before <= 0 and after <= 0:
        return index - before
    start = max(0, -before)
    count = static_extent("pad", "a dimension that changes", extent) - start - max(0, -after)
    if count < 1:
        raise OperatorError(f"pad: dimension {d} must keep elements of x, got {before} and {after} for {extent}")
    return _index_in_range(mode, index - max(0, before), count) + start


def _index_in_range(mode: str, place: te.Value, count: int) -> te.Value:
    """The index in [0, count) that `mode` reads for one that may be out of range."""
    if mode == "edge" or count == 1:
        return te.clip(place, 0, count - 1)
    if mode == "wrap":
        return place % count
    period = 2 * (count - 1)
    phase = place % period
    return te.minimum(phase, period - phase)
