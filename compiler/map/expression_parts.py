# SPDX-License-Identifier: Apache-2.0
"""The parts of a plain expression: sums, their epilogue, tables, and a choice of its elements.

Tables are operands that an intrinsic indexes by data, such as those of a look-up. A plain table may
have another shape than the entry that it becomes, as long as both have the same elements in the
same order: what counts is the place of an element in the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from vdla.compiler import ir, te
from vdla.compiler.te import Stage
from vdla.support.errors import Error


@dataclass(frozen=True, slots=True)
class Refusal:
    """A mapping that is not legal, and the first reason."""

    mapping: str
    reason: str

    def __str__(self) -> str:
        return f"{self.mapping}: {self.reason}"


class MapError(Error, ValueError):
    """An expression that no intrinsic covers, or a mapping that is not legal.

    Of an expression without a mapping, `refused` are the mappings that are not legal, or, if there
    are none, `others` are the intrinsics that compute something else.
    """

    def __init__(self, message: str, refused: tuple[Refusal, ...] = (), others: tuple[Refusal, ...] = ()) -> None:
        super().__init__(message)
        self.refused, self.others = refused, others


Pairs = tuple[tuple[ir.Expr, ir.Expr], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A plain tensor, and the shape of the entry that holds it on the chip."""

    source: te.Tensor
    entry: tuple[int, ...]

    def load(self, name: str, indices: Sequence[ir.Expr]) -> ir.Load:
        """The element at these plain indices in the entry, which is called `name`."""
        shape = tuple(map(int, self.source.shape))
        if shape == self.entry:
            return ir.Load(name, tuple(indices))
        place, places = _place(indices, shape), list[ir.Expr]()
        for extent in reversed(self.entry[1:]):
            places.insert(0, ir.Binary("mod", place, ir.Const(extent)))
            place = ir.Binary("floordiv", place, ir.Const(extent))
        return ir.Load(name, (place, *places))

    def packed(self, name: str) -> te.Tensor:
        """The entry as a computation over the plain tensor."""
        result: te.Tensor = te.compute(self.entry, lambda *at: self.source[self._indices(at)], name)
        return result

    def _indices(self, at: tuple[te.Value, ...]) -> tuple[te.Value, ...]:
        shape = tuple(map(int, self.source.shape))
        if shape == self.entry:
            return at
        place = at[0]
        for extent, index in zip(self.entry[1:], at[1:], strict=True):
            place = place * extent + index
        indices: list[te.Value] = []
        for extent in reversed(shape[1:]):
            place, index = place // extent, place % extent
            indices.insert(0, index)
        return (place, *indices)


def is_table(load: ir.Load) -> bool:
    """Whether an index of a load depends on data."""
    return any(ir.reads_memory(index) for index in load.indices)


def tables_of(stage: te.Stage) -> tuple[str, ...]:
    """The tensors that a stage reads at indices of data."""
    loads = (e for e in ir.walk_expr(stage.value.expr) if isinstance(e, ir.Load))
    return tuple(dict.fromkeys(load.buffer for load in loads if is_table(load)))


def index_pairs(pattern: ir.Load, entry: Sequence[int], target: ir.Load, source: te.Tensor) -> list[Pairs]:
    """The ways to compare the indices of a table in a pattern and in an expression: each pair must
    be equal in form. None where the tables have different elements.
    """
    shape = tuple(map(int, source.shape))
    if source.stage is not None or prod(shape) != prod(entry):
        return []
    whole = ((_place(pattern.indices, entry), _place(target.indices, shape)),)
    return [tuple(zip(pattern.indices, target.indices, strict=True)), whole] if shape == tuple(entry) else [whole]


def _place(indices: Sequence[ir.Expr], shape: Sequence[int]) -> ir.Expr:
    """The place of an element in the whole table; that of x // n and x % n is x."""
    place = indices[0]
    for extent, index in zip(shape[1:], indices[1:], strict=True):
        match place, index:
            case ir.Binary("floordiv", a=x, b=ir.Const(value=n)), ir.Binary("mod", a=y, b=ir.Const(value=m)) if (
                x == y and n == m == extent
            ):
                place = x
            case _:
                place = ir.Binary("add", ir.Binary("mul", place, ir.Const(extent)), index)
    return place


def viewed(output: te.Tensor) -> tuple[te.Tensor, te.Tensor | None]:
    """(result, view): the result that `output` has elements of, None where it is one itself."""
    stage = output.stage
    if isinstance(stage, Stage) and stage.reduction is None and isinstance(stage.value.expr, ir.Load):
        source, *others = stage.reads  # others are read where an index depends on data
        if source.stage is not None and not others:
            return source, output
    return output, None


def sums_of(output: te.Tensor) -> te.Tensor:
    """The sums of a result: itself where it has 32 bits, or what its epilogue reads."""
    stage = output.stage
    if isinstance(stage, Stage) and stage.reduction is None and output.dtype != "int32":
        computed = [tensor for tensor in stage.reads if tensor.stage is not None]
        if len(computed) == 1:
            return computed[0]
    return output
