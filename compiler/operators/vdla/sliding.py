"""What every operator with a kernel that slides over an image shares: its options, their checks, its padded input.

Extents are those of plain arrays; a child says how its tensors are packed in blocks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from vdla.compiler import te
from vdla.compiler.operators.vdla.operator import TemplateError
from vdla.compiler.operators.vdla.packing import check_range
from vdla.compiler.operators.vdla.results import Results
from vdla.hardware.config import Config
from vdla.support.integers import is_int, to_python

Pair = tuple[int, int]


def pair(name: str, what: str, value: int | Pair, low: int) -> Pair:
    """One number for both directions, or two."""
    both = tuple(map(to_python, value)) if isinstance(value, (tuple, list)) else (value, value)
    if len(both) != 2 or not all(is_int(v) and v >= low for v in both):
        raise TemplateError(f"{name}: {what} must be one or two integers >= {low}, got {value!r}")
    return both[0], both[1]


def check_extents(name: str, extents: Iterable[tuple[str, Any]]) -> None:
    """Refuse extents that are no positive integers."""
    for what, value in extents:
        if not is_int(value) or value < 1:
            raise TemplateError(f"{name}: {what} must be a positive integer, got {value!r}")


def check_threads(name: str, virtual_threads: int) -> None:
    """Refuse a number of virtual threads that is none."""
    if not is_int(virtual_threads) or virtual_threads < 1:
        raise TemplateError(f"{name}: virtual_threads must be at least 1, got {virtual_threads!r}")


@dataclass(frozen=True)
class Sliding:
    """A kernel over images of [batch, channels, height, width]; `results` says how its sums leave."""

    config: Config
    name: str
    batch: int
    height: int
    width: int
    in_channels: int
    out_channels: int
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    input_zero_point: int
    results: Results

    def check(self) -> None:
        """Refuse a shape without results and options out of range."""
        check_extents(self.name, [("batch", self.batch), ("height", self.height), ("width", self.width)])
        self.check_channels()
        self.check_size()
        self.results.check()
        check_range(f"{self.name}: input_zero_point", self.input_zero_point, self.config.inp_dtype)
        if self.results.raw and self.input_zero_point:
            raise TemplateError(f"{self.name}: input_zero_point must be 0 for raw sums, got {self.input_zero_point}")

    def check_channels(self) -> None:
        """Refuse numbers of channels that are none."""
        check_extents(self.name, [("in_channels", self.in_channels), ("out_channels", self.out_channels)])

    def check_size(self) -> None:
        """Refuse a kernel that does not fit."""
        if min(self.out_size) < 1:
            raise TemplateError(
                f"{self.name}: kernel must fit the padded input, got one that reaches over {_by(self.reach)} on "
                f"{self.height}x{self.width} with padding {_by(self.padding)}"
            )

    @property
    def reach(self) -> Pair:
        """Input rows and columns that one result sees."""
        (kh, kw), (dh, dw) = self.kernel, self.dilation
        return (kh - 1) * dh + 1, (kw - 1) * dw + 1

    @property
    def out_size(self) -> Pair:
        """Rows and columns of results."""
        (ph, pw), (rh, rw), (sh, sw) = self.padding, self.reach, self.stride
        return (self.height + 2 * ph - rh) // sh + 1, (self.width + 2 * pw - rw) // sw + 1

    @property
    def taps(self) -> int:
        """Positions of the kernel."""
        return self.kernel[0] * self.kernel[1]


def _by(extents: Pair) -> str:
    return f"{extents[0]}x{extents[1]}"


@dataclass(frozen=True)
class Padding:
    """The image that a kernel reads: `before` rows and columns of `fill`, then the input, then fill up to `size`.

    Of the input, every `row_step`-th row.
    """

    before: Pair
    size: Pair
    fill: int
    row_step: int = 1

    def stage(self, data: te.Tensor, dtype: str, name: str = "padded") -> te.Tensor:
        """`data` padded and cast: [n, c, *size, batch, block]."""
        height, width = data.shape[2:4]

        def value(pn: te.Value, pc: te.Value, py: te.Value, px: te.Value, pb: te.Value, pi: te.Value) -> te.Value:
            y = _moved(py * self.row_step, self.before[0])
            x = _moved(px, self.before[1])
            inside = _inside(y, self.before[0], (self.size[0] - 1) * self.row_step, height)
            inside += _inside(x, self.before[1], self.size[1] - 1, width)
            element = te.cast(dtype, data[pn, pc, y, x, pb, pi])
            return te.select(te.all_of(*inside), element, te.const(self.fill, dtype)) if inside else element

        return te.compute((*data.shape[:2], *self.size, *data.shape[4:]), value, name)


def _moved(index: te.Value, before: int) -> te.Value:
    return index - before if before else index


def _inside(index: te.Value, before: int, last: int, extent: int) -> list[te.Value]:
    """The conditions under which an index that runs from -before to last - before is in the image."""
    return ([index >= 0] if before else []) + ([index < extent] if last - before >= extent else [])
