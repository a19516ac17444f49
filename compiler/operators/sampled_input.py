"""What of its padded input a convolution reads, as a stage of its own.

Windows of one tap leave elements out where they move by more than one; taking only those that are read makes the
stride of the sums 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.operators.windows import Windows


@dataclass(frozen=True, slots=True)
class Taken:
    """Along each spatial dimension: every `steps`-th element of the padded input, from the first padding on."""

    windows: Windows
    steps: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """How many elements are taken."""
        windows = self.windows
        return tuple((windows.last(d) + windows.before[d]) // step + 1 for d, step in enumerate(self.steps))

    def places(self, *at: te.Value) -> list[te.Value]:
        """Where the elements lie in the input."""
        return [at[d] * step - self.windows.before[d] for d, step in enumerate(self.steps)]

    def stride(self, d: int) -> int:
        """How far neighbouring windows are from each other among the elements."""
        return self.windows.strides[d] // self.steps[d]

    def tap(self, d: int, window: te.Value, tap: te.Value | te.ReduceAxis) -> te.Value:
        """The element that a tap of a window reads, along one dimension."""
        return window * self.stride(d) + tap * self.windows.dilations[d]


def taken(windows: Windows) -> Taken:
    """What convolutions with these windows read."""
    steps = (stride if taps == 1 else 1 for taps, stride in zip(windows.kernel, windows.strides, strict=True))
    return Taken(windows, tuple(steps))
