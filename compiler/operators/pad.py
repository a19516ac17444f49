"""Padding: elements added on each side of each dimension, or with negative amounts taken away.

What is taken away is gone before the rest is padded: no element of it comes back in a mirror or from the other end.
Modes are those of numpy: "constant", "edge" (the last element again), "reflect" (mirrored, the edge once), "wrap" (from
the other end).
"""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler import te
from vdla.compiler.operators.checks import OperatorError, check_choice, check_tensor, integers, number, static_extent
from vdla.compiler.operators.results import result_name

MODES = ("constant", "edge", "reflect", "wrap")


def pad(
    x: te.Tensor,
    before: Sequence[int],
    after: Sequence[int],
    value: te.Number = 0,
    mode: str = "constant",
    name: str | None = None,
) -> te.Tensor:
    """`x` with `before` and `after` elements added on each side of each dimension; `value` fills in mode "constant"."""
    check_tensor("pad", "x", x)
    check_choice("pad", "mode", mode, MODES)
    rank = len(x.shape)
    low, high = integers("pad", "before", before, rank), integers("pad", "after", after, rank)
    shape = tuple(padded_extent(d, b, n, a) for d, (b, n, a) in enumerate(zip(low, x.shape, high, strict=True)))
    result = result_name(x, "pad", name)
    if mode == "constant":
        fill = te.const(number("pad", "value", value), x.dtype)
        return te.compute(shape, lambda *i: constant_padded(x, low, high, i, fill), result)

    def moved(*i: te.Value) -> te.Value:
        sides = zip(i, low, x.shape, high, strict=True)
        return x[tuple(source(d, mode, at, b, n, a) for d, (at, b, n, a) in enumerate(sides))]

    return te.compute(shape, moved, result)


def padded_extent(d: int, before: int, extent: te.Dim, after: int) -> te.Dim:
    """The extent of a padded dimension."""
    if before == after == 0:
        return extent
    extent = static_extent("pad", "a dimension that changes", extent)
    total = before + extent + after
    if total < 1:
        raise OperatorError(f"pad: dimension {d} must keep elements, got {before} and {after} for {extent}")
    return total


def constant_padded(
    x: te.Tensor, low: Sequence[int], high: Sequence[int], at: Sequence[te.Value], fill: te.Value
) -> te.Value:
    """An element of `x` or the fill value."""
    moved = tuple(i - b for i, b in zip(at, low, strict=True))
    inside = [m >= 0 for m, b in zip(moved, low, strict=True) if b > 0]
    inside += [m < n for m, n, a in zip(moved, x.shape, high, strict=True) if a > 0]
    return te.select(te.all_of(*inside), x[moved], fill) if inside else x[moved]


def source(d: int, mode: str, at: te.Value, before: int, extent: te.Dim, after: int) -> te.Value:
    """The place in `x` whose element stands `at` a place of the result, along dimension d."""
    if before <= 0 and after <= 0:
        return at - before
    start = max(0, -before)
    count = static_extent("pad", "a dimension that changes", extent) - start - max(0, -after)
    if count < 1:
        raise OperatorError(f"pad: dimension {d} must keep elements of x, got {before} and {after} for {extent}")
    return repeated(mode, at - max(0, before), count) + start


def repeated(mode: str, place: te.Value, count: int) -> te.Value:
    """The place in [0, count) whose element stands at one that may be outside."""
    if mode == "edge" or count == 1:
        return te.clip(place, 0, count - 1)
    if mode == "wrap":
        return place % count
    period = 2 * (count - 1)
    turned = place % period
    return te.minimum(turned, period - turned)
