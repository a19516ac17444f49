"""Tables: operands that an intrinsic indexes by data, such as those of a look-up.

A plain table may have another shape than the entry that it becomes, as long as both have the same
elements in the same order: what counts is the place of an element in the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from vdla.compiler import ir, te

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
        found: te.Tensor = te.compute(self.entry, lambda *at: self.source[self._indices(at)], name)
        return found

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
