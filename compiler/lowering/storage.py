# SPDX-License-Identifier: Apache-2.0
"""Place storage: intermediate buffers shrink to their live part and are allocated where used.

A buffer is allocated inside the innermost loop around all its accesses, provided that each
iteration writes what it reads. It stays outside loops that carry its reduction or recurrence, loops
that write it only in some iterations, loops inside the one named by `store_at`, and vectorized
loops, whose lanes need separate elements. A parallel loop becomes serial if its iterations
overwrite each other's elements of a buffer that must stay outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from vdla.compiler import ir
from vdla.compiler.analysis import ROOT, LeafBlock, domains_of, elements_differ, leaves, loads, stores, written_buffers
from vdla.compiler.arith import Linear, Ranges, function_ranges, linear, var_names
from vdla.compiler.ir import Match, map_children, map_store, storage_dtype
from vdla.compiler.lowering.live_window import LeafAccess, LiveWindow, align_strides, live_windows, wants_double_buffer

STACK_BYTES = 16 * 1024  # of one buffer; larger ones come from the heap
Loops = tuple[ir.For, ...]


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """A buffer as allocated: its shape, the loop it is in (None: the function), its live windows.

    `parity` is the loop whose even and odd iterations use separate halves of a double buffer.
    """

    buffer: ir.Buffer
    inside: str | None
    windows: tuple[LiveWindow, ...]
    parity: str | None

    def relocate(self, indices: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
        """Indices into the original buffer as indices into the allocated one."""
        inner = zip(indices, self.windows, strict=False)  # the entries of a match have leading indices only
        new = tuple(_subtract(index, window.origin) for index, window in inner)
        return new if self.parity is None else (ir.binary("mod", self.parity, 2), *new)


def place_storage(fn: ir.Function) -> ir.Function:
    """`fn` with an Alloc around the accesses of each intermediate buffer, shrunk to its live part.

    for i in range(64):                        for i in range(64):
        for j in range(16):                        with alloc(t):
            block t(vi=i, vj=j):                       for j in range(16):
                t[vi, vj] = ...           ->               block t(vi=i, vj=j): t[vi - i, vj] = ...
        for j2 in range(16):                           for j2 in range(16):
            block c(vi=i, vj=j2):                          block c(vi=i, vj=j2): ... t[vi - i, vj]
                ... t[vi, vj]
    """
    ranges = function_ranges(fn)
    used = accesses_of(fn)
    plans = {name: _plan(fn.buffers[name], touching, ranges) for name, touching in used.items()}
    serial = [_conflicting_loops(fn, name, touching, plans[name].inside) for name, touching in used.items()]
    return with_storage(replace(fn, body=_serialise(fn.body, set().union(*serial))), plans)


def with_storage(fn: ir.Function, plans: Mapping[str, StoragePlan]) -> ir.Function:
    """`fn` with its intermediate buffers allocated as planned."""
    buffers = {name: fn.buffers[name] for name in fn.params} | {name: plan.buffer for name, plan in plans.items()}
    return replace(fn, body=_insert_allocs(_relocate(fn.body, plans), plans), buffers=buffers)


def accesses_of(fn: ir.Function) -> dict[str, list[LeafAccess]]:
    """The accesses of each intermediate buffer that has any, in program order."""
    leaf_accesses: dict[str, list[LeafAccess]] = {name: [] for name in fn.buffers if name not in fn.params}
    for leaf in leaves(fn):
        touched = [(store.buffer, store.indices) for store in stores(leaf.block)]
        touched += [(load.buffer, load.indices) for load in loads(leaf.block)]
        for name, indices in dict.fromkeys(touched):
            if name in leaf_accesses:
                leaf_accesses[name].append(LeafAccess(leaf, indices))
    return {name: accesses for name, accesses in leaf_accesses.items() if accesses}


def _plan(buffer: ir.Buffer, accesses: list[LeafAccess], ranges: Ranges) -> StoragePlan:
    """The placement of a buffer."""
    touching = list({id(access.leaf): access.leaf for access in accesses}.values())
    writers = [leaf for leaf in touching if buffer.name in written_buffers(leaf.block)]
    around = touching[0].loops[: allocation_depth(touching, writers, accesses)]
    box = tuple(live_windows(accesses, buffer, {loop.var for loop in around}, ranges))
    shape = align_strides(buffer.name, tuple(window.extent for window in box), writers)
    parity = around[-1].var if around and _is_double_buffered(around[-1], writers) else None
    shape = shape if parity is None else (2, *shape)
    new = replace(buffer, shape=shape, scope=_memory_scope(shape, buffer))
    return StoragePlan(new, hoisted_loop(around if parity is None else around[:-1], new), box, parity)


def _is_double_buffered(loop: ir.For, writers: list[LeafBlock]) -> bool:
    """Whether iterations of `loop` alternate between halves; parallel iterations cannot."""
    return loop.kind is not ir.LoopKind.PARALLEL and wants_double_buffer(writers)


def _conflicting_loops(fn: ir.Function, name: str, accesses: list[LeafAccess], inside: str | None) -> set[str]:
    """The parallel loops whose iterations share written elements of a buffer outside them."""
    common = _common_loops([access.leaf for access in accesses])
    first = [loop.var for loop in common].index(inside) + 1 if inside is not None else 0
    parallel = [loop.var for loop in common[first:] if loop.kind is ir.LoopKind.PARALLEL]
    if not parallel:
        return set()
    ranges = domains_of(fn)
    leaves_of = {id(access.leaf): access.leaf for access in accesses}.values()
    written_at = [(leaf, store.indices) for leaf in leaves_of for store in stores(leaf.block) if store.buffer == name]
    return {var for var in parallel if not all(elements_differ(leaf, at, var, ranges) for leaf, at in written_at)}


def _serialise(stmt: ir.Stmt, names: set[str]) -> ir.Stmt:
    """`stmt` with the loops `names` serial."""

    def serialised(inner: ir.Stmt) -> ir.Stmt:
        return replace(inner, kind=ir.LoopKind.SERIAL) if isinstance(inner, ir.For) and inner.var in names else inner

    return ir.transform(stmt, serialised) if names else stmt


def _memory_scope(shape: tuple[ir.Extent, ...], buffer: ir.Buffer) -> str:
    """The scope set by `set_scope`, else the stack for small buffers and the heap for large ones.

    Buffers of symbolic size are always on the heap.
    """
    sizes = [extent for extent in shape if isinstance(extent, int)]
    if len(sizes) == len(shape) and buffer.scope in ("stack", "heap"):
        return buffer.scope
    small = len(sizes) == len(shape) and prod(sizes) * storage_dtype(buffer.dtype).itemsize <= STACK_BYTES
    return "stack" if small else "heap"


def allocation_depth(touching: list[LeafBlock], writers: list[LeafBlock], accesses: list[LeafAccess]) -> int:
    """The number of loops outside the allocation."""
    common = _common_loops(touching)
    names = [loop.var for loop in common]
    excluded = {loop.var for loop in common if loop.kind is ir.LoopKind.VECTORIZE}
    for writer in writers:
        others = [leaf for leaf in touching if leaf is not writer]
        excluded |= _reduction_loops(writer) | _scan_loops(writer, accesses) | _partial_loops(writer, others)
    depth = min([len(common), *(names.index(name) for name in excluded if name in names)])
    return min([depth, *(_store_at_depth(writer) for writer in writers)])


def _store_at_depth(writer: LeafBlock) -> int:
    """The most loops outside the allocation that `store_at` allows, if its loop still exists."""
    names = [loop.var for loop in writer.loops]
    place = writer.block.annotations.get("store_at")
    return 0 if place == ROOT else names.index(place) + 1 if place in names else len(names)


def _common_loops(touching: list[LeafBlock]) -> Loops:
    """The loops common to all leaves, outermost first."""
    first, *others = (leaf.loops for leaf in touching)
    count = min((_common_prefix(first, other) for other in others), default=len(first))
    return first[:count]


def _common_prefix(a: Loops, b: Loops) -> int:
    """The number of outermost loops that both have in common."""
    pairs = [one is two for one, two in zip(a, b, strict=False)]
    return pairs.index(False) if False in pairs else len(pairs)


def _reduction_loops(writer: LeafBlock) -> set[str]:
    """The reduction loops of a writer, which carry partial results between iterations."""
    names = writer.loops_along(ir.AxisKind.REDUCE)
    return {loop.var for loop in writer.loops if loop.extent != 1} & names


def _scan_loops(writer: LeafBlock, accesses: list[LeafAccess]) -> set[str]:
    """The loops over the steps of a recurrence in which one step reads another's results."""
    steps = writer.loops_along(ir.AxisKind.SCAN)
    places = {tuple(_step_of(access.leaf.bound(index), steps) for index in access.indices) for access in accesses}
    return steps if len(places) > 1 else set()


