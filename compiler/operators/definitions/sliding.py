# SPDX-License-Identifier: Apache-2.0
"""Windows that slide over one to three spatial axes: extents, padding, indices and borders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vdla.compiler import te
from vdla.compiler.operators.definitions.definition import DefinitionError, per_axis
from vdla.support.window import Window

_PLACES = ("z", "y", "x")  # the spatial axes, the last ones where there are fewer


@dataclass(frozen=True, slots=True)
class SlidingWindow(Window):
    """A window with names of its axes, and with classes of its places by the taps that read
    padding.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the spatial axes."""
        return _PLACES[-len(self.size) :]

    def axes(self) -> list[te.ReduceAxis]:
        """The axes within a window."""
        return [te.reduce_axis(extent, f"k{name}") for name, extent in zip(self.names, self.taps, strict=True)]

    def padded(self, data: te.Tensor, fill: int) -> te.Tensor:
        """`data` with padding of its last axes, the spatial ones."""
        if not any((*self.before, *self.after)):
            return data
        outer = (0,) * (len(data.shape) - len(self.size))
        padded: te.Tensor = te.pad(data, (*outer, *self.before), (*outer, *self.after), fill, "padded")
        return padded

    def reads(self, places: Sequence[te.Value], taps: Sequence[te.ReduceAxis]) -> list[te.Value]:
        """The element of the padded input under each tap."""
        pairs = enumerate(zip(places, taps, strict=True))
        return [self.padded_position(axis, place, tap) for axis, (place, tap) in pairs]

    def border(self, axis: int) -> Border:
        """The places along an axis whose windows reach padding."""
        extent, step, pad = self.places[axis], self.strides[axis], self.before[axis]
        front = -(-pad // step)
        end = max(0, (self.size[axis] + pad - self.span[axis]) // step + 1)  # the first window past the end
        return Border(extent, extent, 0) if end <= front else Border(extent, front, extent - min(end, extent))

    @property
    def classes(self) -> tuple[int, ...]:
        """Classes of places along each axis, by the taps that read padding."""
        return tuple(self.border(axis).classes for axis in range(len(self.size)))

    def class_of(self, places: Sequence[te.Value]) -> tuple[te.Value, ...]:
        """The class of a place along each axis."""
        return tuple(self.border(axis).class_of(place) for axis, place in enumerate(places))

    def reads_inside(self, axis: int) -> npt.NDArray[np.bool_]:
        """[class, tap]: whether the tap reads the input rather than padding, along an axis."""
        return np.asarray(self.reads_image(axis)[self.border(axis).firsts])


@dataclass(frozen=True, slots=True)
class Border:
    """Places along an axis; the windows of the first `before` and the last `after` reach padding.

    Each of these is a class, and all other places form one class.
    """

    extent: int
    before: int
    after: int

    @property
    def classes(self) -> int:
        """The number of classes."""
        return self.before + (self.before + self.after < self.extent) + self.after

    def class_of(self, place: te.Value) -> te.Value:
        """The class of a place, which counts up along the borders and is constant between them."""
        between = self.extent - self.before - self.after
        if between <= 1:
            return place
        rising = te.minimum(place, self.before) if self.before else te.const(0, "int32")
        return rising + te.maximum(place - (self.extent - self.after - 1), 0) if self.after else rising

    @property
    def firsts(self) -> list[int]:
        """The first place of each class."""
        inner = [self.before] if self.before + self.after < self.extent else []
        return [*range(self.before), *inner, *range(self.extent - self.after, self.extent)]


def place_names(where: str, size: Sequence[int]) -> tuple[str, ...]:
    """The names of spatial axes; DefinitionError if there are none or too many."""
    if not 1 <= len(size) <= len(_PLACES):
        raise DefinitionError(f"{where}: size must have 1 to {len(_PLACES)} axes, got {list(size)}")
    return _PLACES[-len(size) :]


def both_sides(where: str, pads: int | Sequence[int], axes: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(in front, behind): the padding of each axis, from one integer, one for each axis, or all in
    front and then all behind.
    """
    several = isinstance(pads, tuple | list) and len(pads) == 2 * axes
    sides = per_axis(where, "pads", pads, 2 * axes if several else axes, 0)
    return sides[:axes], sides[-axes:]


def sliding(
    where: str,
    size: Sequence[int],
    kernel: int | Sequence[int],
    strides: int | Sequence[int],
    pads: int | Sequence[int],
    dilations: int | Sequence[int],
) -> SlidingWindow:
    """The window of checked options; `pads` may also list all pads in front, then all behind.

    Raises:
        DefinitionError: an option is out of range, or the kernel exceeds the padded input.
    """
    size = tuple(size)
    axes = len(place_names(where, size))
    before, after = both_sides(where, pads, axes)
    window = SlidingWindow(
        size=size,
        taps=per_axis(where, "kernel", kernel, axes, 1),
        strides=per_axis(where, "strides", strides, axes, 1),
        before=before,
        after=after,
        dilations=per_axis(where, "dilations", dilations, axes, 1),
    )
    if min(window.places) < 1:
        got = list(window.taps)
        raise DefinitionError(f"{where}: kernel must fit the padded input of {list(size)}, got {got}")
    return window
