"""A block and the loops that hold nothing else: what its memory accesses look like along each of them.

The stride of an access along a loop is the change of its row-major place from one iteration to the next; None where it
is not a fixed number (division, data-dependent or symbolic).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.analysis.access import LeafBlock, leaves, loads, stores
from vdla.compiler.arith import Linear, var_names
from vdla.compiler.ir import storage_dtype
from vdla.compiler.schedule.loop_roles import role

NOMINAL = 64  # iterations of a loop whose extent is a symbol, where sizes are compared


@dataclass(frozen=True, slots=True)
class Nest:
    """A leaf block of `fn`; `own` are the loops, outermost first, that hold no other block."""

    fn: ir.Function
    leaf: LeafBlock
    own: tuple[ir.For, ...]

    @property
    def alone(self) -> bool:
        """Whether no loop around the block holds another one."""
        return len(self.own) == len(self.leaf.loops)

    def loops(self, kind: str) -> list[ir.For]:
        """The own loops of a role: spatial, reduce, mixed or unused."""
        return [loop for loop in self.own if role(self.leaf.block, loop.var) == kind]

    @property
    def element_bytes(self) -> int:
        """The widest element that the block reads or writes."""
        names = {load.buffer for load in loads(self.leaf.block)} | {store.buffer for store in stores(self.leaf.block)}
        return max(storage_dtype(self.fn.buffers[name].dtype).itemsize for name in names)

    def read_strides(self, var: str) -> list[int | None]:
        """The stride of each load along a loop, but for those of the block's own results."""
        own = {store.buffer for store in stores(self.leaf.block)}
        return [self.stride(load, var) for load in loads(self.leaf.block) if load.buffer not in own]

    def write_strides(self, var: str) -> list[int | None]:
        """The stride of each store along a loop."""
        return [self.stride(store, var) for store in stores(self.leaf.block)]

    def stride(self, access: ir.Load | ir.Store, var: str) -> int | None:
        """How far the place of an access moves in one iteration of a loop."""
        total = 0
        factor: int | None = 1
        shape = self.fn.buffers[access.buffer].shape
        for index, extent in zip(reversed(access.indices), reversed(shape), strict=True):
            moved = along(self.leaf.bound(index), var)
            if moved is None or (moved and factor is None):
                return None
            total += moved * (factor or 0)
            factor = factor * extent if factor is not None and isinstance(extent, int) else None
        return total


def along(form: Linear, var: str) -> int | None:
    """The coefficient of a variable in a sum; None if it is hidden in a term."""
    hidden = any(var in var_names(term) for term in form.terms if not isinstance(term, ir.Var))
    return None if hidden else form.terms.get(ir.Var(var), 0)


def nests(fn: ir.Function) -> list[Nest]:
    """Every leaf block, in program order."""
    return [Nest(fn, leaf, own_loops(leaf)) for leaf in leaves(fn)]


def nest_named(fn: ir.Function, block: str) -> Nest:
    """The nest of one leaf block."""
    leaf = next(leaf for leaf in leaves(fn) if leaf.name == block)
    return Nest(fn, leaf, own_loops(leaf))


def own_loops(leaf: LeafBlock) -> tuple[ir.For, ...]:
    """The loops around a leaf that hold no other block."""
    return tuple(loop for loop in leaf.loops if sum(isinstance(stmt, ir.Block) for stmt in ir.walk(loop.body)) == 1)


def size_of(extent: ir.Extent) -> int:
    """An extent as a number; a symbolic one counts as NOMINAL."""
    return extent if isinstance(extent, int) else NOMINAL


def points(loops: Sequence[ir.For]) -> int:
    """The iterations of loops inside each other."""
    total = 1
    for loop in loops:
        total *= size_of(loop.extent)
    return total
