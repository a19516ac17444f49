# SPDX-License-Identifier: Apache-2.0
"""A window that slides over the spatial axes of an image.

Places and positions are integers or expressions of a compiler, alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

AUTO_PADS = ("SAME_UPPER", "SAME_LOWER")
"""Padding for ceil(size / stride) places; what is odd of it comes last, or first."""


class _Sum(Protocol):
    def __add__(self, other: Any, /) -> Any: ...  # noqa: ANN401  integers or expressions
    def __sub__(self, other: int, /) -> Any: ...  # noqa: ANN401


_Position = TypeVar("_Position", bound=_Sum)
_Position_co = TypeVar("_Position_co", bound=_Sum, covariant=True)


class _Index(Protocol[_Position_co]):
    def __mul__(self, factor: int, /) -> _Position_co: ...


@dataclass(frozen=True, slots=True)
class Window:
    """A window over an image of extents `size`: on each axis `taps` elements, `dilations` apart,
    `strides` from place to place, with padding `before` and `after` the image.

    `rounds_up` adds a last place that leaves the padded image, but begins in the image or before.
    """

    size: tuple[int, ...]
    taps: tuple[int, ...]
    strides: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    dilations: tuple[int, ...]
    rounds_up: bool = False

    @property
    def pads(self) -> tuple[int, ...]:
        """The padding in ONNX's order."""
        return (*self.before, *self.after)

    @property
    def span(self) -> tuple[int, ...]:
        """Elements from the first to the last tap along each axis."""
        return tuple((taps - 1) * gap + 1 for taps, gap in zip(self.taps, self.dilations, strict=True))

    @property
    def places(self) -> tuple[int, ...]:
        """The places of the window along each axis; below 1 where it does not fit."""
        return tuple(map(self._places, range(len(self.size))))

    def _places(self, axis: int) -> int:
        stride, reach = self.strides[axis], self.size[axis] + self.before[axis]
        spare = reach + self.after[axis] - self.span[axis]
        if not self.rounds_up:
            return spare // stride + 1
        count = -(-spare // stride) + 1
        return count - ((count - 1) * stride >= reach)

    @property
    def extents(self) -> tuple[int, ...]:
        """The elements that windows span along each axis, padding included."""
        axes = zip(self.places, self.strides, self.span, strict=True)
        return tuple((count - 1) * stride + span for count, stride, span in axes)

    def last(self, axis: int) -> int:
        """The greatest position that a window reads along an axis."""
        return self.extents[axis] - self.before[axis] - 1

    @property
    def overhang(self) -> tuple[int, ...]:
        """The padding after the image that windows read, along each axis."""
        return tuple(max(0, self.last(axis) + 1 - size) for axis, size in enumerate(self.size))

    @property
    def leaves_image(self) -> bool:
        """Whether any window reads padding."""
        return any(self.before) or any(self.overhang)

    @property
    def steps(self) -> tuple[int, ...]:
        """The distance of neighbouring elements that are read: windows of one tap skip elements."""
        return tuple(stride if taps == 1 else 1 for taps, stride in zip(self.taps, self.strides, strict=True))

    @property
    def sampled(self) -> Window:
        """The window over the elements that it reads: every `steps`-th of the padded image."""
        axes = list(zip(self.extents, self.strides, self.steps, strict=True))
        size, none = tuple((extent - 1) // step + 1 for extent, _, step in axes), (0,) * len(axes)
        strides = tuple(stride // step for _, stride, step in axes)
        return replace(self, size=size, strides=strides, before=none, after=none, rounds_up=False)

    def padded_position(self, axis: int, place: _Index[_Position], tap: _Index[_Position]) -> _Position:
        """The index in the padded image of a tap at a place."""
        position: _Position = place * self.strides[axis] + tap * self.dilations[axis]
        return position

    def position(self, axis: int, place: _Index[_Position], tap: _Index[_Position]) -> _Position:
        """The index in the image, out of range in the padding."""
        position: _Position = self.padded_position(axis, place, tap) - self.before[axis]
        return position

    def reads_image(self, axis: int) -> npt.NDArray[np.bool_]:
        """[place, tap]: whether the tap reads the image rather than padding, along an axis."""
        place, tap = np.arange(self.places[axis])[:, None], np.arange(self.taps[axis])
        at = place * self.strides[axis] + tap * self.dilations[axis] - self.before[axis]
        return np.asarray((at >= 0) & (at < self.size[axis]))


def window_of(attributes: Mapping[str, Any], size: Sequence[int], taps: Sequence[int]) -> Window:
    """The window of a convolution or pool with ONNX's attributes, some of them left out."""
    axes = len(size)
    strides, dilations = (tuple(attributes.get(key, (1,) * axes)) for key in ("strides", "dilations"))
    auto, pads = attributes.get("auto_pad", "NOTSET"), (0,) * (2 * axes)
    if auto in AUTO_PADS:
        pads = same_padding(size, taps, strides, dilations, auto)
    elif auto != "VALID":
        pads = tuple(attributes.get("pads", pads))
    return Window(
        size=tuple(size),
        taps=tuple(taps),
        strides=strides,
        before=pads[:axes],
        after=pads[axes:],
        dilations=dilations,
        rounds_up=bool(attributes.get("ceil_mode", 0)),
    )


def same_padding(
    size: Sequence[int], taps: Sequence[int], strides: Sequence[int], dilations: Sequence[int], auto_pad: str
) -> tuple[int, ...]:
    """The padding of one of AUTO_PADS, in ONNX's order."""
    totals = [
        max(0, (-(-extent // stride) - 1) * stride + (count - 1) * gap + 1 - extent)
        for extent, count, stride, gap in zip(size, taps, strides, dilations, strict=True)
    ]
    before = [-(-total // 2) if auto_pad == "SAME_LOWER" else total // 2 for total in totals]
    return (*before, *(total - first for total, first in zip(totals, before, strict=True)))
