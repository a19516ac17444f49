"""Statements and expressions as Python functions of the loop variables, one point after another, so that walking the
tree costs once. A nest with enough points for numpy is left to `grid.py`.

The operations are those of `Memory.value`, on numpy scalars, so that both ways give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from vdla.compiler import ir
from vdla.compiler.arith import affine, exact_function
from vdla.compiler.interpret.batched import Nest, nest_of, run_nest, size
from vdla.compiler.interpret.memory import EVERYWHERE, InterpretError, Memory, Points
from vdla.compiler.ir import INTEGER_BITS, SCALAR_FUNCTIONS, Array, widen, wrap

Env = dict[str, Any]
Run = Callable[[Env], None]
Evaluate = Callable[[Env], Any]
FEWEST_AT_ONCE = 8  # points of a nest; fewer are faster one by one
PLAIN = {"float32", "float64", "bool"} | {dtype for dtype, bits in INTEGER_BITS.items() if bits >= 8}


class Runner:
    """Makes functions of statements on a memory."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def statement(self, stmt: ir.Stmt, where: str | None = None) -> Run:
        """A statement as a function; `where` is the block around it, if there is one, for messages."""
        nest = nest_of(stmt)
        if nest is not None and size(nest) >= FEWEST_AT_ONCE:
            return at_once(self.memory, nest)
        match stmt:
            case ir.For(var=var, body=body):
                return loop(var, stmt.size, self.statement(body, where))
            case ir.Seq(stmts=stmts):
                return sequence([self.statement(inner, where) for inner in stmts])
            case ir.Store(buffer=buffer):
                return self._together((stmt,), where or buffer)
            case ir.MultiStore(stores=stores):
                return self._together(stores, where or stores[0].buffer)
            case ir.If(cond=cond, body=body):
                return conditional(self.index(cond, where or "if"), self.statement(body, where))
            case ir.Alloc(buffers=buffers, body=body):
                held = [forget(self.memory.written[buffer]) for buffer in buffers]
                return sequence([*held, self.statement(body, where)])
            case ir.HeapAlloc(slots=slots, body=body):
                held = [forget(self.memory.written[buffer]) for slot in slots for buffer in slot]
                return sequence([*held, self.statement(body, where)])
            case ir.IntrinsicCall(body=body):
                return self.statement(body, where)
            case ir.Prefetch():
                return sequence([])
            case ir.Block(predicate=predicate):
                inside = self._block(stmt)
                return inside if predicate is None else conditional(self.index(predicate, stmt.name), inside)

    def _block(self, block: ir.Block) -> Run:
        """A block where its predicate holds."""
        name = block.name
        bound = [(axis, self.index(value, name)) for axis, value in zip(block.axes, block.values, strict=True)]
        reduced = [axis.var for axis in block.axes if axis.kind is ir.AxisKind.REDUCE]
        init = None if block.init is None else self.statement(block.init, name)
        body = self.statement(block.body, name)

        def run(env: Env) -> None:
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

    def _together(self, stores: tuple[ir.Store, ...], where: str) -> Run:
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
            return store_one(*parts[0])

        def run(env: Env) -> None:
            ready = [(array, written, place(env), value(env)) for array, written, place, value in parts]
            for array, written, at, value in ready:
                array[at] = value
                written[at] = True

        return run

    # --- expressions

    def place(self, action: str, name: str, indices: tuple[ir.Expr, ...], where: str) -> Evaluate:
        """The position of an element as a function; outside of the buffer it is an error."""
        parts = [self.index(index, where) for index in indices]
        shape = self.memory.buffers[name].dims

        def at(env: Env) -> tuple[int, ...]:
            here = tuple([part(env) for part in parts])
            for index, extent in zip(here, shape, strict=True):
                if not 0 <= index < extent:
                    rule = f"every {action} must be inside the shape {list(shape)}"
                    raise InterpretError(f"block {where}: {rule}, got {name}[{', '.join(map(str, here))}]")
            return here

        return at

    def index(self, expr: ir.Expr, where: str) -> Evaluate:
        """An index or condition as a function that gives a Python number."""
        function = exact_function(expr, self.memory.ranges)
        if function is None:
            value = self.value(expr, where)
            return lambda env: value(env).item()
        form = affine(expr)
        return function if form is None else affine_function(*form)

    def value(self, expr: ir.Expr, where: str) -> Evaluate:
        """An element as a function that gives a numpy scalar."""
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
                return chosen(self.index(cond, where), self.value(a, where), self.value(b, where))
            case ir.Load(buffer=buffer, indices=indices):
                return self._load(buffer, indices, where)
            case ir.Call(name=name, args=args, dtype=dtype):
                model, parts = SCALAR_FUNCTIONS[name].model, [self._operand(arg, where) for arg in args]
                return lambda env: wrap(np.asarray(model(*(part(env) for part in parts))), dtype)[()]

    def _operand(self, expr: ir.Expr, where: str) -> Evaluate:
        value, dtype = self.value(expr, where), ir.dtype_of(expr, self.memory.buffers)
        return lambda env: widen(np.asarray(value(env)), dtype)

    def _binary(self, expr: ir.Binary, where: str) -> Evaluate:
        operation, dtype = ir.OPERATORS[expr.op].on_arrays, ir.dtype_of(expr.a, self.memory.buffers)
        if dtype in PLAIN:
            a, b = self.value(expr.a, where), self.value(expr.b, where)
            return lambda env: operation(a(env), b(env))
        a, b = self._operand(expr.a, where), self._operand(expr.b, where)
        if expr.op in ir.COMPARE_OPS:
            return lambda env: operation(a(env), b(env))
        return lambda env: wrap(np.asarray(operation(a(env), b(env))), dtype)[()]

    def _load(self, name: str, indices: tuple[ir.Expr, ...], where: str) -> Evaluate:
        array, written = self.memory.arrays[name], self.memory.written[name]
        place = self.place("load", name, indices, where)

        def run(env: Env) -> Any:  # noqa: ANN401  a numpy scalar
            at = place(env)
            if not written[at]:
                text = f"{name}[{', '.join(map(str, at))}]"
                raise InterpretError(f"block {where}: {text} must be written before it is read, got a read first")
            return array[at]

        return run