def _step_of(index: Linear, steps: set[str]) -> tuple[object, ...]:
    """The part of an index that depends on the step, as a hashable form; () without one."""
    terms = index.only(lambda term: bool(var_names(term) & steps)).terms
    return (frozenset(terms.items()), index.const) if terms else ()


def _partial_loops(writer: LeafBlock, others: list[LeafBlock]) -> set[str]:
    """The loops that write a region, the same in all iterations, only in some of them."""
    bound = {name for value in writer.values.values() for name in var_names(value)}
    alone = [c for c in writer.conditions if not all(c in other.conditions for other in others)]
    single = {loop.var for loop in writer.loops if loop.extent == 1}
    return {name for condition in alone for name in var_names(condition)} - bound - single


def hoisted_loop(around: Loops, buffer: ir.Buffer) -> str | None:
    """The loop inside which a buffer is allocated that the loops `around` could contain.

    Allocations are hoisted where repeating them costs time or copies code: heap buffers to the
    innermost parallel loop, others out of unrolled loops.
    """
    kept = list(around)
    while kept and kept[-1].kind is not ir.LoopKind.PARALLEL:
        if buffer.scope != "heap" and not any(loop.kind is ir.LoopKind.UNROLL for loop in kept):
            break
        kept.pop()
    return kept[-1].var if kept else None


