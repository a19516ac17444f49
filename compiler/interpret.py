"""The meaning of a loop nest, run with numpy: `interpret(fn, {"a": array, ...})` gives the outputs.

Loops run in order, blocks happen where their predicate holds, `init` when every reduce axis is 0, the side of a select
that is not taken is not read, and integers wrap. A nest around one block runs many points at once wherever that cannot
be told from running them one by one: see `Nest`. Reading an intermediate element before it is written is an error,
so a schedule that breaks a dependence shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from vdla.compiler import ir
from vdla.compiler.affine import linear, overlapping, var_names
from vdla.compiler.dtypes import Array, is_float, limits, storage, wrap
from vdla.compiler.memory import EVERYWHERE, NOWHERE, InterpretError, Mask, Memory, Points

MAX_POINTS = 1 << 21  # at once, so that temporaries stay in the cache of a small machine
UFUNCS = {"add": np.add, "min": np.minimum, "max": np.maximum}
Env = dict[str, Any]


def interpret(fn: ir.Function, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Run `fn` on the input `arrays`, by parameter name; the outputs, by parameter name."""
    outputs = output_names(fn)
    memory = Memory(fn.buffers, loop_ranges(fn))
    for name, array in checked_inputs(fn, outputs, arrays).items():
        memory.fill(name, array)
    with np.errstate(all="ignore"):
        Interpreter(memory).run(fn.body, {})
    for name in outputs:
        missing = int((~memory.written[name]).sum())
        if missing:
            raise InterpretError(f"{fn.name}: every element of {name} must be written, got {missing} that are not")
    return {name: memory.arrays[name] for name in outputs}


def loop_ranges(fn: ir.Function) -> dict[str, tuple[int, int]]:
    """The bounds of every loop variable, and of the axes of blocks, which are checked on the way in."""
    ranges: dict[str, tuple[int, int]] = {}
    for stmt in ir.walk(fn.body):
        if isinstance(stmt, ir.For):
            ranges[stmt.var] = (0, stmt.size - 1)
        if isinstance(stmt, ir.Block) and not isinstance(stmt.body, ir.Store):
            ranges.update((axis.var, (0, axis.size - 1)) for axis in stmt.axes)
    return ranges


def output_names(fn: ir.Function) -> list[str]:
    """The parameters that the function writes."""
    stored = {stmt.buffer for stmt in ir.walk(fn.body) if isinstance(stmt, ir.Store)}
    return [name for name in fn.params if name in stored]


