"""Windows that slide over the spatial dimensions of a tensor [N, C, spatial...]: extents, padding, what lies inside.

Options are given for each spatial dimension; `pads` are those before each dimension, then those after each, as ONNX
has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.operators.checks import OperatorError, dims, integers, static_extents

Ints = int | Sequence[int]


@dataclass(frozen=True, slots=True)
class Windows:
    """Along each spatial dimension: the input's extent, the window's taps and their distances, padding, and the number
    of windows."""

    extents: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    counts: tuple[int, ...]

    def position(self, d: int, window: te.Operand, tap: te.Operand) -> te.Value:
        """The index in the input, along spatial dimension `d`, of a tap of a window; outside of it in the padding."""
        start = te.as_value(window, "windows") * self.strides[d]
        return start + te.as_value(tap, "windows") * self.dilations[d] - self.before[d]

    def inside(self, places: Sequence[te.Value]) -> list[te.Value]:
        """The conditions under which a position is not padding: none where no window leaves the input."""
        conditions = []
        for d, place in enumerate(places):
            if self.before[d]:
                conditions.append(place >= 0)
            if self.last(d) >= self.extents[d]:
                conditions.append(place < self.extents[d])
        return conditions

    def holds(self, d: int, window: int) -> bool:
        """Whether a window has an element of the input, along a dimension."""
        start, gap = window * self.strides[d] - self.before[d], self.dilations[d]
        first = max(0, -(start // gap))
        return first < self.kernel[d] and start + first * gap < self.extents[d]

    def last(self, d: int) -> int:
        """The greatest position along a dimension."""
        reach = (self.counts[d] - 1) * self.strides[d] + (self.kernel[d] - 1) * self.dilations[d]
        return reach - self.before[d]


def windows_of(
    where: str,
    extents: Sequence[te.Dim],
    kernel: Ints,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
) -> Windows:
    """The windows with these options; `ceil_mode` adds a last window that leaves the padded input, unless it would
    begin behind the input and the padding before it."""
    rank = len(extents)
    extents = static_extents(where, "spatial extent", extents)
    taps = integers(where, "kernel", kernel, rank, 1)
    steps = integers(where, "strides", strides, rank, 1)
    gaps = integers(where, "dilations", dilations, rank, 1)
    margins = integers(where, "pads", pads, 2 * rank, 0)
    before, after = margins[:rank], margins[rank:]
    counts = []
    for d in range(rank):
        reach = (taps[d] - 1) * gaps[d] + 1
        spare = extents[d] + before[d] + after[d] - reach
        if spare < 0:
            found = f"a window of {reach} over {spare + reach} along spatial dimension {d}"
            raise OperatorError(f"{where}: a window must not be longer than the padded input, got {found}")
        count = (-(-spare // steps[d]) if ceil_mode else spare // steps[d]) + 1
        begins_outside = (count - 1) * steps[d] >= extents[d] + before[d]
        counts.append(count - 1 if ceil_mode and begins_outside else count)
    return Windows(tuple(extents), taps, steps, gaps, before, after, tuple(counts))


def same_pads(
    where: str, extents: Sequence[int], kernel: Ints, strides: Ints = 1, dilations: Ints = 1, lower: bool = False
) -> tuple[int, ...]:
    """The padding with which there are ceil(extent / stride) windows; an odd one goes behind, with `lower` in front."""
    extents = static_extents(where, "spatial extent", dims(where, "extents", extents))
    rank = len(extents)
    taps = integers(where, "kernel", kernel, rank, 1)
    steps = integers(where, "strides", strides, rank, 1)
    gaps = integers(where, "dilations", dilations, rank, 1)
    totals = []
    for extent, tap, step, gap in zip(extents, taps, steps, gaps, strict=True):
        totals.append(max(0, (-(-extent // step) - 1) * step + (tap - 1) * gap + 1 - extent))
    before = tuple(-(-total // 2) if lower else total // 2 for total in totals)
    return (*before, *(total - b for total, b in zip(totals, before, strict=True)))
