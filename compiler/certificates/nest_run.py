# SPDX-License-Identifier: Apache-2.0
"""Loop nests of a CPU on symbols: as expressed, as scheduled, or lowered.

Iterations of the outermost parallel loops run at once, so they may not access one element, one of
them to write it. Stores inside loops become blocks, whose iterations are computed together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from vdla.compiler import ir
from vdla.compiler.arith import function_ranges
from vdla.compiler.certificates.evaluate import SymbolicClosures
from vdla.compiler.certificates.float_symbols import float_unknowns
from vdla.compiler.certificates.nest_memory import NestMemory
from vdla.compiler.certificates.sum_bounds import SumBounds
from vdla.compiler.certificates.symbols import Symbols, unknowns
from vdla.compiler.interpret.memory import Indices, InterpretError, Points
from vdla.compiler.ir import is_float, map_children

_ONE_POINT = np.ones((), np.bool_)


def nest_inputs(fn: ir.Function, seed: int) -> dict[str, Symbols]:
    """Unknown inputs of a function, by parameter name."""
    outputs = ir.output_names(fn)
    buffers = [fn.buffers[name] for name in fn.params if name not in outputs]
    return {buffer.name: unknown_elements(buffer.name, buffer.dims, buffer.dtype, seed) for buffer in buffers}


def unknown_elements(name: str, shape: tuple[int, ...], dtype: str, seed: int) -> Symbols:
    """Independent elements of a type."""
    return float_unknowns(name, shape, seed) if is_float(dtype) else unknowns(name, shape, dtype, seed)


def run_nest(
    fn: ir.Function, inputs: Mapping[str, Symbols], outputs: Sequence[str] | None = None
) -> dict[str, Symbols]:
    """The parameters `outputs` of a function with extents that are numbers, by name.

    They are those that it writes, unless given.

    Raises:
        InterpretError: an access out of bounds or of an element that is not written, a result that
            is not written, or iterations that run at once and race.
        CertificateError: a type without symbols, or an index that depends on inputs.
    """
    fn = replace(fn, body=with_blocks(fn))
    memory = NestMemory(fn.buffers, Indices(function_ranges(fn, axes=True)))
    memory.sums = SumBounds()
    for name, array in inputs.items():
        memory.fill(name, np.ascontiguousarray(array))
    with np.errstate(all="ignore"):
        _NestClosures(memory).statement(fn.body)({})
    return written_outputs(fn.name, memory, ir.output_names(fn) if outputs is None else outputs)


def written_outputs(where: str, memory: NestMemory, names: Sequence[str]) -> dict[str, Symbols]:
    """Buffers by name.

    Raises:
        InterpretError: an element is not written.
    """
    for name in names:
        missing = int((~memory.written[name]).sum())
        if missing:
            raise InterpretError(f"{where}: every element of {name} must be written, got {missing} unwritten")
    return {name: memory.arrays[name] for name in names}


class _NestClosures(SymbolicClosures):
    """Statements as closures, with parallel loops whose iterations run at once."""

    memory: NestMemory

    def statement(self, stmt: ir.Stmt, where: str | None = None) -> Any:  # noqa: ANN401  a closure
        """A statement as a closure; a loop around a parallel one runs in sequence."""
        if isinstance(stmt, ir.For) and stmt.kind is ir.LoopKind.PARALLEL:
            return self._parallel(stmt, where)
        if isinstance(stmt, ir.For) and any(loop.kind is ir.LoopKind.PARALLEL for loop in ir.find(stmt, ir.For)):
            return self._serial(stmt, where)
        if isinstance(stmt, ir.Alloc | ir.HeapAlloc):
            return self._allocated(stmt, where)
        return super().statement(stmt, where)

    def _parallel(self, loop: ir.For, where: str | None) -> Any:  # noqa: ANN401
        serial = {inner.var for inner in ir.find(loop.body, ir.For)}
        body = ir.transform(loop.body, lambda one: _as_serial(one, serial))
        run = super().statement(replace(loop, body=body), where)

        def at_once(env: dict[str, Any]) -> None:
            self.memory.start(loop.var)
            run(env)
            self.memory.stop()

        return at_once

    def _serial(self, loop: ir.For, where: str | None) -> Any:  # noqa: ANN401
        body, extent = self.statement(loop.body, where), loop.size

        def run(env: dict[str, Any]) -> None:
            for i in range(extent):
                env[loop.var] = i
                body(env)

        return run

    def _allocated(self, stmt: ir.Alloc | ir.HeapAlloc, where: str | None) -> Any:  # noqa: ANN401
        inside = super().statement(stmt, where)
        slots = stmt.slots if isinstance(stmt, ir.HeapAlloc) else (stmt.buffers,)
        if isinstance(stmt, ir.HeapAlloc):
            self.memory.share(slots)

        def run(env: dict[str, Any]) -> None:
            self.memory.forget(name for slot in slots for name in slot)
            inside(env)

        return run

    def _store(self, stores: tuple[ir.Store, ...], where: str) -> Any:  # noqa: ANN401
        return lambda env: self.memory.store_all(stores, Points(env, _ONE_POINT, where))


def _as_serial(stmt: ir.Stmt, variables: set[str]) -> ir.Stmt:
    if isinstance(stmt, ir.For) and stmt.var in variables and stmt.kind is ir.LoopKind.PARALLEL:
        return replace(stmt, kind=ir.LoopKind.SERIAL)
    return stmt


# --- stores as blocks -----------------------------------------------------------------------------


def with_blocks(fn: ir.Function) -> ir.Stmt:
    """Loops around one store as loops around a block, so that they can be batched."""
    numbers = count()

    def visit(stmt: ir.Stmt, loops: list[ir.For]) -> ir.Stmt:
        match stmt:
            case ir.Block():
                return stmt
            case ir.For(body=body):
                return replace(stmt, body=visit(body, [*loops, stmt]))
            case ir.If(cond=cond, body=ir.Store() as store) if loops:
                return _as_block(fn, (store,), loops, cond, next(numbers))
            case ir.Store() if loops:
                return _as_block(fn, (stmt,), loops, None, next(numbers))
            case ir.MultiStore(stores=stores) if loops:
                return _as_block(fn, stores, loops, None, next(numbers))
        return map_children(stmt, lambda child: visit(child, []))

    return visit(fn.body, [])


def _as_block(
    fn: ir.Function, stores: tuple[ir.Store, ...], loops: list[ir.For], cond: ir.Expr | None, number: int
) -> ir.Stmt:
    """A block with an axis for each index of the element and for each loop that is in none."""
    body: ir.Stmt = stores[0] if len(stores) == 1 else ir.MultiStore(stores)
    indices = stores[0].indices
    names = [f"axis{number}.{d}" for d in range(len(indices))]
    if any(store.indices != indices or ir.reads_memory(index) for store in stores for index in indices):
        return body if cond is None else ir.If(cond, body)
    read = {variable.name for index in indices for variable in ir.find(index, ir.Var)}
    others = [loop for loop in loops if loop.var not in read]
    here = tuple(ir.Var(name) for name in names)
    axes = [ir.Axis(name, extent) for name, extent in zip(names, fn.buffers[stores[0].buffer].dims, strict=True)]
    axes += [ir.Axis(f"{loop.var}.{number}", loop.extent, ir.AxisKind.REDUCE) for loop in others]
    return ir.Block(
        name=stores[0].buffer,
        axes=tuple(axes),
        values=(*indices, *(ir.Var(loop.var) for loop in others)),
        body=ir.transform(body, lambda one: _at_axes(one, stores, here)),
        predicate=cond,
    )


def _at_axes(stmt: ir.Stmt, stores: tuple[ir.Store, ...], here: tuple[ir.Expr, ...]) -> ir.Stmt:
    """A store to an element by its axes, also where it reads the element."""
    if not isinstance(stmt, ir.Store):
        return stmt
    accumulated = {ir.Load(store.buffer, store.indices): ir.Load(store.buffer, here) for store in stores}
    value = ir.transform(stmt.value, lambda one: accumulated.get(one, one) if isinstance(one, ir.Load) else one)
    return ir.Store(stmt.buffer, here, value)