def at_once(memory: Memory, nest: Nest) -> Run:
    """A nest, many points at once."""
    return lambda env: run_nest(memory, nest, env)


def loop(var: str, extent: int, body: Run) -> Run:
    """The iterations in order."""

    def run(env: Env) -> None:
        for i in range(extent):
            env[var] = i
            body(env)

    return run


def sequence(parts: list[Run]) -> Run:
    """One after another."""

    def run(env: Env) -> None:
        for part in parts:
            part(env)

    return run


def conditional(cond: Evaluate, body: Run) -> Run:
    """The body where the condition holds."""

    def run(env: Env) -> None:
        if cond(env):
            body(env)

    return run


def forget(written: Array) -> Run:
    """No element of a buffer is written."""

    def run(env: Env) -> None:
        written[...] = False

    return run


def store_one(array: Array, written: Array, place: Evaluate, value: Evaluate) -> Run:
    """One store."""

    def run(env: Env) -> None:
        at = place(env)
        array[at] = value(env)
        written[at] = True

    return run


def chosen(cond: Evaluate, a: Evaluate, b: Evaluate) -> Evaluate:
    """The side that the condition takes; the other one is not evaluated."""
    return lambda env: a(env) if cond(env) else b(env)


def affine_function(factors: dict[str, int], const: int) -> Evaluate:
    """A sum over variables."""
    match list(factors.items()):
        case []:
            return lambda env: const
        case [(name, 1)] if not const:
            return lambda env: env[name]
        case terms:
            return lambda env: sum([factor * env[name] for name, factor in terms], const)
