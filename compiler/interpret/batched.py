"""Many points of a loop nest at once, wherever that cannot be told from running them one by one.

A `Nest` is loops around one leaf block. Loops along which the block writes different elements run at once, as
dimensions of numpy arrays; so do the innermost ones along which it adds integers or takes the least or most.
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
from vdla.compiler.interpret.memory import EVERYWHERE, NOWHERE, InterpretError, Mask, Memory, Points
from vdla.compiler.ir import Array, is_float, limits, widen, wrap

MAX_POINTS = 1 << 21  # at once, so that temporaries stay in the cache of a small machine
Env = dict[str, Any]
Stores = tuple[ir.Store, ...]


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops and enclosing blocks, outermost first, around one leaf block of one store or several at once.

    `spatial` loops reach different elements, so their order cannot be seen; `reduce` loops reach the same elements
    with an operator whose order cannot be seen either. All other loops run one by one, outside of these.
    """

    headers: tuple[ir.For | ir.Block, ...]
    block: ir.Block
    init: Stores
    body: Stores
    spatial: tuple[ir.For, ...]
    reduce: tuple[ir.For, ...]
    serial: tuple[ir.For, ...]

    @property
    def place(self) -> set[str]:
        """The variables in the indices of the element."""
        return {e.name for index in self.body[0].indices for e in ir.walk_expr(index) if isinstance(e, ir.Var)}


def nest_of(stmt: ir.Stmt) -> Nest | None:
    """The nest that `stmt` is, if it is one."""
    headers: list[ir.For | ir.Block] = []
    while isinstance(stmt, (ir.For, ir.Block)):
        headers.append(stmt)
        if isinstance(stmt, ir.Block) and stmt.init is not None and stores_of(stmt.body) is None:
            return None
        stmt = stmt.body
    leaf = headers.pop() if headers else None
    if not isinstance(leaf, ir.Block):
        return None
    init, body = () if leaf.init is None else stores_of(leaf.init), stores_of(stmt)
    return None if init is None or body is None else classify(tuple(headers), leaf, init, body)


def stores_of(stmt: ir.Stmt) -> Stores | None:
    """The stores that a statement is, if it is nothing else."""
    match stmt:
        case ir.Store():
            return (stmt,)
        case ir.MultiStore(stores=stores):
            return stores
    return None


def classify(headers: tuple[ir.For | ir.Block, ...], block: ir.Block, init: Stores, body: Stores) -> Nest:
    """Sort the loops of a nest."""
    spatial, reduced = reached(headers, block)
    loops = [header for header in headers if isinstance(header, ir.For)]
    if reads_itself(body) or len(body) > 1:
        spatial -= repeated(headers, block)
    scanned = {axis.var for axis in block.axes if axis.kind is ir.AxisKind.SCAN}
    while True:
        both = free_loops(loops, body, spatial, reduced, scanned)
        serial = tuple(loop for loop in loops if loop not in both[0] and loop not in both[1])
        nest = Nest(headers, block, init, body, both[0], both[1], serial)
        if size(nest) <= MAX_POINTS and len(nest.spatial) + len(nest.reduce) <= ir.MAX_RANK:
            return nest
        biggest = next(loop for loop in loops if loop not in serial)
        spatial, reduced = spatial - {biggest.var}, reduced - {biggest.var}


def free_loops(
    loops: list[ir.For], body: Stores, spatial: set[str], reduced: set[str], scanned: set[str]
) -> tuple[tuple[ir.For, ...], tuple[ir.For, ...]]:
    """The loops that may run at once: spatial ones and reduce ones."""
    if not reads_itself(body):
        return tuple(loop for loop in loops if loop.var in spatial and loop.var not in reduced), ()
    if not only_own_element(body, scanned):
        return (), ()
    across = tuple(loop for loop in loops if loop.var in spatial - reduced)
    if term_of(body) is None:
        return across, ()
    return across, innermost([loop for loop in loops if loop not in across], reduced - spatial)


def innermost(loops: list[ir.For], chosen: set[str]) -> tuple[ir.For, ...]:
    """The chosen loops that lie inside of all others, so that running them at once changes no order."""
    last = max((place for place, loop in enumerate(loops) if loop.var not in chosen), default=-1)
    return tuple(loops[last + 1 :])


