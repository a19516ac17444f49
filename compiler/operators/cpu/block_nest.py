# SPDX-License-Identifier: Apache-2.0
"""A block with its loops, and the stages that produce its operands and consume its results.

The stride of an access along a loop is the change of its row-major address in elements per
iteration; None if it is not constant (division, data-dependent or symbolic).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from vdla.compiler import ir
from vdla.compiler.analysis import Indices, LeafBlock, leaves, loads, read_buffers, stores, written_buffers
from vdla.compiler.arith import Linear, var_names
from vdla.compiler.ir import storage_dtype
from vdla.compiler.operators.roles import Role
from vdla.compiler.schedule import Schedule
from vdla.compiler.schedule.loop_kinds import role

_BLOCKED_RANK = 5  # of sums [N, C / lanes, H, W, lanes]
_NOMINAL = 64  # the assumed extent of a symbolic loop when sizes are compared


@dataclass(frozen=True, slots=True)
class BlockNest:
    """A leaf block of `fn`; `loops` are those, outermost first, that contain no other block."""

    fn: ir.Function
    leaf: LeafBlock
    loops: tuple[ir.For, ...]

    @property
    def name(self) -> str:
        """The name of the block."""
        return self.leaf.name

    @property
    def extents(self) -> list[int]:
        """The extents of the axes of the block."""
        return [nominal_extent(axis.extent) for axis in self.leaf.block.axes]

    def stage(self, role: Role) -> str:
        """The stage with a role around the block's sums."""
        return str(self.leaf.block.annotations[role])

    @property
    def is_alone(self) -> bool:
        """Whether no loop around the block contains another one."""
        return len(self.loops) == len(self.leaf.loops)

    def loops_of(self, kind: str) -> list[ir.For]:
        """The `loops` of a role: "spatial", "reduce", "mixed" or "unused"."""
        return [loop for loop in self.loops if role(self.leaf.block, loop.var) == kind]

    @property
    def element_bytes(self) -> int:
        """The bytes of the widest element that the block reads or writes."""
        names = {load.buffer for load in loads(self.leaf.block)} | {store.buffer for store in stores(self.leaf.block)}
        return max(storage_dtype(self.fn.buffers[name].dtype).itemsize for name in names)

    def read_strides(self, var: str) -> list[int | None]:
        """The stride of each load along a loop, except loads of the block's own results."""
        results = written_buffers(self.leaf.block)
        return [self.stride(load, var) for load in loads(self.leaf.block) if load.buffer not in results]

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
    return [BlockNest(fn, leaf, _unshared_loops(leaf)) for leaf in leaves(fn)]


def block_nest(fn: ir.Function, block: str) -> BlockNest:
    """The leaf block of that name."""
    return next(nest for nest in block_nests(fn) if nest.name == block)


def _unshared_loops(leaf: LeafBlock) -> tuple[ir.For, ...]:
    return tuple(loop for loop in leaf.loops if sum(isinstance(stmt, ir.Block) for stmt in ir.walk(loop.body)) == 1)


def loops_inside(schedule: Schedule, block: str, place: str) -> list[str]:
    """The loops of a block inside of another loop."""
    loops = schedule.loops(block)
    return loops[loops.index(place) + 1 :]


def nominal_extent(extent: ir.Extent) -> int:
    """An extent as a number, _NOMINAL for a symbolic one."""
    return extent if isinstance(extent, int) else _NOMINAL


def iteration_count(loops: Sequence[ir.For]) -> int:
    """The iterations of nested loops."""
    return prod(nominal_extent(loop.extent) for loop in loops)


# --- the stages around a block --------------------------------------------------------------------


def consumers(nest: BlockNest) -> list[BlockNest]:
    """The other blocks that read results of a block."""
    results = written_buffers(nest.leaf.block)
    return [b for b in block_nests(nest.fn) if results & read_buffers(b.leaf.block) and b.name != nest.name]


def producers(nest: BlockNest) -> list[BlockNest]:
    """The other blocks whose results a block reads."""
    operands = read_buffers(nest.leaf.block)
    return [b for b in block_nests(nest.fn) if written_buffers(b.leaf.block) & operands and b.name != nest.name]


def consumer_of(schedule: Schedule, block: str, ranks: tuple[int, ...], scope: str = "stack") -> str:
    """The consumer of a block if it is the only one and reads in place, with a rank in `ranks`;
    else a copy from a buffer in `scope`.
    """
    nest = block_nest(schedule.fn, block)
    (buffer,) = written_buffers(nest.leaf.block)
    match consumers(nest):
        case [consumer] if _reads_in_place(consumer, buffer, ranks):
            return consumer.name
    return schedule.cache_write(block, scope)


def _reads_in_place(consumer: BlockNest, buffer: str, ranks: tuple[int, ...]) -> bool:
    """Whether a stage without reduction, of a rank in `ranks`, reads a buffer in place."""
    axes = consumer.leaf.block.axes
    plain = consumer.is_alone and len(axes) in ranks and all(axis.kind is ir.AxisKind.SPATIAL for axis in axes)
    reads = [load.indices for load in loads(consumer.leaf.block) if load.buffer == buffer]
    return plain and all(_is_in_place(indices, axes) for indices in reads)


def _is_in_place(indices: Indices, axes: tuple[ir.Axis, ...]) -> bool:
    """Whether each index is the axis of its dimension; channels may be in blocks and lanes."""
    if len(indices) == _BLOCKED_RANK and len(axes) < _BLOCKED_RANK:
        channel = axes[1].var
        if any(var_names(index) - {channel} for index in (indices[1], indices[4])):
            return False
        indices = (indices[0], ir.Var(channel), *indices[2:4])
    return all(axis.extent == 1 or index == ir.Var(axis.var) for index, axis in zip(indices, axes, strict=True))


def padding_producer(schedule: Schedule, block: str) -> str | None:
    """The producer of the padded image, if `block` is its only consumer."""
    match producers(block_nest(schedule.fn, block)):
        case [producer] if producer.is_alone and len(consumers(producer)) == 1:
            return producer.name
    return None
