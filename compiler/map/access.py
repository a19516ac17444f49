# SPDX-License-Identifier: Apache-2.0
"""What an operand reads of a plain tensor: the form of each index, how the tensor is made; and the
dimensions of what it is packed into: blocks, loops, vectors that share an entry, and windows.

Indices are affine in the axes, plus divisions of single axes, as in the phases of a transposed
convolution.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.arith import Linear, affine, index_function, linear, var_names
from vdla.compiler.map.expression_parts import MapError
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name


@dataclass(frozen=True, slots=True)
class IndexForm:
    """An index: the sum of coefficient * axis over `terms`, a constant, and `divided`: a sum of
    quotients or remainders of axes, or None.
    """

    terms: Mapping[str, int]
    const: int = 0
    divided: ir.Expr | None = None

    @property
    def axes(self) -> frozenset[str]:
        """The axes that the index uses."""
        return frozenset(self.terms) | self.divided_axes

    @property
    def divided_axes(self) -> frozenset[str]:
        """The axes that are divided."""
        return frozenset() if self.divided is None else frozenset(var_names(self.divided))

    def expr(self) -> ir.Expr:
        """As an expression over the axes."""
        form = Linear({ir.Var(axis): factor for axis, factor in self.terms.items()}, self.const)
        return form.expr() if self.divided is None else ir.Binary("add", form.expr(), self.divided)


@dataclass(frozen=True, slots=True)
class Gather:
    """A tensor made of another one: `source[indices]` where `inside` holds, else `fill`.

    Both are over the indices p0, p1, ... of the tensor.
    """

    source: te.Tensor
    indices: tuple[ir.Expr, ...]
    inside: ir.Expr
    fill: int

    def shift(self, dimension: int) -> tuple[int, int] | None:
        """(dimension of the source, elements in front) where a dimension is one of the source,
        padded; None where it is made in another way.
        """
        name = place_name(dimension)
        positions = [at for at, index in enumerate(self.indices) if name in var_names(index)]
        form = affine(self.indices[positions[0]]) if len(positions) == 1 else None
        return (positions[0], -form[1]) if form is not None and form[0] == {name: 1} else None


@dataclass(frozen=True, slots=True)
class Access:
    """What an operand reads: a tensor, the form of each of its indices, and how it is made of an
    input; None for an input itself.
    """

    tensor: te.Tensor
    forms: tuple[IndexForm, ...]
    gather: Gather | None = None

    @property
    def axes(self) -> frozenset[str]:
        """The axes that the indices use."""
        return frozenset(axis for form in self.forms for axis in form.axes)

    @property
    def source(self) -> te.Tensor:
        """The input."""
        return self.tensor if self.gather is None else self.gather.source

    def shift(self, dimension: int) -> tuple[int, int] | None:
        """`Gather.shift`; an input is its own source."""
        return (dimension, 0) if self.gather is None else self.gather.shift(dimension)


def place_name(dimension: int) -> str:
    """The name of an index of a gathered tensor."""
    return f"p{dimension}"


def access_of(tensor: te.Tensor, load: ir.Load) -> Access:
    """The access of a load of `tensor`.

    Raises:
        MapError: an index has no form, or the tensor is computed and no gather of an input.
    """
    return Access(tensor, tuple(_form(tensor, load, d) for d in range(len(load.indices))), _gather(tensor))


def _form(tensor: te.Tensor, load: ir.Load, dimension: int) -> IndexForm:
    index = load.indices[dimension]
    form = linear(index)
    terms = {term.name: factor for term, factor in form.terms.items() if isinstance(term, ir.Var)}
    others = form.only(lambda term: not isinstance(term, ir.Var))
    if not all(_is_division(term) for term in others.terms):
        got = ir.expr_text(index)
        raise MapError(f"index {dimension} of {tensor.name} must be affine in the axes, got {got}")
    return IndexForm(terms, form.const, others.expr() if others.terms else None)


def _is_division(term: ir.Expr) -> bool:
    """Whether a term is a quotient or remainder by a constant, of axes."""
    loads = any(isinstance(e, ir.Load) for e in ir.walk_expr(term))
    return isinstance(term, ir.Binary) and term.op in ("floordiv", "mod") and isinstance(term.b, ir.Const) and not loads


def _gather(tensor: te.Tensor) -> Gather | None:
    """How a computed tensor is made of an input; None for an input."""
    stage = tensor.stage
    if stage is None:
        return None
    rule = f"{tensor.name} must be an input, or elements of one and a constant"
    if not isinstance(stage, Stage) or stage.reduction is not None or len(stage.reads) != 1:
        raise MapError(f"{rule}, got another computation")
    places = {axis_name(axis): ir.Var(place_name(d)) for d, axis in enumerate(stage.axes)}
    match ir.substitute(stage.value.expr, places):
        case ir.Select(cond=inside, a=ir.Load() as load, b=ir.Const(value=fill)):
            pass
        case ir.Load() as load:
            inside, fill = ir.Const(True, "bool"), 0
        case value:
            raise MapError(f"{rule}, got {ir.expr_text(value)}")
    (source,) = stage.reads
    if source.stage is not None:
        raise MapError(f"{rule}, got elements of the computed {source.name}")
    return Gather(source, load.indices, inside, int(fill))


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