def reached(headers: tuple[ir.For | ir.Block, ...], block: ir.Block) -> tuple[set[str], set[str]]:
    """The loop variables in the bindings of the block's spatial axes, and in those of its reduce axes; none of those
    over the steps of a scan."""
    depends: dict[str, set[str]] = {}
    sets: dict[ir.AxisKind, set[str]] = {kind: set() for kind in ir.AxisKind}
    for header in (*headers, block):
        if isinstance(header, ir.For):
            depends[header.var] = {header.var}
            continue
        for axis, value in zip(header.axes, header.values, strict=True):
            names = (e.name for e in ir.walk_expr(value) if isinstance(e, ir.Var))
            depends[axis.var] = set().union(*(depends.get(name, set()) for name in names))
    for axis in block.axes:
        sets[axis.kind] |= depends[axis.var]
    steps = sets[ir.AxisKind.SCAN]
    return sets[ir.AxisKind.SPATIAL] - steps, sets[ir.AxisKind.REDUCE] - steps


def repeated(headers: tuple[ir.For | ir.Block, ...], block: ir.Block) -> set[str]:
    """The loop variables in bindings of spatial axes that reach one element in several iterations."""
    values: dict[str, ir.Expr] = {}
    ranges: dict[str, tuple[int, int]] = {}
    for header in (*headers, block):
        if isinstance(header, ir.For):
            ranges[header.var] = (0, header.size - 1)
        else:
            bound = [ir.substitute(value, values) for value in header.values]
            values |= {axis.var: value for axis, value in zip(header.axes, bound, strict=True)}
    spatial = [linear(values[axis.var]) for axis in block.axes if axis.kind is ir.AxisKind.SPATIAL]
    own = [form.only(lambda term: bool(var_names(term) & ranges.keys())) for form in spatial]
    return set().union(*(ambiguous_vars(form, ranges) for form in own))


def own_loads(body: Stores) -> list[ir.Load]:
    """The loads of what the stores write."""
    written = {store.buffer for store in body}
    parts = (expr for store in body for expr in (store.value, *store.indices))
    return [e for part in parts for e in ir.walk_expr(part) if isinstance(e, ir.Load) and e.buffer in written]


def reads_itself(body: Stores) -> bool:
    """Whether the stores read what they write."""
    return bool(own_loads(body))


def only_own_element(body: Stores, scanned: set[str]) -> bool:
    """Whether the stores read of what they write only the element itself, or elements of other steps of a scan."""
    here = body[0].indices
    same = all(store.indices == here for store in body)
    return same and all(load.indices == here or of_other_step(load, here, scanned) for load in own_loads(body))


def of_other_step(load: ir.Load, here: tuple[ir.Expr, ...], scanned: set[str]) -> bool:
    """Whether a load is of another step of a scan than that of the element `here`."""
    for index, own in zip(load.indices, here, strict=False):
        if isinstance(own, ir.Var) and own.name in scanned:
            distance = linear(index) + linear(own).scaled(-1)
            if not distance.terms and distance.const:
                return True
    return False


def term_of(body: Stores) -> tuple[str, ir.Expr] | None:
    """(op, term) where the only store is `element = element op term` and the order of the terms cannot be seen."""
    own = body[0].buffer
    match body[0].value:
        case ir.Binary(op=("add" | "min" | "max") as op, a=ir.Load(buffer=buffer), b=term) if buffer == own:
            loads = (e.buffer for e in ir.walk_expr(term) if isinstance(e, ir.Load))
            return None if own in loads or len(body) > 1 else (op, term)
    return None


def size(nest: Nest) -> int:
    """How many points run at once."""
    return int(np.prod([loop.size for loop in (*nest.spatial, *nest.reduce)], dtype=np.int64))


def run_nest(memory: Memory, nest: Nest, env: Env) -> None:
    """Run a nest: the serial loops one by one, the others at once."""
    if not size(nest):
        return
    if nest.reduce and is_float(memory.buffers[nest.body[0].buffer].dtype) and term_is_sum(nest):
        nest = replace(nest, reduce=(), serial=(*nest.serial, *nest.reduce))
        nest = replace(nest, serial=tuple(h for h in nest.headers if h in nest.serial and isinstance(h, ir.For)))
    grid = open_grid((*nest.spatial, *nest.reduce))
    for point in serial_points(nest.serial):
        at = Points(env | grid | point, EVERYWHERE, nest.block.name)
        for header in (*nest.headers, nest.block):
            at = enter(memory, header, at) if isinstance(header, ir.Block) and at.mask is not NOWHERE else at
        if at.mask.any():
            run_points(memory, nest, at)


def term_is_sum(nest: Nest) -> bool:
    """Whether the reduction adds; a sum of floats depends on its order."""
    term = term_of(nest.body)
    return term is not None and term[0] == "add"


