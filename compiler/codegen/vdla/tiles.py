"""Where on-chip buffers live: the loop inside which each is allocated, and the tile that its accesses need there.

A buffer keeps its full logical shape in the loop nest; on the chip only the region written inside one iteration of the
loops around its allocation exists. One tile serves every iteration, apart from virtual threads, which have one each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from vdla.compiler import ir
from vdla.compiler.arith import affine, var_names
from vdla.compiler.codegen.vdla.errors import LoweringError
from vdla.compiler.ir import Match
from vdla.compiler.tensorize.intrinsic import ON_CHIP


@dataclass(frozen=True, slots=True)
class Site:
    """A tensorized block, the loops around it from the outermost, and what it computes."""

    block: ir.Block
    path: tuple[ir.For, ...]
    match: Match

    def bound(self, expr: ir.Expr) -> ir.Expr:
        """An expression over the block's axes, over the loops."""
        return ir.substitute(expr, {a.var: v for a, v in zip(self.block.axes, self.block.values, strict=True)})

    @property
    def output(self) -> str:
        """The buffer that the block writes."""
        return self.match.buffers[self.match.intrinsic.output.name]

    def inside_entry(self, loop: ir.For) -> bool:
        """Whether a loop runs inside one entry: it is the tensorized loop, or one inside it."""
        names = [other.var for other in self.path]
        start = next(i for i, other in enumerate(self.path) if "tensorize" in other.annotations)
        return loop.var in names and names.index(loop.var) >= start

    def reduce_loops(self) -> set[str]:
        """The loops that drive a reduce axis."""
        return {
            e.name
            for axis, value in zip(self.block.axes, self.block.values, strict=True)
            if axis.kind is ir.AxisKind.REDUCE
            for e in ir.walk_expr(value)
            if isinstance(e, ir.Var)
        }

    def partial_loops(self) -> set[str]:
        """The loops in some of whose iterations the block does not run, though its region is the same in all."""
        if self.block.predicate is None:
            return set()
        return var_names(self.block.predicate) - set().union(*(var_names(v) for v in self.block.values))


@dataclass(frozen=True, slots=True)
class TilePlan:
    """The tile of one buffer: `shape` of the region, its origin `base` over the loops around the allocation.

    `owner` is the buffer whose storage it is (another one for a result computed in place).
    """

    owner: str
    scope: str
    dtype: str
    shape: tuple[int, ...]
    base: tuple[ir.Expr, ...]
    outside: frozenset[str]
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


def sites(fn: ir.Function) -> list[Site]:
    """Every block in program order.

    Raises:
        LoweringError: a block is not tensorized, or a store is in none.
    """
    found: list[Site] = []

    def visit(stmt: ir.Stmt, path: tuple[ir.For, ...]) -> None:
        match stmt:
            case ir.For():
                visit(stmt.body, (*path, stmt))
            case ir.Block():
                found.append(Site(stmt, path, _match_of(stmt, fn)))
            case ir.Store(buffer=buffer):
                rule = "every store must lie in a tensorized block, as before the passes for CPUs"
                raise LoweringError(f"{fn.name}: {rule}, got one to {buffer} outside of all blocks")
            case _:
                for child in ir.children(stmt):
                    visit(child, path)

    visit(fn.body, ())
    return found


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


def plan_tiles(fn: ir.Function, blocks: list[Site]) -> dict[str, TilePlan]:
    """The tile of every on-chip buffer."""
    owners = _owners(blocks)
    users: dict[str, list[Site]] = {}
    for site in blocks:
        for buffer in set(site.match.buffers.values()):
            users.setdefault(owners.get(buffer, buffer), []).append(site)
    plans = {}
    for name in fn.buffers:
        if fn.buffers[name].scope in ON_CHIP:
            owner = owners.get(name, name)
            plans[name] = _plan(fn, name, owner, blocks, users.get(owner, []))
    for name, plan in plans.items():
        original = plans[plan.owner]
        if original.shape != plan.shape:  # the owner's tile holds more than what is computed in place
            plans[name] = original
    return plans


def _owners(blocks: list[Site]) -> dict[str, str]:
    """For each buffer computed in place, the buffer whose storage it takes over."""
    owners: dict[str, str] = {}
    for site in blocks:
        intrinsic = site.match.intrinsic
        if intrinsic.in_place is not None:
            source = site.match.buffers[intrinsic.in_place]
            _check_only_reader(blocks, site, source)
            owners[site.output] = owners.get(source, source)
    return owners


def _check_only_reader(blocks: list[Site], site: Site, source: str) -> None:
    """What is overwritten in place must not be read by anybody else."""
    for other in blocks:
        if other is not site and other.output != source and source in other.match.buffers.values():
            raise LoweringError(
                f"block {site.block.name}: {source} must be read by it alone, as its storage is overwritten in place, "
                f"got {other.block.name} too; compute it twice"
            )


def _plan(fn: ir.Function, name: str, owner: str, blocks: list[Site], users: list[Site]) -> TilePlan:
    buffer = fn.buffers[name]
    writers = [s for s in blocks if s.output == name]
    if len(writers) != 1:
        raise LoweringError(
            f"{fn.name}: on-chip buffer {name} must be written by one block, got {len(writers)}; "
            "cache_read it from a tensor"
        )
    writer = writers[0]
    group = {other for other in fn.buffers if other == owner or _owners(blocks).get(other) == owner}
    level = min(_level(site, users) for site in users if site.output in group)
    outside = tuple(loop.var for loop in writer.path[:level])
    inner = {loop.var: loop.size for loop in writer.path[level:]}
    assert isinstance(writer.block.body, ir.Store)
    indices = zip(writer.block.body.indices, buffer.dims, strict=True)
    spans = [_span(writer.bound(index), inner, full) for index, full in indices]
    shape = tuple(extent for _, extent in spans)
    vthreads = tuple(loop.var for loop in writer.path[:level] if loop.kind is ir.LoopKind.VTHREAD)
    return TilePlan(owner, buffer.scope, buffer.dtype, shape, tuple(b for b, _ in spans), frozenset(outside), vthreads)


def _level(site: Site, users: list[Site]) -> int:
    """The number of loops around the allocation, as far as this writer of the buffer is concerned."""
    names = [loop.var for loop in site.path]
    level = min(_common(site.path, other.path) for other in users)
    annotations = site.block.annotations
    if "store_at" in annotations:
        level = min(level, names.index(annotations["store_at"]) + 1 if annotations["store_at"] in names else 0)
    persistent = site.partial_loops() | (site.reduce_loops() if site.block.init is not None else set())
    inside = [names.index(v) for v in persistent if v in names]
    return min([level, *inside])


def _common(a: tuple[ir.For, ...], b: tuple[ir.For, ...]) -> int:
    """How many loops, from the outermost, two paths share."""
    count = 0
    for x, y in zip(a, b, strict=False):
        if x.var != y.var:
            break
        count += 1
    return count


def _span(index: ir.Expr, inner: Mapping[str, int], full: int) -> tuple[ir.Expr, int]:
    """The origin (over outer loops) and the extent of an index while the inner loops run.

    The whole dimension, where the index is not affine in them or the predicate cuts it off.
    """
    form = affine(index)
    if form is None:
        return (ir.Const(0), full) if var_names(index) & set(inner) else (index, 1)
    reach = {v: step * (inner[v] - 1) for v, step in form[0].items() if v in inner}
    extent = 1 + sum(reach.values())
    if any(step < 0 for step in reach.values()) or extent >= full:
        return ir.Const(0), full
    return ir.substitute(index, {v: ir.Const(0) for v in inner}), extent
