# SPDX-License-Identifier: Apache-2.0
"""On-chip storage: the loops around each allocation, and the tile that it needs.

In the loop nest a buffer keeps its full logical shape; its tile holds only the region written
inside one iteration of the loops around the allocation. All iterations reuse the same tile, but
each virtual thread has its own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from vdla.compiler import ir
from vdla.compiler.arith import affine, var_names
from vdla.compiler.ir import Match
from vdla.compiler.tensorize import ON_CHIP
from vdla.support.errors import Error, Notice


class LoweringError(Error, ValueError):
    """A schedule that the machine's instructions cannot express."""


class LoweringWarning(Notice):
    """A schedule that does not do what it was made for."""


@dataclass(frozen=True, slots=True)
class TensorizedBlock:
    """A block of the IR, the loops around it, outermost first, and its match with an intrinsic."""

    node: ir.Block
    path: tuple[ir.For, ...]
    match: Match

    @property
    def name(self) -> str:
        """The name of the block."""
        return self.node.name

    @property
    def output(self) -> str:
        """The buffer that the block writes."""
        return self.match.buffers[self.match.intrinsic.output.name]

    def over_loops(self, expr: ir.Expr) -> ir.Expr:
        """An expression over the block's axes as one over the loops."""
        return ir.substitute(expr, {a.var: v for a, v in self.node.bindings})

    def inside_entry(self, loop: ir.For) -> bool:
        """Whether the loop runs inside one entry: it is the tensorized loop or nested in it."""
        names = [other.var for other in self.path]
        start = next(i for i, other in enumerate(self.path) if "tensorize" in other.annotations)
        return loop.var in names and names.index(loop.var) >= start

    def reduce_loops(self) -> set[str]:
        """The loops on which a reduce axis depends."""
        return {
            e.name
            for axis, value in self.node.bindings
            if axis.kind is ir.AxisKind.REDUCE
            for e in ir.find(value, ir.Var)
        }

    def partial_loops(self) -> set[str]:
        """The loops on which the predicate depends, but no axis."""
        if self.node.predicate is None:
            return set()
        return var_names(self.node.predicate) - set().union(*(var_names(v) for v in self.node.values))


def tensorized_blocks(fn: ir.Function) -> list[TensorizedBlock]:
    """Every block in program order.

    Raises:
        LoweringError: a block is not tensorized, or a store lies outside of all blocks.
    """
    result: list[TensorizedBlock] = []

    def visit(stmt: ir.Stmt, path: tuple[ir.For, ...]) -> None:
        match stmt:
            case ir.For():
                visit(stmt.body, (*path, stmt))
            case ir.Block():
                result.append(TensorizedBlock(stmt, path, _match_of(stmt, fn)))
            case ir.Store(buffer=buffer):
                rule = "every store must lie in a tensorized block, as before the passes for CPUs"
                raise LoweringError(f"{fn.name}: {rule}, got one to {buffer} outside of all blocks")
            case _:
                for child in ir.children(stmt):
                    visit(child, path)

    visit(fn.body, ())
    return result


def _match_of(block: ir.Block, fn: ir.Function) -> Match:
    match = block.annotations.get("intrinsic")
    if not isinstance(match, Match):
        raise LoweringError(
            f"{fn.name}: block {block.name} must be tensorized, as the VDLA has no scalar unit, got a scalar "
            "computation; tensorize its innermost loops"
        )
    if match.intrinsic.target != "vdla":
        raise LoweringError(
            f"{fn.name}: the intrinsic of block {block.name} must be of target vdla, got {match.intrinsic} of "
            f"{match.intrinsic.target}"
        )
    return match