def serial_points(loops: tuple[ir.For, ...]) -> Iterator[Env]:
    """Every setting of the loop variables, in order."""
    for point in product(*(range(loop.size) for loop in loops)):
        yield {loop.var: i for loop, i in zip(loops, point, strict=True)}


def open_grid(loops: tuple[ir.For, ...]) -> Env:
    """Each loop variable along a dimension of its own."""
    axes = np.ix_(*(np.arange(loop.size, dtype=np.int32) for loop in loops))
    return {loop.var: axis for loop, axis in zip(loops, axes, strict=True)}


def run_points(memory: Memory, nest: Nest, at: Points) -> None:
    """Run the leaf block at all points at once."""
    if nest.init:
        start = at.only(at_start(nest.block, at))
        if start.mask.any():
            memory.store_all(nest.init, start)
    if not nest.reduce:
        return memory.store_all(nest.body, at)
    combine_along(memory, nest, at)


def combine_along(memory: Memory, nest: Nest, at: Points) -> None:
    """`element = element op (the terms along the reduce loops)`."""
    term = term_of(nest.body)
    assert term is not None
    op, expr = term
    body = nest.body[0]
    dtype = memory.buffers[body.buffer].dtype
    shape = tuple(loop.size for loop in (*nest.spatial, *nest.reduce))
    along = tuple(range(len(nest.spatial), len(shape)))
    mask = np.broadcast_to(at.mask, shape)
    terms = np.broadcast_to(memory.value(expr, at), shape)
    if not at.mask.all():
        terms = np.where(mask, terms, neutral(op, terms.dtype, dtype))
    total = combined(op, terms, along, dtype)
    here = first_along(nest, replace(at, mask=np.asarray(mask.any(axis=along, keepdims=True))))
    old = widen(memory.value(body.value.a, here), dtype)  # type: ignore[union-attr]
    result = wrap(np.asarray(ir.OPERATORS[op].on_arrays(old, total)), dtype)
    memory.store(body.buffer, memory.places(body.indices, here), result, here)


def combined(op: str, terms: Array, along: tuple[int, ...], dtype: str) -> Array:
    """The terms combined along the given dimensions, which stay with length 1; a sum is of integers."""
    if op == "add":
        return wrap(np.asarray(np.sum(terms.astype(np.int64), axis=along, keepdims=True)), dtype)
    return np.asarray(ir.OPERATORS[op].on_arrays.reduce(widen(terms, dtype), axis=along, keepdims=True))


def neutral(op: str, stored: np.dtype[np.generic], dtype: str) -> Array:
    """The value that changes nothing."""
    value = 0 if op == "add" else limits(dtype)[op == "min"]
    return np.asarray(value, stored)


def first_along(nest: Nest, at: Points) -> Points:
    """The points with the reduce loops at their start: the element does not depend on them."""
    values = dict(at.values)
    for name in nest.place:
        value = values[name]
        if np.ndim(value) == len(nest.spatial) + len(nest.reduce):
            for dimension in range(len(nest.spatial), np.ndim(value)):
                value = value.take([0], axis=dimension)
            values[name] = value
    return replace(at, values=values)


# --- blocks ----------------------------------------------------------------------------------------------------------


def enter(memory: Memory, block: ir.Block, at: Points) -> Points:
    """The points inside of `block`: where its predicate holds, with its axes bound."""
    at = replace(at, where=block.name)
    if block.predicate is not None:
        at = at.only(memory.index(block.predicate, at))
        if at.mask is NOWHERE:
            return at
    bound = {axis.var: memory.index(value, at) for axis, value in zip(block.axes, block.values, strict=True)}
    for axis in memory.unsure_axes(block):
        check_axis(block, axis, np.asarray(bound[axis.var]), at.mask)
    return replace(at, values={**at.values, **bound})


def check_axis(block: ir.Block, axis: ir.Axis, values: Array, mask: Mask) -> None:
    """Refuse a binding outside of its domain where the block happens."""
    outside = np.asarray(((values < 0) | (values >= axis.extent)) & mask)
    if outside.any():
        value = np.broadcast_to(values, outside.shape)[outside][0]
        raise InterpretError(f"block {block.name}: axis {axis.var} must be in 0..{axis.size - 1}, got {value}")


def at_start(block: ir.Block, at: Points) -> Mask:
    """Where every reduce axis of `block` is 0."""
    zero = [at.values[axis.var] == 0 for axis in block.axes if axis.kind is ir.AxisKind.REDUCE]
    return reduce(np.logical_and, zero, EVERYWHERE)