# --- rewriting ------------------------------------------------------------------------------------


def _relocate(stmt: ir.Stmt, plans: Mapping[str, StoragePlan]) -> ir.Stmt:
    """`stmt` with the accesses of intermediate buffers relocated."""

    def moved(part: ir.Expr) -> ir.Expr:
        if isinstance(part, ir.Load) and part.buffer in plans:
            return ir.Load(part.buffer, plans[part.buffer].relocate(part.indices))
        return part

    def relocate(expr: ir.Expr) -> ir.Expr:
        return ir.transform(expr, moved)

    def visit(inner: ir.Stmt) -> ir.Stmt:
        match inner:
            case ir.Store(buffer=buffer):
                new = map_store(inner, relocate, relocate)
                return replace(new, indices=plans[buffer].relocate(new.indices)) if buffer in plans else new
            case ir.If(cond=cond, body=body):
                return ir.If(relocate(cond), visit(body))
            case ir.Block(annotations={"intrinsic": Match() as match}):
                marked = {**inner.annotations, "intrinsic": _relocate_match(match, plans)}
                return map_children(replace(inner, annotations=marked), visit)
        return map_children(inner, visit)

    return visit(stmt)


def _relocate_match(match: Match, plans: Mapping[str, StoragePlan]) -> Match:
    """A match with its entries relocated."""
    entries = {
        name: plans[match.buffers[name]].relocate(indices) if match.buffers.get(name) in plans else indices
        for name, indices in match.entries.items()
    }
    return replace(match, entries=entries)


def _subtract(index: ir.Expr, origin: Linear) -> ir.Expr:
    """`index - origin`."""
    return (linear(index) - origin).expr() if origin.terms or origin.const else index


def _insert_allocs(body: ir.Stmt, plans: Mapping[str, StoragePlan]) -> ir.Stmt:
    """`body` with each buffer allocated in its loop."""

    def around(place: str | None, stmt: ir.Stmt) -> ir.Stmt:
        here = tuple(name for name, plan in plans.items() if plan.inside == place)
        return ir.Alloc(here, stmt) if here else stmt

    def visit(stmt: ir.Stmt) -> ir.Stmt:
        if isinstance(stmt, ir.For):
            return replace(stmt, body=around(stmt.var, visit(stmt.body)))
        return stmt if isinstance(stmt, ir.Block) else map_children(stmt, visit)

    return around(None, visit(body))
