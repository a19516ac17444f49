"""Operators whose kernel slides over an image: their common options, checks and padded input.

Extents are those of the plain NCHW arrays; subclasses define the packed layouts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import te
from vdla.compiler.operators.definitions.sliding import Sliding
from vdla.compiler.operators.vdla.operator import TemplateError
from vdla.compiler.operators.vdla.results import Results
from vdla.hardware.config import Config
from vdla.support.integers import is_int, to_python

Pair = tuple[int, int]
Pads = tuple[int, int, int, int]  # in ONNX's order: top, left, bottom, right


def pair(name: str, what: str, value: int | Pair, low: int) -> Pair:
    """One value for both directions, or one for each."""
    both = _integers(value, 2)
    if len(both) != 2 or not all(is_int(v) and v >= low for v in both):
        raise TemplateError(f"{name}: {what} must be one or two integers >= {low}, got {value!r}")
    return both[0], both[1]


def four_pads(name: str, value: int | Pair | Pads) -> Pads:
    """The padding of the four sides, from one value, one for each direction, or ONNX's four."""
    pads = _integers(value, 4)
    if len(pads) not in (2, 4) or not all(is_int(v) and v >= 0 for v in pads):
        raise TemplateError(f"{name}: pads must be one, two or four integers >= 0, got {value!r}")
    return pads[0], pads[1], pads[-2], pads[-1]


def _integers(value: object, count: int) -> tuple[Any, ...]:
    """The elements of a tuple or list; a single value `count` times."""
    return tuple(map(to_python, value)) if isinstance(value, (tuple, list)) else (value,) * count


def check_extents(name: str, extents: Iterable[tuple[str, Any]]) -> None:
    """Reject extents that are not positive integers."""
    for what, value in extents:
        if not is_int(value) or value < 1:
            raise TemplateError(f"{name}: {what} must be a positive integer, got {value!r}")


def check_threads(name: str, virtual_threads: int) -> None:
    """Reject a number of virtual threads below one."""
    if not is_int(virtual_threads) or virtual_threads < 1:
        raise TemplateError(f"{name}: virtual_threads must be at least 1, got {virtual_threads!r}")


def check_groups(name: str, groups: int, remedy: str = "") -> None:
    """Reject grouped convolutions, which no template supports."""
    if not is_int(groups) or groups != 1:
        raise TemplateError(f"{name}: groups must be 1, got {groups!r}{remedy}")


@dataclass(frozen=True)
class SlidingWindow:
    """A kernel over images of [batch, channels, height, width], and the options of its results."""

    config: Config
    name: str
    batch: int
    height: int
    width: int
    in_channels: int
    out_channels: int
    kernel: Pair
    strides: Pair
    pads: Pads
    dilations: Pair
    input_zero_point: int
    results: Results

    def check(self) -> None:
        """Reject options out of range and shapes without results."""
        check_extents(self.name, [("batch", self.batch), ("height", self.height), ("width", self.width)])
        self.check_channels()
        self.check_size()
        self.results.check(self.input_zero_point)

    def check_channels(self) -> None:
        """Reject channel counts that are not positive."""
        check_extents(self.name, [("in_channels", self.in_channels), ("out_channels", self.out_channels)])

    def check_size(self) -> None:
        """Reject a kernel that is larger than the padded image."""
        if min(self.out_size) < 1:
            padded = (self.height + self.pads[0] + self.pads[2], self.width + self.pads[1] + self.pads[3])
            rule = f"kernel must fit the padded input of {_by(padded)}"
            raise TemplateError(f"{self.name}: {rule}, got one that spans {_by(self.window.span)}")

    @property
    def plain(self) -> dict[str, Any]:
        """The extents, the window and the type of inputs, as definitions take them."""
        return {
            "batch": self.batch,
            "size": (self.height, self.width),
            "kernel": self.kernel,
            "strides": self.strides,
            "pads": self.pads,
            "dilations": self.dilations,
            "dtype": self.config.inp_dtype,
        }

    @property
    def window(self) -> Sliding:
        """The window of the definition."""
        size, before, after = (self.height, self.width), self.pads[:2], self.pads[2:]
        return Sliding(size, self.kernel, self.strides, before, after, self.dilations)

    @property
    def out_size(self) -> Pair:
        """Rows and columns of results."""
        rows, cols = self.window.places
        return rows, cols

    @property
    def taps(self) -> int:
        """Positions of the kernel."""
        return self.kernel[0] * self.kernel[1]

    @property
    def classes(self) -> Pair:
        """Classes of rows and of columns by the taps that read padding."""
        return self.window.border(0).classes, self.window.border(1).classes

    def class_of(self, index: tuple[te.Value, ...]) -> tuple[te.Value, te.Value]:
        """The classes of the row and of the column of [n, c, y, x]."""
        return self.window.border(0).class_of(index[2]), self.window.border(1).class_of(index[3])

    def inside_by_class(self, axis: int) -> npt.NDArray[np.bool_]:
        """[class, tap]: whether the tap reads the image, in one direction."""
        return self.window.reads_inside(axis)[self.window.border(axis).firsts]


def _by(extents: tuple[int, ...]) -> str:
    return "x".join(map(str, extents))
