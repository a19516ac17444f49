# SPDX-License-Identifier: Apache-2.0
"""Statements and expressions compiled to closures over the loop variables, point by point.

The tree is traversed once. Nests with enough points are left to `batched.py`. The operations are
those of `InterpreterMemory.value`, on NumPy scalars, so that both evaluators agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vdla.compiler import ir
from vdla.compiler.arith import affine
from vdla.compiler.interpret.batched import BatchedNest, batch_size, run_batched, usual_nest
from vdla.compiler.interpret.memory import EVERYWHERE, InterpreterMemory, InterpretError, Points
from vdla.compiler.ir import INTEGER_BITS, SCALAR_FUNCTIONS, Array, widen, wrap

_Env = dict[str, Any]
_Run = Callable[[_Env], None]
_Evaluate = Callable[[_Env], Any]
MIN_BATCH = 8  # points; smaller nests run faster point by point
_NATIVE_DTYPES = {"float32", "float64", "bool"} | {dtype for dtype, bits in INTEGER_BITS.items() if bits >= 8}


class ClosureCompiler:
    """Compiles statements to closures that act on a memory."""

    def __init__(self, memory: InterpreterMemory) -> None:
        self.memory = memory

    @property
    def min_batch(self) -> int:
        """The points that a nest must have to run in batches."""
        return MIN_BATCH

    def statement(self, stmt: ir.Stmt, where: str | None = None) -> _Run:
        """A statement as a closure; `where` is the enclosing block, if any, for messages."""
        nest = usual_nest(stmt)
        if nest is not None and batch_size(nest) >= self.min_batch:
            return _run_batch(self.memory, nest)
        match stmt:
            case ir.For(var=var, body=body):
                return _loop(var, stmt.size, self.statement(body, where))
            case ir.Seq(stmts=stmts):
                return _sequence([self.statement(inner, where) for inner in stmts])
            case ir.Store(buffer=buffer):
                return self._store((stmt,), where or buffer)
            case ir.MultiStore(stores=stores):
                return self._store(stores, where or stores[0].buffer)
            case ir.If(cond=cond, body=body):
                return _conditional(self.index(cond, where or "if"), self.statement(body, where))
            case ir.Alloc(buffers=buffers, body=body):
                held = [_invalidate(self.memory.written[buffer]) for buffer in buffers]
                return _sequence([*held, self.statement(body, where)])
            case ir.HeapAlloc(slots=slots, body=body):
                held = [_invalidate(self.memory.written[buffer]) for slot in slots for buffer in slot]
                return _sequence([*held, self.statement(body, where)])
            case ir.IntrinsicCall(body=body) | ir.Atomic(body=body) | ir.Shuffle(body=body):
                return self.statement(body, where)
            case ir.Prefetch() | ir.Barrier():
                return _sequence([])
            case ir.Block(predicate=predicate):
                inside = self._block(stmt)
                return inside if predicate is None else _conditional(self.index(predicate, stmt.name), inside)

    def _block(self, block: ir.Block) -> _Run:
        """A block, without its predicate."""
        name = block.name
        bound = [(axis, self.index(value, name)) for axis, value in block.bindings]
        reduced = [axis.var for axis in block.axes if axis.kind is ir.AxisKind.REDUCE]
        init = None if block.init is None else self.statement(block.init, name)
        body = self.statement(block.body, name)

        def run(env: _Env) -> None:
            inner = dict(env)
            for axis, value in bound:
                at = inner[axis.var] = value(env)
                if not 0 <= at < axis.size:
                    rule = f"axis {axis.var} must be in 0..{axis.size - 1}"
                    raise InterpretError(f"block {name}: {rule}, got {at}")
            if init is not None and not any(inner[var] for var in reduced):
                init(inner)
            body(inner)

        return run

    def _store(self, stores: tuple[ir.Store, ...], where: str) -> _Run:
        parts = [
            (
                self.memory.arrays[store.buffer],
                self.memory.written[store.buffer],
                self.place("store", store.buffer, store.indices, where),
                self.value(store.value, where),
            )
            for store in stores
        ]
        if len(parts) == 1:
            return _store_one(*parts[0])

        def run(env: _Env) -> None:
            ready = [(array, written, place(env), value(env)) for array, written, place, value in parts]
            for array, written, at, value in ready:
                array[at] = value
                written[at] = True

        return run

    # --- expressions

    def place(self, action: str, name: str, indices: tuple[ir.Expr, ...], where: str) -> _Evaluate:
        """The indices of an access as a closure that checks bounds."""
        parts = [self.index(index, where) for index in indices]
        shape = self.memory.buffers[name].dims

        def at(env: _Env) -> tuple[int, ...]:
            here = tuple([part(env) for part in parts])
            for index, extent in zip(here, shape, strict=True):
                if not 0 <= index < extent:
                    rule = f"every {action} must be inside the shape {list(shape)}"
                    raise InterpretError(f"block {where}: {rule}, got {name}[{', '.join(map(str, here))}]")
            return here

        return at

    def index(self, expr: ir.Expr, where: str) -> _Evaluate:
        """An index or condition as a closure that returns a Python number."""
        function = self.memory.indices.function(expr)
        if function is None:
            value = self.value(expr, where)
            return lambda env: value(env).item()
        form = affine(expr)
        return function if form is None else _affine_function(*form)

    def value(self, expr: ir.Expr, where: str) -> _Evaluate:
        """A value as a closure that returns a NumPy scalar."""
        match expr:
            case ir.Var(name=name):
                return lambda env: np.int32(env[name])
            case ir.Const():
                constant = self.memory.value(expr, Points({}, EVERYWHERE, where))[()]
                return lambda env: constant
            case ir.Binary():
                return self._binary(expr, where)
            case ir.Cast(dtype=dtype, value=inner):
                operand = self._operand(inner, where)
                return lambda env: wrap(operand(env), dtype)[()]
            case ir.Select(cond=cond, a=a, b=b):
                return _select(self.index(cond, where), self.value(a, where), self.value(b, where))
            case ir.Load(buffer=buffer, indices=indices):
                return self._load(buffer, indices, where)
            case ir.Call(name=name, args=args, dtype=dtype):
                model, parts = SCALAR_FUNCTIONS[name].model, [self._operand(arg, where) for arg in args]
                return lambda env: wrap(np.asarray(model(*(part(env) for part in parts))), dtype)[()]

    def _operand(self, expr: ir.Expr, where: str) -> _Evaluate:
        value, dtype = self.value(expr, where), ir.dtype_of(expr, self.memory.buffers)
        return lambda env: widen(np.asarray(value(env)), dtype)

    def _binary(self, expr: ir.Binary, where: str) -> _Evaluate:
        operation, dtype = ir.OPERATORS[expr.op].on_arrays, ir.dtype_of(expr.a, self.memory.buffers)
        if dtype in _NATIVE_DTYPES:
            a, b = self.value(expr.a, where), self.value(expr.b, where)
            return lambda env: operation(a(env), b(env))
        a, b = self._operand(expr.a, where), self._operand(expr.b, where)
        if expr.op in ir.COMPARE_OPS:
            return lambda env: operation(a(env), b(env))
        return lambda env: wrap(np.asarray(operation(a(env), b(env))), dtype)[()]

    def _load(self, name: str, indices: tuple[ir.Expr, ...], where: str) -> _Evaluate:
        array, written = self.memory.arrays[name], self.memory.written[name]
        place = self.place("load", name, indices, where)

        def run(env: _Env) -> Any:  # noqa: ANN401  a numpy scalar
            at = place(env)
            if not written[at]:
                text = f"{name}[{', '.join(map(str, at))}]"
                raise InterpretError(f"block {where}: {text} must be written before it is read, got a read first")
            return array[at]

        return run


def _run_batch(memory: InterpreterMemory, nest: BatchedNest) -> _Run:
    """A nest run in batches."""
    return lambda env: run_batched(memory, nest, env)


def _loop(var: str, extent: int, body: _Run) -> _Run:
    """The iterations in order."""

    def run(env: _Env) -> None:
        for i in range(extent):
            env[var] = i
            body(env)

    return run


def _sequence(parts: list[_Run]) -> _Run:
    """Statements in sequence."""

    def run(env: _Env) -> None:
        for part in parts:
            part(env)

    return run


def _conditional(cond: _Evaluate, body: _Run) -> _Run:
    """The body, if the condition holds."""

    def run(env: _Env) -> None:
        if cond(env):
            body(env)

    return run


def _invalidate(written: Array) -> _Run:
    """Marks every element of a buffer as unwritten."""

    def run(env: _Env) -> None:
        written[...] = False

    return run


def _store_one(array: Array, written: Array, place: _Evaluate, value: _Evaluate) -> _Run:
    """One store."""

    def run(env: _Env) -> None:
        at = place(env)
        array[at] = value(env)
        written[at] = True

    return run


def _select(cond: _Evaluate, a: _Evaluate, b: _Evaluate) -> _Evaluate:
    """`a` or `b`; only the selected one is evaluated."""
    return lambda env: a(env) if cond(env) else b(env)


def _affine_function(factors: dict[str, int], const: int) -> _Evaluate:
    """An affine form as a closure."""
    match list(factors.items()):
        case []:
            return lambda env: const
        case [(name, 1)] if not const:
            return lambda env: env[name]
        case terms:
            return lambda env: sum([factor * env[name] for name, factor in terms], const)
