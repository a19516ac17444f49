# SPDX-License-Identifier: Apache-2.0
"""Batched execution: many points of a loop nest at once, with the result of sequential execution.

A `BatchedNest` is loops around one leaf block. Loops along which the block writes distinct elements
become dimensions of NumPy arrays, and so do innermost loops along which it sums integers or takes a
minimum or maximum.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from vdla.compiler import ir
from vdla.compiler.arith import ambiguous_vars, linear, var_names
from vdla.compiler.interpret.memory import EVERYWHERE, NOWHERE, InterpreterMemory, InterpretError, Mask, Points
from vdla.compiler.ir import Array
from vdla.compiler.ir.by_identity import by_identity

MOST_POINTS = 1 << 21  # of a batch, so that temporaries stay in cache
_Env = dict[str, Any]
_Stores = tuple[ir.Store, ...]


@dataclass(frozen=True, slots=True)
class BatchedNest:
    """Loops and enclosing blocks, outermost first, around a leaf block that is one (multi-)store.

    `spatial` loops write distinct elements; `reduce` loops combine into one element with an
    operator independent of order. Both are batched; `serial` loops run in sequence around them.
    """

    headers: tuple[ir.For | ir.Block, ...]
    block: ir.Block
    init: _Stores
    body: _Stores
    spatial: tuple[ir.For, ...]
    reduce: tuple[ir.For, ...]
    serial: tuple[ir.For, ...]

    @property
    def place(self) -> set[str]:
        """The variables in the indices of the stored element."""
        return {e.name for index in self.body[0].indices for e in ir.find(index, ir.Var)}


def batched_nest(stmt: ir.Stmt, most_points: int = MOST_POINTS) -> BatchedNest | None:
    """`stmt` as a nest around one leaf block, with at most so many points in a batch; None if it is
    not one.
    """
    headers: list[ir.For | ir.Block] = []
    while isinstance(stmt, (ir.For, ir.Block)):
        headers.append(stmt)
        if isinstance(stmt, ir.Block) and stmt.init is not None and _stores_of(stmt.body) is None:
            return None
        stmt = stmt.body
    leaf = headers.pop() if headers else None
    if not isinstance(leaf, ir.Block):
        return None
    init, body = () if leaf.init is None else _stores_of(leaf.init), _stores_of(stmt)
    return None if init is None or body is None else _classify(tuple(headers), leaf, init, body, most_points)


@by_identity(256)
def usual_nest(stmt: ir.Stmt) -> BatchedNest | None:
    """`batched_nest` with as many points in a batch as usual; kept, since the behaviour of an
    instruction is interpreted for each of its steps.
    """
    return batched_nest(stmt)


def _stores_of(stmt: ir.Stmt) -> _Stores | None:
    """The stores of a store or multi-store; None for other statements."""
    match stmt:
        case ir.Store():
            return (stmt,)
        case ir.MultiStore(stores=stores):
            return stores
    return None


def _classify(
    headers: tuple[ir.For | ir.Block, ...], block: ir.Block, init: _Stores, body: _Stores, most_points: int
) -> BatchedNest:
    """A nest with its loops classified; as many run at once as fit a batch."""
    spatial, reduced = _bound_loops(headers, block)
    loops = [header for header in headers if isinstance(header, ir.For)]
    if _reads_itself(body) or len(body) > 1:
        spatial -= _colliding_loops(headers, block)
    scanned = {axis.var for axis in block.axes if axis.kind is ir.AxisKind.SCAN}
    while True:
        both = _batched_loops(loops, body, spatial, reduced, scanned)
        serial = tuple(loop for loop in loops if loop not in both[0] and loop not in both[1])
        nest = BatchedNest(
            headers=headers, block=block, init=init, body=body, spatial=both[0], reduce=both[1], serial=serial
        )
        if batch_size(nest) <= most_points and len(nest.spatial) + len(nest.reduce) <= ir.MAX_RANK:
            return nest
        biggest = next(loop for loop in loops if loop not in serial)
        spatial, reduced = spatial - {biggest.var}, reduced - {biggest.var}


def _batched_loops(
    loops: list[ir.For], body: _Stores, spatial: set[str], reduced: set[str], scanned: set[str]
) -> tuple[tuple[ir.For, ...], tuple[ir.For, ...]]:
    """The loops that can be batched: the spatial ones and the reduce ones."""
    if not _reads_itself(body):
        return tuple(loop for loop in loops if loop.var in spatial and loop.var not in reduced), ()
    if not _reads_only_own_element(body, scanned):
        return (), ()
    across = tuple(loop for loop in loops if loop.var in spatial - reduced)
    if reduction_term(body) is None:
        return across, ()
    return across, _innermost([loop for loop in loops if loop not in across], reduced - spatial)


def _innermost(loops: list[ir.For], chosen: set[str]) -> tuple[ir.For, ...]:
    """The chosen loops inside all others, so that batching them reorders nothing."""
    last = max((place for place, loop in enumerate(loops) if loop.var not in chosen), default=-1)
    return tuple(loops[last + 1 :])


def _bound_loops(headers: tuple[ir.For | ir.Block, ...], block: ir.Block) -> tuple[set[str], set[str]]:
    """The loop variables in the bindings of spatial axes, and in those of reduce axes.

    Loops over the steps of a scan are in neither.
    """
    depends: dict[str, set[str]] = {}
    sets: dict[ir.AxisKind, set[str]] = {kind: set() for kind in ir.AxisKind}
    for header in (*headers, block):
        if isinstance(header, ir.For):
            depends[header.var] = {header.var}
            continue
        for axis, value in header.bindings:
            names = (e.name for e in ir.find(value, ir.Var))
            depends[axis.var] = set().union(*(depends.get(name, set()) for name in names))
    for axis in block.axes:
        sets[axis.kind] |= depends[axis.var]
    steps = sets[ir.AxisKind.SCAN]
    return sets[ir.AxisKind.SPATIAL] - steps, sets[ir.AxisKind.REDUCE] - steps


def _colliding_loops(headers: tuple[ir.For | ir.Block, ...], block: ir.Block) -> set[str]:
    """The loop variables that write one element in several iterations."""
    values: dict[str, ir.Expr] = {}
    ranges: dict[str, tuple[int, int]] = {}
    for header in (*headers, block):
        if isinstance(header, ir.For):
            ranges[header.var] = (0, header.size - 1)
        else:
            bound = [ir.substitute(value, values) for value in header.values]
            values |= {axis.var: value for axis, value in zip(header.axes, bound, strict=True)}
    spatial = [linear(values[axis.var]) for axis in block.axes if axis.kind is ir.AxisKind.SPATIAL]
    loop_forms = [form.only(lambda term: bool(var_names(term) & ranges.keys())) for form in spatial]
    return set().union(*(ambiguous_vars(form, ranges) for form in loop_forms))


def _own_loads(body: _Stores) -> list[ir.Load]:
    """The loads from the buffers that the stores write."""
    written = {store.buffer for store in body}
    parts = (expr for store in body for expr in (store.value, *store.indices))
    return [e for part in parts for e in ir.find(part, ir.Load) if e.buffer in written]


def _reads_itself(body: _Stores) -> bool:
    """Whether the stores read buffers that they write."""
    return bool(_own_loads(body))


def _reads_only_own_element(body: _Stores, scanned: set[str]) -> bool:
    """Whether own loads are of the stored element, or of other steps of a scan."""
    here = body[0].indices
    same = all(store.indices == here for store in body)
    return same and all(load.indices == here or _is_other_step(load, here, scanned) for load in _own_loads(body))


def _is_other_step(load: ir.Load, here: tuple[ir.Expr, ...], scanned: set[str]) -> bool:
    """Whether a load is of another step of a scan than the element `here`."""
    for index, step_index in zip(load.indices, here, strict=False):
        if isinstance(step_index, ir.Var) and step_index.name in scanned:
            distance = linear(index) - linear(step_index)
            if not distance.terms and distance.const:
                return True
    return False


def reduction_term(body: _Stores) -> tuple[str, ir.Expr] | None:
    """(op, term) of a single store `element = element op term` with add, min or max; else None."""
    accumulator = body[0].buffer
    match body[0].value:
        case ir.Binary(op=("add" | "min" | "max") as op, a=ir.Load(buffer=buffer), b=term) if buffer == accumulator:
            loads = (e.buffer for e in ir.find(term, ir.Load))
            return None if accumulator in loads or len(body) > 1 else (op, term)
    return None


def batch_size(nest: BatchedNest) -> int:
    """The number of points that run at once."""
    return int(np.prod([loop.size for loop in (*nest.spatial, *nest.reduce)], dtype=np.int64))


def run_batched(memory: InterpreterMemory, nest: BatchedNest, env: _Env) -> None:
    """Runs a nest: serial loops in sequence, all others batched."""
    if not batch_size(nest):
        return
    if nest.reduce and _is_sum(nest) and not memory.sums_at_once(memory.buffers[nest.body[0].buffer].dtype):
        nest = replace(nest, reduce=(), serial=(*nest.serial, *nest.reduce))
        nest = replace(nest, serial=tuple(h for h in nest.headers if h in nest.serial and isinstance(h, ir.For)))
    grid = _open_grid((*nest.spatial, *nest.reduce))
    for point in _serial_points(nest.serial):
        at = Points(env | grid | point, EVERYWHERE, nest.block.name)
        for header in (*nest.headers, nest.block):
            at = _enter(memory, header, at) if isinstance(header, ir.Block) and at.mask is not NOWHERE else at
        if at.mask.any():
            _run_points(memory, nest, at)


def _is_sum(nest: BatchedNest) -> bool:
    """Whether the reduction is a sum."""
    term = reduction_term(nest.body)
    return term is not None and term[0] == "add"


def _serial_points(loops: tuple[ir.For, ...]) -> Iterator[_Env]:
    """Every assignment of the loop variables, in order."""
    for point in product(*(range(loop.size) for loop in loops)):
        yield {loop.var: i for loop, i in zip(loops, point, strict=True)}


def _open_grid(loops: tuple[ir.For, ...]) -> _Env:
    """The loop variables as arrays, each along its own dimension."""
    axes = np.ix_(*(np.arange(loop.size, dtype=np.int32) for loop in loops))
    return {loop.var: axis for loop, axis in zip(loops, axes, strict=True)}


def _run_points(memory: InterpreterMemory, nest: BatchedNest, at: Points) -> None:
    """Runs the leaf block at all points at once."""
    if nest.init:
        start = _initial_points(nest, at)
        if start.mask.any():
            memory.store_all(nest.init, start)
    if not nest.reduce:
        return memory.store_all(nest.body, at)
    _combine_along(memory, nest, at)


def _initial_points(nest: BatchedNest, at: Points) -> Points:
    """The points at which elements are initialised, each element once where that is known."""
    first = _first_mask(nest.block, at)
    read = {e.name for store in nest.init for e in ir.find(store.value, ir.Var)}
    alike = all(extent == 1 for extent in first.shape[: len(nest.spatial)]) and read <= nest.place
    if nest.reduce and at.mask is EVERYWHERE and alike:
        return replace(_first_along(nest, at), mask=np.full((1,) * first.ndim, first.any()))
    return at.only(first)


def _combine_along(memory: InterpreterMemory, nest: BatchedNest, at: Points) -> None:
    """`element = element op (terms combined over the reduce loops)`."""
    term = reduction_term(nest.body)
    assert term is not None
    op, expr = term
    body = nest.body[0]
    dtype = memory.buffers[body.buffer].dtype
    shape = tuple(loop.size for loop in (*nest.spatial, *nest.reduce))
    along = tuple(range(len(nest.spatial), len(shape)))
    total = memory.total(op, expr, at, shape, along, dtype)
    everywhere = at.mask is EVERYWHERE
    ones = np.ones((1,) * len(shape), np.bool_)  # of the rank of the total, also where no loop is spatial
    mask = ones if everywhere else np.broadcast_to(at.mask, shape).any(axis=along, keepdims=True)
    here = _first_along(nest, replace(at, mask=np.asarray(mask)))
    old = memory.value(body.value.a, here)  # type: ignore[union-attr]
    memory.store(body.buffer, memory.places(body.indices, here), memory.combined(op, old, total, dtype), here)


def _first_along(nest: BatchedNest, at: Points) -> Points:
    """The points with the reduce loops at 0, on which the element does not depend."""
    values = dict(at.values)
    for name in nest.place:
        value = values[name]
        if np.ndim(value) == len(nest.spatial) + len(nest.reduce):
            for dimension in range(len(nest.spatial), np.ndim(value)):
                value = value.take([0], axis=dimension)
            values[name] = value
    return replace(at, values=values)


# --- blocks ---------------------------------------------------------------------------------------


def _enter(memory: InterpreterMemory, block: ir.Block, at: Points) -> Points:
    """The points inside `block`: its predicate holds, its axes are bound."""
    at = replace(at, where=block.name)
    if block.predicate is not None:
        at = at.only(memory.index(block.predicate, at))
        if at.mask is NOWHERE:
            return at
    bound = {axis.var: memory.index(value, at) for axis, value in block.bindings}
    for axis in memory.indices.unsure_axes(block):
        _check_axis(block, axis, np.asarray(bound[axis.var]), at.mask)
    return replace(at, values={**at.values, **bound})


def _check_axis(block: ir.Block, axis: ir.Axis, values: Array, mask: Mask) -> None:
    """Rejects a binding outside its domain at an active point."""
    outside = np.asarray(((values < 0) | (values >= axis.extent)) & mask)
    if outside.any():
        value = np.broadcast_to(values, outside.shape)[outside][0]
        raise InterpretError(f"block {block.name}: axis {axis.var} must be in 0..{axis.size - 1}, got {value}")


def _first_mask(block: ir.Block, at: Points) -> Mask:
    """Where every reduce axis of `block` is 0."""
    zero = [at.values[axis.var] == 0 for axis in block.axes if axis.kind is ir.AxisKind.REDUCE]
    return reduce(np.logical_and, zero, EVERYWHERE)
