# SPDX-License-Identifier: Apache-2.0
"""The primitive that factors a reduction into partial results and their reduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from vdla.compiler import ir
from vdla.compiler.analysis.access import LeafBlock, init_stores, leaf_at, leaves, stores, written_buffers
from vdla.compiler.analysis.combiner import reduction_terms, replace_terms
from vdla.compiler.analysis.dataflow import check_flow
from vdla.compiler.analysis.independence import check_terms_once
from vdla.compiler.analysis.symbols import domains_of
from vdla.compiler.analysis.tree import ScheduleError, block_path, loop_at, loop_path, replace_at, used_names
from vdla.compiler.arith import TRUE, Ranges, conjuncts, predicate_of, simplify, var_names
from vdla.compiler.ir import ATOMIC, STARTS, THREAD_AXES, Names, expr_text, extent_text
from vdla.compiler.schedule.loop_kinds import bind, loops_of, role, set_scope
from vdla.compiler.schedule.place import check_not_blockized, in_fresh_loops, target_loops
from vdla.compiler.schedule.split import split
from vdla.support.integers import is_int

_OF_BUFFERS = (
    "storage_align",
    "double_buffer",
    "store_at",
    ATOMIC,
)  # annotations that concern the buffer that a block writes


@dataclass(frozen=True, slots=True)
class _Factoring:
    """How a reduction is factored: `loop` becomes spatial, `others` are its other reduce loops.

    `buffers` maps each result to its buffer of partial results, whose dimension `position` counts
    the iterations of `loop`; `axis` is the axis of that dimension, `rest` those of the other loops.
    """

    leaf: LeafBlock
    loop: ir.For
    others: list[ir.For]
    buffers: Mapping[str, str]
    position: int
    axis: ir.Axis
    rest: list[ir.Axis]

    @property
    def spatial(self) -> list[ir.Axis]:
        """The axes that select the element."""
        return [axis for axis in self.leaf.block.axes if axis.kind is not ir.AxisKind.REDUCE]

    def partial(self, indices: tuple[ir.Expr, ...]) -> tuple[ir.Expr, ...]:
        """The indices of the partial results of an element."""
        return (*indices[: self.position], ir.Var(self.axis.var), *indices[self.position :])


def rfactor(fn: ir.Function, loop: str, factor_axis: int = 0) -> tuple[ir.Function, str]:
    """Reduce over the other reduce loops into a new buffer with a dimension for `loop`, then over
    that dimension.

    The result is the name of the block of partial results; `factor_axis` is the position of the new
    dimension.

    for i in range(4):                      for i in range(4):
        for ko in range(2):                     for ko in range(2):
            for ki in range(8):                     for ki in range(8):
                block c(vi=i,              ->           block c_rf(vko=ko, vi=i, vki=reduce ki):
                    vk=reduce ko * 8 + ki):                 c_rf[vko, vi] += a[vi, vko * 8 + vki]
                    c[vi] += a[vi, vk]              for c_ko in range(2):
                                                        block c(vi=i, vko=reduce c_ko):
                                                            c[vi] += c_rf[vko, vi]

    The order of the additions changes, which floats show. `loop` becomes spatial, so it may be
    vectorized.
    """
    return _factored(fn, loop, factor_axis, f"rfactor of {loop}")


def _factored(fn: ir.Function, loop: str, factor_axis: int, where: str) -> tuple[ir.Function, str]:
    """`rfactor`, with refusals that begin with `where`."""
    target_loops(fn, loop, where)
    split = _factoring_of(fn, loop, factor_axis, where)
    ranges = domains_of(fn)
    _check_every_iteration(split, ranges, where)
    names = [step.var for step in split.leaf.loops]
    check_terms_once(split.leaf, list(split.leaf.loops[names.index(_outermost(split)) :]), ranges, where)
    terms = reduction_terms(stores(split.leaf.block), where)
    partial = _partial_block(fn, split, terms, f"{split.leaf.name}_rf")
    total = _total_nest(fn, split, terms, ranges)
    top = loop_path(fn, _outermost(split), where)
    position = len(top) - 1
    result = replace_at(fn, split.leaf.path, partial)
    here = block_path(result, partial.name, where)[: position + 1]
    result = replace_at(result, here, ir.seq(here[-1], total))
    result = replace(result, buffers=_with_partials(fn, split))
    for block in (partial.name, split.leaf.name):
        check_flow(result, block, where)
    return result, partial.name


def _factoring_of(fn: ir.Function, loop: str, axis: int, where: str) -> _Factoring:
    """The reduction over `loop` and how it is factored."""
    around = [leaf for leaf in leaves(fn) if loop in [step.var for step in leaf.loops]]
    mine = [leaf for leaf in around if role(leaf.block, loop) == "reduce"]
    if len(mine) != 1 or mine[0].block.init is None:
        roles = ", ".join(f"{role(leaf.block, loop)} in block {leaf.name}" for leaf in around)
        raise ScheduleError(f"{where}: one block must reduce over the loop from an init, got {roles}")
    leaf = mine[0]
    if STARTS in leaf.block.annotations:
        inits = ", ".join(expr_text(store.value) for store in init_stores(leaf.block))
        raise ScheduleError(f"{where}: the sums must start from their identity, as each partial sum does, got {inits}")
    check_not_blockized(leaf.path, "factored", where)
    summed = leaf.loops_along(ir.AxisKind.REDUCE)
    chosen = {name for value in leaf.element() for name in var_names(value)}
    both = sorted(summed & chosen)
    if both:
        raise ScheduleError(f"{where}: no loop must choose both the element and the term, got {both[0]}")
    rank = len(stores(leaf.block)[0].indices)
    if not is_int(axis) or not 0 <= axis <= rank:
        raise ScheduleError(f"{where}: the factor axis must be in 0..{rank}, got {axis!r}")
    names = used_names(fn)
    reduction = next(step for step in leaf.loops if step.var == loop)
    others = [step for step in leaf.loops if step.var in summed and step is not reduction]
    buffers = {store.buffer: names.fresh(f"{store.buffer}_rf", leaf.name) for store in stores(leaf.block)}
    free = Names([*(axis.var for axis in leaf.block.axes if axis.kind is not ir.AxisKind.REDUCE), *fn.scalars])
    new = ir.Axis(free.fresh(f"v{loop}", leaf.name), reduction.extent)
    rest = [ir.Axis(free.fresh(f"v{o.var}", leaf.name), o.extent, ir.AxisKind.REDUCE) for o in others]
    return _Factoring(
        leaf=leaf, loop=reduction, others=others, buffers=buffers, position=int(axis), axis=new, rest=rest
    )


def _outermost(split: _Factoring) -> str:
    """The outermost reduce loop: after it the partial results are complete."""
    summed = {split.loop.var, *(loop.var for loop in split.others)}
    return next(loop.var for loop in split.leaf.loops if loop.var in summed)


def _check_every_iteration(split: _Factoring, ranges: Ranges, where: str) -> None:
    """Refuse a condition that skips the first term of a partial result, and with it its init."""
    first = {loop.var: ir.Const(0) for loop in split.others}
    summed = {split.loop.var, *first}
    for condition in conjuncts(split.leaf.block.predicate):
        if var_names(condition) & summed and simplify(ir.substitute(condition, first), ranges) != TRUE:
            rule = f"each iteration of {split.loop.var} must have a first term"
            raise ScheduleError(f"{where}: {rule}, got the condition {expr_text(condition)}")


def _partial_block(fn: ir.Function, split: _Factoring, terms: list[ir.Expr], name: str) -> ir.Block:
    """The block of the partial results, in the place of the reduction."""
    block = split.leaf.block
    loops, factored = (*split.others, split.loop), (*split.rest, split.axis)
    new = {loop.var: ir.Var(axis.var) for loop, axis in zip(loops, factored, strict=True)}
    inside = {axis.var: ir.substitute(value, new) for axis, value in block.bindings if axis.kind is ir.AxisKind.REDUCE}

    def redirected(store: ir.Store, value: ir.Expr) -> ir.Store:
        return ir.Store(split.buffers[store.buffer], split.partial(store.indices), value)

    replaced: dict[ir.Expr, ir.Expr] = {
        ir.Load(store.buffer, store.indices): ir.Load(split.buffers[store.buffer], split.partial(store.indices))
        for store in stores(block)
    }
    values = [store.value for store in stores(block)] if split.rest else terms
    body = _store_all([
        redirected(store, ir.substitute(replace_terms(value, replaced), inside))
        for store, value in zip(stores(block), values, strict=True)
    ])  # fmt: skip
    init = _store_all([redirected(store, store.value) for store in init_stores(block)]) if split.rest else None
    axes = list(split.spatial)
    bound = [split.leaf.values[axis.var] for axis in axes]
    axes.insert(split.position, split.axis)
    bound.insert(split.position, ir.Var(split.loop.var))
    bound += [ir.Var(loop.var) for loop in split.others]
    fresh = used_names(fn).fresh(name, split.leaf.name) if name not in split.buffers.values() else name
    axes += split.rest
    notes = {key: value for key, value in block.annotations.items() if key not in _OF_BUFFERS}
    return replace(block, name=fresh, axes=tuple(axes), values=tuple(bound), body=body, init=init, annotations=notes)


def _total_nest(fn: ir.Function, split: _Factoring, terms: list[ir.Expr], ranges: Ranges) -> ir.Stmt:
    """The block that reduces the partial results, in loops of its own."""
    block = split.leaf.block
    partials: dict[ir.Expr, ir.Expr] = {
        term: ir.Load(split.buffers[store.buffer], split.partial(store.indices))
        for store, term in zip(stores(block), terms, strict=True)
    }
    body = _store_all([replace(s, value=replace_terms(s.value, partials)) for s in stores(block)])
    axes = (*split.spatial, replace(split.axis, kind=ir.AxisKind.REDUCE))
    bound = (*(split.leaf.values[axis.var] for axis in split.spatial), ir.Var(split.loop.var))
    summed = {split.loop.var, *(loop.var for loop in split.others)}
    kept = [c for c in conjuncts(block.predicate) if not var_names(c) & summed]
    total = replace(block, axes=axes, values=bound, body=body, predicate=predicate_of(kept))
    names = [loop.var for loop in split.leaf.loops]
    inner = split.leaf.loops[names.index(_outermost(split)) :]
    return in_fresh_loops(fn, total, [*(loop for loop in inner if loop.var not in summed), split.loop])


def _store_all(parts: list[ir.Store]) -> ir.Stmt:
    """One statement of all stores."""
    return parts[0] if len(parts) == 1 else ir.MultiStore(tuple(parts))


def _with_partials(fn: ir.Function, split: _Factoring) -> dict[str, ir.Buffer]:
    """The buffers of `fn` and those of the partial results, in the scopes of the results."""
    new = dict(fn.buffers)
    for buffer, name in split.buffers.items():
        old = fn.buffers[buffer]
        shape = (*old.shape[: split.position], split.loop.extent, *old.shape[split.position :])
        new[name] = replace(old, name=name, shape=shape)
    return new


# --- thread_reduce --------------------------------------------------------------------------------

_LAST_TERMS = 2  # that one thread adds


def thread_reduce(fn: ir.Function, loop: str, thread: str) -> tuple[ir.Function, str]:
    """Bind a reduce loop to an axis of threads: each computes a partial result, and half as many
    threads combine pairs of them, until one thread combines the last two.

    for i in range(4):                   for i in range(4):
        for ko in range(4):                  for ko in range(4):  # thread=threadIdx.x
            for ki in range(8):                  for ki in range(8):
                block c(vi=i, ...):              block c_rf(vko=ko, ...): c_rf[vko, vi] += ...
                    c[vi] += a[...]   ->     for o in range(2):
                                                 for t in range(4):  # thread=threadIdx.x
                                                     block c_c_rf(vt=t, ...) where t < 2:
                                                         c_c_rf[vt, vi] += c_rf[o * 2 + vt, vi]
                                             for t in range(2):
                                                 block c(vi=i, ...): c[vi] += c_c_rf[t, vi]

    The partial results are in shared memory, so lowering puts a barrier between the steps; where a
    device has warps of 32 lanes, the last five steps go from register to register instead. The
    order of the additions changes, which floats show. The result is the name of the block of the
    first partial results.
    """
    where = f"thread_reduce of {loop}"
    if thread not in THREAD_AXES:
        raise ScheduleError(f"{where}: the thread must be one of {', '.join(THREAD_AXES)}, got {thread!r}")
    threads = loop_at(loop_path(fn, loop, where)).extent
    if not isinstance(threads, int):
        raise ScheduleError(f"{where}: the extent must be a number, got {extent_text(threads)}")
    total = _block_in(fn, loop)
    fn, first = _partial(fn, loop, where)
    fn = bind(fn, loop, thread)
    terms = threads
    while terms > _LAST_TERMS:
        terms = -(-terms // 2)
        fn, (_, pair) = split(fn, loops_of(fn, total)[-1], factor=terms)
        fn, _ = _partial(fn, pair, where)
        fn, (_, thread_loop) = split(fn, pair, factor=threads)
        fn = bind(fn, thread_loop, thread)
    return fn, first


def _block_in(fn: ir.Function, loop: str) -> str:
    """The block that reduces over a loop; `rfactor` refuses another number of blocks."""
    return next(stmt.name for stmt in ir.find(loop_at(loop_path(fn, loop, "")), ir.Block))


def _partial(fn: ir.Function, loop: str, where: str) -> tuple[ir.Function, str]:
    """`fn` with a reduction factored over a loop, its partial results in shared memory."""
    fn, name = _factored(fn, loop, 0, where)
    for buffer in sorted(written_buffers(leaf_at(block_path(fn, name, where)).block)):
        fn = set_scope(fn, buffer, "shared")
    return fn, name
