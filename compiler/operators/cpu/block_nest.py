"""A block with the loops that contain no other block, and the strides of its accesses along them.

The stride of an access along a loop is the change of its row-major address in elements per
iteration; None if it is not constant (division, data-dependent or symbolic).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.analysis import LeafBlock, leaves, loads, stores
from vdla.compiler.arith import Linear, var_names
from vdla.compiler.ir import storage_dtype
from vdla.compiler.schedule.loop_kinds import role

_NOMINAL = 64  # the assumed extent of a symbolic loop when sizes are compared


@dataclass(frozen=True, slots=True)
class BlockNest:
    """A leaf block of `fn`; `own` are the loops, outermost first, that contain no other block."""

    fn: ir.Function
    leaf: LeafBlock
    own: tuple[ir.For, ...]

    @property
    def is_alone(self) -> bool:
        """Whether no loop around the block contains another one."""
        return len(self.own) == len(self.leaf.loops)

    def loops(self, kind: str) -> list[ir.For]:
        """The own loops of a role: "spatial", "reduce", "mixed" or "unused"."""
        return [loop for loop in self.own if role(self.leaf.block, loop.var) == kind]

    @property
    def element_bytes(self) -> int:
        """The bytes of the widest element that the block reads or writes."""
        names = {load.buffer for load in loads(self.leaf.block)} | {store.buffer for store in stores(self.leaf.block)}
        return max(storage_dtype(self.fn.buffers[name].dtype).itemsize for name in names)

    def read_strides(self, var: str) -> list[int | None]:
        """The stride of each load along a loop, except loads of the block's own results."""
        own = {store.buffer for store in stores(self.leaf.block)}
        return [self.stride(load, var) for load in loads(self.leaf.block) if load.buffer not in own]

    def write_strides(self, var: str) -> list[int | None]:
        """The stride of each store along a loop."""
        return [self.stride(store, var) for store in stores(self.leaf.block)]

    def stride(self, access: ir.Load | ir.Store, var: str) -> int | None:
        """The stride of an access along a loop, in elements."""
        total = 0
        factor: int | None = 1
        shape = self.fn.buffers[access.buffer].shape
        for index, extent in zip(reversed(access.indices), reversed(shape), strict=True):
            step = _coefficient(self.leaf.bound(index), var)
            if step is None or (step and factor is None):
                return None
            total += step * (factor or 0)
            factor = factor * extent if factor is not None and isinstance(extent, int) else None
        return total


def _coefficient(form: Linear, var: str) -> int | None:
    """The coefficient of a variable in a linear form; None if a non-linear term contains it."""
    hidden = any(var in var_names(term) for term in form.terms if not isinstance(term, ir.Var))
    return None if hidden else form.terms.get(ir.Var(var), 0)


def block_nests(fn: ir.Function) -> list[BlockNest]:
    """Every leaf block, in program order."""
    return [BlockNest(fn, leaf, _own_loops(leaf)) for leaf in leaves(fn)]


def block_nest(fn: ir.Function, block: str) -> BlockNest:
    """The leaf block of that name."""
    leaf = next(leaf for leaf in leaves(fn) if leaf.name == block)
    return BlockNest(fn, leaf, _own_loops(leaf))


def _own_loops(leaf: LeafBlock) -> tuple[ir.For, ...]:
    """The loops around a leaf that contain no other block."""
    return tuple(loop for loop in leaf.loops if sum(isinstance(stmt, ir.Block) for stmt in ir.walk(loop.body)) == 1)


def nominal_extent(extent: ir.Extent) -> int:
    """An extent as a number, _NOMINAL for a symbolic one."""
    return extent if isinstance(extent, int) else _NOMINAL


def iteration_count(loops: Sequence[ir.For]) -> int:
    """The iterations of nested loops."""
    total = 1
    for loop in loops:
        total *= nominal_extent(loop.extent)
    return total
