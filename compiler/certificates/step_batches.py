# SPDX-License-Identifier: Apache-2.0
"""The behaviour of a step of an extension as that of many steps at once, and which may run so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.symbols import Symbols

_Ints = npt.NDArray[np.int64]


class StepBehaviour:
    """A behaviour that is evaluated for many steps at once."""

    def __init__(self, fn: ir.Function) -> None:
        self.fn = fn
        self._batched: dict[Any, ir.Function] = {}

    def outputs(
        self, count: int, shared: Mapping[str, Symbols], operands: Mapping[str, Symbols], outputs: Sequence[str]
    ) -> dict[str, Symbols]:
        """Some outputs of so many steps, `[steps, elements]`, of operands `[steps, ...]`, and of
        those that all of them share.
        """
        key = count, tuple(outputs), frozenset(shared)
        if key not in self._batched:
            self._batched[key] = batched(self.fn, count, shared, outputs)
        fn, given = self._batched[key], {**shared, **operands}
        inputs = {name: given[name].reshape(fn.buffers[name].dims) for name in fn.params if name not in outputs}
        return {name: made.reshape(count, -1) for name, made in evaluate(fn, inputs).items()}

    def looks_up(self, known: Collection[str], shared: Collection[str]) -> bool:
        """Whether an element of an operand that is not shared depends on operands that are not
        known.
        """
        for load in loads_of(self.fn.body):
            places = {e.buffer for index in load.indices for e in ir.find(index, ir.Load)}
            if load.buffer not in shared and places - set(known):
                return True
        return False


def batched(fn: ir.Function, count: int, shared: Collection[str], outputs: Collection[str]) -> ir.Function:
    """The `outputs` of so many steps. Parameters have the steps as their first dimension, but
    `shared` ones, which are the same for all.
    """
    names = {e.var for e in ir.walk(fn.body) if isinstance(e, ir.For)} | {axis.var for axis in _axes(fn.body)}
    step = next(name for name in (f"step{k}" for k in range(len(names) + 1)) if name not in names)
    parts = [one for one in _parts(fn.body) if _stored(one) & set(outputs)]
    read = {load.buffer for one in parts for load in loads_of(one)}
    params = tuple(name for name in fn.params if name in read or name in outputs)
    buffers = {
        name: buffer if name in shared else replace(buffer, shape=(count, *buffer.shape))
        for name, buffer in fn.buffers.items()
        if name in params
    }
    nests = (ir.For(step, count, _with_step(one, step, count, shared)) for one in parts)
    return ir.Function(fn.name, params, buffers, ir.seq(*nests))


def loads_of(stmt: ir.Stmt) -> list[ir.Load]:
    """What a statement loads, each expression once."""
    pending: list[ir.Expr] = [part for store in ir.find(stmt, ir.Store) for part in (store.value, *store.indices)]
    known: dict[int, ir.Expr] = {}
    while pending:
        one = pending.pop()
        if id(one) not in known:
            known[id(one)] = one
            pending += ir.operands(one)
    return [one for one in known.values() if isinstance(one, ir.Load)]


def _parts(body: ir.Stmt) -> tuple[ir.Stmt, ...]:
    return body.stmts if isinstance(body, ir.Seq) else (body,)


def _stored(stmt: ir.Stmt) -> set[str]:
    return {store.buffer for store in ir.find(stmt, ir.Store)}


def _axes(body: ir.Stmt) -> list[ir.Axis]:
    return [axis for block in ir.find(body, ir.Block) for axis in block.axes]


def _with_step(stmt: ir.Stmt, step: str, count: int, shared: Collection[str]) -> ir.Stmt:
    """A nest inside a loop over steps."""
    if not isinstance(stmt, ir.Block):
        return ir.map_children(stmt, lambda child: _with_step(child, step, count, shared))
    axis = f"v{step}"
    change = _indexed(ir.Var(axis), shared)
    body, init = (
        None if one is None else ir.transform(one, lambda inner: _store_of_step(inner, axis, change))
        for one in (stmt.body, stmt.init)
    )
    assert body is not None
    axes, values = (ir.Axis(axis, count), *stmt.axes), (ir.Var(step), *stmt.values)
    return replace(stmt, axes=axes, values=values, body=body, init=init)


def _store_of_step(stmt: ir.Stmt, axis: str, change: Callable[[ir.Expr], ir.Expr]) -> ir.Stmt:
    if not isinstance(stmt, ir.Store):
        return stmt
    return ir.Store(stmt.buffer, (ir.Var(axis), *map(change, stmt.indices)), change(stmt.value))


def _indexed(axis: ir.Var, shared: Collection[str]) -> Callable[[ir.Expr], ir.Expr]:
    """Expressions with loads of the step; equal parts become one, which is evaluated once."""
    known: dict[int, tuple[ir.Expr, ir.Expr]] = {}
    parts: dict[Any, ir.Expr] = {}

    def change(expr: ir.Expr) -> ir.Expr:
        if id(expr) not in known:
            made = ir.map_operands(expr, change)
            if isinstance(made, ir.Load) and made.buffer not in shared:
                made = replace(made, indices=(axis, *made.indices))
            operands = ir.operands(made)
            rest = ir.with_operands(made, (axis,) * len(operands)) if operands else made
            known[id(expr)] = expr, parts.setdefault((rest, *map(id, operands)), made)
        return known[id(expr)][1]

    return change


def levels(count: int, keys: Sequence[tuple[_Ints, npt.NDArray[np.bool_] | slice]]) -> list[Any]:
    """Steps that may run at once, in order. A key has the places that some steps use: two that use
    the same place are in different levels, in their order.
    """
    if all(len(np.unique(places[some])) == len(places[some]) for places, some in keys):
        return [np.arange(count)]
    level = [0] * count
    for_key: list[dict[int, int]] = [{} for _ in keys]
    uses = [dict(zip(np.arange(count)[some].tolist(), places[some].tolist(), strict=True)) for places, some in keys]
    for step in range(count):
        mine = [(last, use[step]) for last, use in zip(for_key, uses, strict=True) if step in use]
        level[step] = max((last.get(place, 0) for last, place in mine), default=0)
        for last, place in mine:
            last[place] = level[step] + 1
    order = np.array(level)
    return [np.flatnonzero(order == one) for one in range(int(order.max()) + 1)]
