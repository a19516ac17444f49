"""Sliding windows over the spatial dimensions of a tensor [N, C, spatial...].

Options are one integer for all spatial dimensions or one for each. `pads` is ONNX's: the padding
before each dimension, then after each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.operators.checks import OperatorError, check_choice, extents_of, integers, static_extents

Ints = int | Sequence[int]
_AUTO_PADS = ("SAME_UPPER", "SAME_LOWER")


@dataclass(frozen=True, slots=True)
class Windows:
    """For each spatial dimension: extent of the input, taps, padding, number of windows."""

    extents: tuple[int, ...]
    kernel_shape: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads_before: tuple[int, ...]
    pads_after: tuple[int, ...]
    counts: tuple[int, ...]

    @property
    def pads(self) -> tuple[int, ...]:
        """The padding in ONNX's order."""
        return (*self.pads_before, *self.pads_after)

    def position(self, d: int, window: te.Operand, tap: te.Operand) -> te.Value:
        """The input index of a tap along spatial dimension `d`; out of range in the padding."""
        start = te.as_value(window, "windows") * self.strides[d]
        return start + te.as_value(tap, "windows") * self.dilations[d] - self.pads_before[d]

    def inside(self, position: Sequence[te.Value]) -> list[te.Value]:
        """The conditions under which a position is in the input; empty if no window leaves it."""
        conditions = []
        for d, index in enumerate(position):
            if self.pads_before[d]:
                conditions.append(index >= 0)
            if self.last(d) >= self.extents[d]:
                conditions.append(index < self.extents[d])
        return conditions

    def covers_input(self, d: int, window: int) -> bool:
        """Whether a window covers any input element along dimension `d`."""
        start, gap = window * self.strides[d] - self.pads_before[d], self.dilations[d]
        first = max(0, -(start // gap))
        return first < self.kernel_shape[d] and start + first * gap < self.extents[d]

    def last(self, d: int) -> int:
        """The greatest position that a window reads along dimension `d`."""
        span = (self.counts[d] - 1) * self.strides[d] + (self.kernel_shape[d] - 1) * self.dilations[d]
        return span - self.pads_before[d]


def windows_of(
    where: str,
    extents: Sequence[te.Dim],
    kernel_shape: Ints,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
) -> Windows:
    """The windows with these options.

    `ceil_mode` rounds the number of windows up: the last one may leave the padded input, but must
    not begin in the padding after the input.
    """
    rank = len(extents)
    extents = static_extents(where, "spatial extent", extents)
    taps = integers(where, "kernel_shape", kernel_shape, rank, 1)
    steps = integers(where, "strides", strides, rank, 1)
    gaps = integers(where, "dilations", dilations, rank, 1)
    margins = integers(where, "pads", pads, 2 * rank, 0)
    pads_before, pads_after = margins[:rank], margins[rank:]
    counts = []
    for d in range(rank):
        span = (taps[d] - 1) * gaps[d] + 1
        spare = extents[d] + pads_before[d] + pads_after[d] - span
        if spare < 0:
            found = f"a window of {span} over {spare + span} along spatial dimension {d}"
            raise OperatorError(f"{where}: a window must not be longer than the padded input, got {found}")
        count = (-(-spare // steps[d]) if ceil_mode else spare // steps[d]) + 1
        begins_outside = (count - 1) * steps[d] >= extents[d] + pads_before[d]
        counts.append(count - 1 if ceil_mode and begins_outside else count)
    return Windows(
        extents=tuple(extents),
        kernel_shape=taps,
        strides=steps,
        dilations=gaps,
        pads_before=pads_before,
        pads_after=pads_after,
        counts=tuple(counts),
    )


def same_pads(
    extents: Sequence[int],
    kernel_shape: Ints,
    strides: Ints = 1,
    dilations: Ints = 1,
    auto_pad: str = "SAME_UPPER",
) -> tuple[int, ...]:
    """The `pads` for ceil(extent / stride) windows; SAME_UPPER puts odd padding last."""
    where = "same_pads"
    check_choice(where, "auto_pad", auto_pad, _AUTO_PADS)
    extents = static_extents(where, "spatial extent", extents_of(where, "extents", extents))
    rank = len(extents)
    taps = integers(where, "kernel_shape", kernel_shape, rank, 1)
    steps = integers(where, "strides", strides, rank, 1)
    gaps = integers(where, "dilations", dilations, rank, 1)
    totals = []
    for extent, tap, step, gap in zip(extents, taps, steps, gaps, strict=True):
        totals.append(max(0, (-(-extent // step) - 1) * step + (tap - 1) * gap + 1 - extent))
    before = tuple(-(-total // 2) if auto_pad == "SAME_LOWER" else total // 2 for total in totals)
    return (*before, *(total - b for total, b in zip(totals, before, strict=True)))
