"""The dimensions of a packed operand: blocks, loops, vectors that share an entry, and windows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.arith import index_function
from vdla.compiler.map.access import IndexForm


@dataclass(frozen=True, slots=True)
class BlockDim:
    """Blocks of an axis of the intrinsic."""

    axis: str


@dataclass(frozen=True, slots=True)
class LoopDim:
    """An axis of the computation outside of the intrinsic."""

    axis: str


@dataclass(frozen=True, slots=True)
class VectorDim:
    """Fused axes outside of the intrinsic; `count` of them share a buffer entry, and are its first
    lanes.
    """

    axes: tuple[str, ...]
    count: int


@dataclass(frozen=True, slots=True)
class WindowDim:
    """A dimension of the plain tensor over which a window moves, `step` elements apart.

    `dimension` is one of the source, `before` elements of padding lie in front of it; `place` is
    the dimension of the padded tensor. `offsets` are the least and the largest value of
    `form.divided`.
    """

    dimension: int
    place: int
    before: int
    form: IndexForm
    step: int
    offsets: tuple[int, int] = (0, 0)

    @property
    def strides(self) -> dict[str, int]:
        """Elements of the window that each axis moves by."""
        return {axis: factor // self.step for axis, factor in self.form.terms.items()}

    @property
    def first(self) -> int:
        """The element of the padded tensor at which the window begins."""
        return self.form.const + self.offsets[0]

    @property
    def reach(self) -> int:
        """Elements that `form.divided` adds."""
        return self.offsets[1] - self.offsets[0]

    @property
    def moves(self) -> IndexForm:
        """The place within the window."""
        return IndexForm(self.strides, -self.offsets[0], self.form.divided)

    def extent(self, extents: Mapping[str, int]) -> int:
        """Elements that axes of these extents reach."""
        return 1 + self.reach + sum(stride * (extents[axis] - 1) for axis, stride in self.strides.items())


Dimension = BlockDim | LoopDim | VectorDim | WindowDim


def form_values(form: IndexForm, extents: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """The values of an index, with a dimension for each axis of `extents`."""
    function = index_function(form.expr())
    assert function is not None, ir.expr_text(form.expr())
    grid = np.ogrid[tuple(slice(0, extent) for extent in extents.values())]
    return np.asarray(function(dict(zip(extents, grid, strict=True))), np.int64)