def checked_inputs(fn: ir.Function, outputs: list[str], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The input arrays, of the declared shapes and dtypes."""
    expected = [name for name in fn.params if name not in outputs]
    if set(arrays) != set(expected):
        raise InterpretError(f"{fn.name}: arrays must be given for {', '.join(expected)}, got {', '.join(arrays)}")
    return {name: checked_input(fn.name, fn.buffers[name], arrays[name]) for name in expected}


def checked_input(where: str, buffer: ir.Buffer, array: Array) -> Array:
    """One input array; sub-byte elements come in int8 and must be in range."""
    if array.shape != buffer.shape:
        raise InterpretError(f"{where}: {buffer.name} must have the shape {buffer.shape}, got {array.shape}")
    if array.dtype != storage(buffer.dtype):
        raise InterpretError(f"{where}: {buffer.name} must have the dtype {storage(buffer.dtype)}, got {array.dtype}")
    wrapped = wrap(array, buffer.dtype)
    if buffer.dtype in ("int2", "int4") and (wrapped != array).any():
        value = int(array[wrapped != array].flat[0])
        raise InterpretError(f"{where}: elements of {buffer.name} must be in the range of {buffer.dtype}, got {value}")
    return array


class Interpreter:
    """Runs statements on a memory."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._nests: dict[int, Nest | None] = {}

    def run(self, stmt: ir.Stmt, env: Env) -> None:
        """Run `stmt` with the variables around it."""
        if isinstance(stmt, (ir.For, ir.Block)) and (nest := self._nest(stmt)) is not None:
            return run_nest(self.memory, nest, env)
        match stmt:
            case ir.Seq(stmts=stmts):
                for inner in stmts:
                    self.run(inner, env)
            case ir.For(var=var, body=body):
                for i in range(stmt.size):
                    self.run(body, env | {var: i})
            case ir.Block():
                self._run_block(stmt, env)
            case ir.Store():
                run_store(self.memory, stmt, Points(env, EVERYWHERE, stmt.buffer))
            case ir.Together(stores=stores):
                self._run_together(stores, Points(env, EVERYWHERE, ""))
            case ir.If(cond=cond, body=body):
                if self.memory.value(cond, Points(env, EVERYWHERE, "if")):
                    self.run(body, env)
            case ir.Alloc(buffer=buffer, body=body):
                self.memory.written[buffer][...] = False
                self.run(body, env)
            case ir.Step(body=body):
                self.run(body, env)

    def _run_together(self, stores: tuple[ir.Store, ...], at: Points) -> None:
        values = [self.memory.value(store.value, replace(at, where=store.buffer)) for store in stores]
        places = [tuple(ir.Const(int(self.memory.index(i, at))) for i in store.indices) for store in stores]
        for store, indices, value in zip(stores, places, values, strict=True):
            self.memory.store(store.buffer, indices, value, replace(at, where=store.buffer))

    def _nest(self, stmt: ir.Stmt) -> Nest | None:
        if id(stmt) not in self._nests:
            self._nests[id(stmt)] = nest_of(stmt)
        return self._nests[id(stmt)]

    def _run_block(self, block: ir.Block, env: Env) -> None:
        at = enter(self.memory, block, Points(env, EVERYWHERE, block.name))
        if not at.mask.all():
            return
        if block.init is not None and at_start(block, at).all():
            self.run(block.init, dict(at.values))
        self.run(block.body, dict(at.values))


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


def run_store(memory: Memory, store: ir.Store, at: Points) -> None:
    """Store at every point of the mask."""
    memory.store(store.buffer, store.indices, memory.value(store.value, at), at)


# --- many points at once ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Nest:
    """Loops and enclosing blocks, outermost first, around one leaf block.

    `spatial` loops reach different elements, so their order cannot be seen; `reduce` loops reach the same elements
    with an operator whose order cannot be seen either. All other loops run one by one, outside of these.
    """

    headers: tuple[ir.For | ir.Block, ...]
    block: ir.Block
    init: ir.Store | None
    body: ir.Store
    spatial: tuple[ir.For, ...]
    reduce: tuple[ir.For, ...]
    serial: tuple[ir.For, ...]

    @property
    def place(self) -> set[str]:
        """The variables in the indices of the element."""
        return {e.name for index in self.body.indices for e in ir.walk_expr(index) if isinstance(e, ir.Var)}


def nest_of(stmt: ir.Stmt) -> Nest | None:
    """The nest that `stmt` is, if it is one."""
    headers: list[ir.For | ir.Block] = []
    while isinstance(stmt, (ir.For, ir.Block)):
        headers.append(stmt)
        if isinstance(stmt, ir.Block) and stmt.init is not None and not isinstance(stmt.body, ir.Store):
            return None
        stmt = stmt.body
    leaf = headers.pop() if headers else None
    if not isinstance(leaf, ir.Block) or not isinstance(stmt, ir.Store):
        return None
    if not (leaf.init is None or isinstance(leaf.init, ir.Store)):
        return None
    return classify(tuple(headers), leaf, leaf.init, stmt)


def classify(headers: tuple[ir.For | ir.Block, ...], block: ir.Block, init: ir.Store | None, body: ir.Store) -> Nest:
    """Sort the loops of a nest."""
    spatial, reduced = reached(headers, block)
    loops = [header for header in headers if isinstance(header, ir.For)]
    if reads_itself(body):
        spatial -= repeated(headers, block)
    while True:
        both = free_loops(loops, body, spatial, reduced)
        serial = tuple(loop for loop in loops if loop not in both[0] and loop not in both[1])
        nest = Nest(headers, block, init, body, both[0], both[1], serial)
        if size(nest) <= MAX_POINTS:
            return nest
        biggest = next(loop for loop in loops if loop not in serial)
        spatial, reduced = spatial - {biggest.var}, reduced - {biggest.var}


def free_loops(
    loops: list[ir.For], body: ir.Store, spatial: set[str], reduced: set[str]
) -> tuple[tuple[ir.For, ...], tuple[ir.For, ...]]:
    """The loops that may run at once: spatial ones and reduce ones."""
    if not reads_itself(body):
        return tuple(loop for loop in loops if loop.var in spatial and loop.var not in reduced), ()
    if not only_own_element(body):
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
    """The loop variables in the bindings of the block's spatial axes, and in those of its reduce axes."""
    depends: dict[str, set[str]] = {}
    sets: tuple[set[str], set[str]] = (set(), set())
    for header in (*headers, block):
        if isinstance(header, ir.For):
            depends[header.var] = {header.var}
            continue
        for axis, value in zip(header.axes, header.values, strict=True):
            names = (e.name for e in ir.walk_expr(value) if isinstance(e, ir.Var))
            depends[axis.var] = set().union(*(depends.get(name, set()) for name in names))
    for axis in block.axes:
        sets[axis.kind is ir.AxisKind.REDUCE].update(depends[axis.var])
    return sets


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
    return set().union(*(overlapping(form, ranges) for form in own))


def reads_itself(body: ir.Store) -> bool:
    """Whether the store reads its own buffer."""
    return any(isinstance(e, ir.Load) and e.buffer == body.buffer for e in ir.walk_expr(body.value))


def only_own_element(body: ir.Store) -> bool:
    """Whether the store reads of its own buffer the element that it writes, and nothing else."""
    loads = (e for e in ir.walk_expr(body.value) if isinstance(e, ir.Load) and e.buffer == body.buffer)
    return all(load.indices == body.indices for load in loads)


def term_of(body: ir.Store) -> tuple[str, ir.Expr] | None:
    """(op, term) where the store is `element = element op term` and the order of the terms cannot be seen."""
    match body.value:
        case ir.Binary(op=("add" | "min" | "max") as op, a=ir.Load(buffer=buffer), b=term) if buffer == body.buffer:
            loads = (e.buffer for e in ir.walk_expr(term) if isinstance(e, ir.Load))
            return None if body.buffer in loads else (op, term)
    return None


def size(nest: Nest) -> int:
    """How many points run at once."""
    return int(np.prod([loop.size for loop in (*nest.spatial, *nest.reduce)], dtype=np.int64))


def run_nest(memory: Memory, nest: Nest, env: Env) -> None:
    """Run a nest: the serial loops one by one, the others at once."""
    if nest.reduce and is_float(memory.buffers[nest.body.buffer].dtype) and term_is_sum(nest):
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
    if nest.init is not None:
        start = at.only(at_start(nest.block, at))
        if start.mask.any():
            run_store(memory, nest.init, start)
    if not nest.reduce:
        return run_store(memory, nest.body, at)
    combine_along(memory, nest, at)


def combine_along(memory: Memory, nest: Nest, at: Points) -> None:
    """`element = element op (the terms along the reduce loops)`."""
    term = term_of(nest.body)
    assert term is not None
    op, expr = term
    dtype = memory.buffers[nest.body.buffer].dtype
    shape = tuple(loop.size for loop in (*nest.spatial, *nest.reduce))
    along = tuple(range(len(nest.spatial), len(shape)))
    mask = np.broadcast_to(at.mask, shape)
    terms = np.broadcast_to(memory.value(expr, at), shape)
    if not at.mask.all():
        terms = np.where(mask, terms, neutral(op, terms.dtype, dtype))
    total = combined(op, terms, along, dtype)
    here = first_along(nest, replace(at, mask=np.asarray(mask.any(axis=along, keepdims=True))))
    old = memory.value(nest.body.value.a, here)  # type: ignore[union-attr]
    memory.store(nest.body.buffer, nest.body.indices, wrap(np.asarray(UFUNCS[op](old, total)), dtype), here)


def combined(op: str, terms: Array, along: tuple[int, ...], dtype: str) -> Array:
    """The terms combined along the given dimensions, which stay with length 1."""
    if op == "add":
        return wrap(np.asarray(np.sum(terms, axis=along, keepdims=True, dtype=np.int64)), dtype)
    return np.asarray(UFUNCS[op].reduce(terms, axis=along, keepdims=True))


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
