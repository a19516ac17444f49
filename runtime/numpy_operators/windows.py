"""Sliding windows over the spatial dimensions of [N, C, spatial...]."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.runtime.numpy_operators.function import Array, Attributes


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """For each spatial dimension: taps, strides, dilations, padding, number of windows."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    counts: tuple[int, ...]

    def padded(self, x: Array, value: float) -> Array:
        """The input with padding, as far as windows reach."""
        reach = [
            (count - 1) * stride + (taps - 1) * gap + 1
            for count, stride, taps, gap in zip(self.counts, self.strides, self.kernel, self.dilations, strict=True)
        ]
        extents = x.shape[2:]
        after = [max(r - b - n, a) for r, b, n, a in zip(reach, self.before, extents, self.after, strict=True)]
        widths = [(0, 0), (0, 0), *zip(self.before, after, strict=True)]
        return np.pad(x, widths, constant_values=np.asarray(value).astype(x.dtype))

    def taps(self) -> Iterator[tuple[int, ...]]:
        """The positions in the kernel."""
        return itertools.product(*map(range, self.kernel))

    def under(self, padded: Array, tap: Sequence[int]) -> Array:
        """[N, C, windows...]: the padded elements under one tap."""
        places = [
            slice(t * gap, t * gap + max((count - 1) * stride + 1, 0), stride)
            for t, gap, count, stride in zip(tap, self.dilations, self.counts, self.strides, strict=True)
        ]
        return padded[(slice(None), slice(None), *places)]


def windows_of(attributes: Attributes, extents: Sequence[int], kernel: Sequence[int]) -> SlidingWindows:
    """The windows of a convolution or pool with these attributes."""
    rank = len(extents)
    strides = tuple(attributes.get("strides", (1,) * rank))
    dilations = tuple(attributes.get("dilations", (1,) * rank))
    auto, ceil = attributes.get("auto_pad", "NOTSET"), attributes.get("ceil_mode", 0)
    pads = tuple(attributes.get("pads", (0,) * (2 * rank))) if auto == "NOTSET" else (0,) * (2 * rank)
    before, after = list(pads[:rank]), list(pads[rank:])
    counts = []
    for d in range(rank):
        span = (kernel[d] - 1) * dilations[d] + 1
        if auto.startswith("SAME"):
            total = max((-(-extents[d] // strides[d]) - 1) * strides[d] + span - extents[d], 0)
            before[d] = -(-total // 2) if auto == "SAME_LOWER" else total // 2
            after[d] = total - before[d]
        spare = extents[d] + before[d] + after[d] - span
        count = (-(-spare // strides[d]) if ceil else spare // strides[d]) + 1
        if ceil and (count - 1) * strides[d] >= extents[d] + before[d]:
            count -= 1
        counts.append(count)
    return SlidingWindows(
        kernel=tuple(kernel),
        strides=strides,
        dilations=dilations,
        before=tuple(before),
        after=tuple(after),
        counts=tuple(counts),
    )
