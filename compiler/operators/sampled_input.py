"""The elements of its padded input that a convolution reads, as a stage of its own.

Windows of one tap with a stride skip elements; a stage of only the elements read makes the stride
of the sums 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.operators.windows import Windows


@dataclass(frozen=True, slots=True)
class SampledInput:
    """Every `steps[d]`-th element of the padded input along each spatial dimension d."""

    windows: Windows
    steps: tuple[int, ...]

    @property
    def extents(self) -> tuple[int, ...]:
        """The number of sampled elements along each dimension."""
        windows = self.windows
        return tuple((windows.last(d) + windows.pads_before[d]) // step + 1 for d, step in enumerate(self.steps))

    def position(self, *sample: te.Value) -> list[te.Value]:
        """The input index of a sample, out of range in the padding."""
        return [sample[d] * step - self.windows.pads_before[d] for d, step in enumerate(self.steps)]

    def stride(self, d: int) -> int:
        """The distance of neighbouring windows in samples."""
        return self.windows.strides[d] // self.steps[d]

    def sample(self, d: int, window: te.Value, tap: te.Value | te.ReduceAxis) -> te.Value:
        """The sample that a tap of a window reads along dimension `d`."""
        return window * self.stride(d) + tap * self.windows.dilations[d]


def sampled_input(windows: Windows) -> SampledInput:
    """The samples that a convolution with these windows reads."""
    steps = (stride if taps == 1 else 1 for taps, stride in zip(windows.kernel_shape, windows.strides, strict=True))
    return SampledInput(windows, tuple(steps))