@dataclass(frozen=True, slots=True)
class TilePlan:
    """The tile of one buffer: its shape, and its origin over the loops around the allocation.

    `owner` is the buffer whose storage it is: another buffer's for a result computed in place.
    """

    owner: str
    scope: str
    dtype: str
    shape: tuple[int, ...]
    base: tuple[ir.Expr, ...]
    vthreads: tuple[str, ...]

    @property
    def elements(self) -> int:
        """Elements of the tile."""
        return prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Row-major strides in elements."""
        return row_major(self.shape)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


def plan_tiles(fn: ir.Function, blocks: list[TensorizedBlock]) -> dict[str, TilePlan]:
    """The tile of every on-chip buffer."""
    owners = _owners(blocks)
    users: dict[str, list[TensorizedBlock]] = {}
    for block in blocks:
        for buffer in set(block.match.buffers.values()):
            users.setdefault(owners.get(buffer, buffer), []).append(block)
    plans = {}
    for name in fn.buffers:
        if fn.buffers[name].scope in ON_CHIP:
            plans[name] = _plan(fn, name, owners, blocks, users.get(owners.get(name, name), []))
    for name, plan in plans.items():
        owner = plans[plan.owner]
        if owner.shape != plan.shape:  # the owner's tile holds more than the result computed in place
            plans[name] = owner
    return plans


def notes_on_shared_tiles(
    fn: ir.Function, blocks: list[TensorizedBlock], plans: Mapping[str, TilePlan]
) -> tuple[str, ...]:
    """The virtual threads without tiles of their own, none of which loads while another computes.

    Each text is one to warn of.
    """
    around = {loop.var: loop for block in blocks for loop in block.path if not block.inside_entry(loop)}
    threads = [loop.var for loop in around.values() if loop.kind is ir.LoopKind.VTHREAD and loop.size > 1]
    private = {var for plan in plans.values() for var in plan.vthreads}
    return tuple(
        f"{fn.name}: virtual threads of {var} must have tiles of their own to overlap, got none; "
        f"compute a cache_read at {var}, or at a loop inside"
        for var in threads
        if var not in private
    )


def warn_of(notes: Iterable[str]) -> None:
    """Warn of each."""
    for note in notes:
        warnings.warn(note, LoweringWarning, 2)


def _owners(blocks: list[TensorizedBlock]) -> dict[str, str]:
    """The buffer whose storage each buffer computed in place takes over."""
    owners: dict[str, str] = {}
    for block in blocks:
        intrinsic = block.match.intrinsic
        if intrinsic.in_place is not None:
            source = block.match.buffers[intrinsic.in_place]
            _check_only_reader(blocks, block, source)
            owners[block.output] = owners.get(source, source)
    return owners


def _check_only_reader(blocks: list[TensorizedBlock], block: TensorizedBlock, source: str) -> None:
    """Reject a second reader of a buffer that is overwritten in place."""
    for other in blocks:
        if other is not block and other.output != source and source in other.match.buffers.values():
            raise LoweringError(
                f"block {block.name}: {source} must be read by it alone, as its storage is overwritten in place, "
                f"got {other.name} too; compute it twice"
            )


def _plan(
    fn: ir.Function,
    name: str,
    owners: Mapping[str, str],
    blocks: list[TensorizedBlock],
    users: list[TensorizedBlock],
) -> TilePlan:
    buffer, owner = fn.buffers[name], owners.get(name, name)
    writers = [block for block in blocks if block.output == name]
    if len(writers) != 1:
        raise LoweringError(
            f"{fn.name}: on-chip buffer {name} must be written by one block, got {len(writers)}; "
            "cache_read it from a tensor"
        )
    writer = writers[0]
    level = min(_allocation_level(block, users) for block in users if owners.get(block.output, block.output) == owner)
    inner = {loop.var: loop.size for loop in writer.path[level:]}
    assert isinstance(writer.node.body, ir.Store)
    indices = zip(writer.node.body.indices, buffer.dims, strict=True)
    spans = [_span(writer.over_loops(index), inner, full) for index, full in indices]
    return TilePlan(
        owner=owner,
        scope=buffer.scope,
        dtype=buffer.dtype,
        shape=tuple(extent for _, extent in spans),
        base=tuple(origin for origin, _ in spans),
        vthreads=tuple(loop.var for loop in writer.path[:level] if loop.kind is ir.LoopKind.VTHREAD),
    )


def _allocation_level(block: TensorizedBlock, users: list[TensorizedBlock]) -> int:
    """The greatest number of loops around the allocation that this writer of the buffer allows."""
    names = [loop.var for loop in block.path]
    level = min(_common(block.path, other.path) for other in users)
    annotations = block.node.annotations
    if "store_at" in annotations:
        level = min(level, names.index(annotations["store_at"]) + 1 if annotations["store_at"] in names else 0)
    persistent = block.partial_loops() | (block.reduce_loops() if block.node.init is not None else set())
    inside = [names.index(v) for v in persistent if v in names]
    return min([level, *inside])


def _common(a: tuple[ir.For, ...], b: tuple[ir.For, ...]) -> int:
    """The number of loops, from the outermost, that two paths share."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x.var != y.var:
            break
        count += 1
    return count


def _span(index: ir.Expr, inner: Mapping[str, int], full: int) -> tuple[ir.Expr, int]:
    """The origin, over the outer loops, and the extent of an index while the inner loops run.

    The whole dimension if the index is not affine in the inner loops or if a predicate cuts it off.
    """
    form = affine(index)
    if form is None:
        return (ir.Const(0), full) if var_names(index) & set(inner) else (index, 1)
    reach = {v: step * (inner[v] - 1) for v, step in form[0].items() if v in inner}
    extent = 1 + sum(reach.values())
    if any(step < 0 for step in reach.values()) or extent >= full:
        return ir.Const(0), full
    return ir.substitute(index, {v: ir.Const(0) for v in inner}), extent
