# SPDX-License-Identifier: Apache-2.0
"""The text of one step of an extension: its behaviour as Python that Numba compiles.

Every value is an int64 within the range of its type, wrapped after each operation. Entries are
flat: an element's place in its operand is computed from the operand's shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vdla.compiler import ir
from vdla.compiler.extensions.state import ExtensionError
from vdla.compiler.ir import INTEGER_BITS, expr_text
from vdla.compiler.ir.dtypes import limits

Interval = tuple[int, int]


def value_range(expr: ir.Expr, known: Mapping[str, Interval], buffers: Mapping[str, ir.Buffer]) -> Interval:
    """An interval with every value of `expr`; `known` has those of variables and of fields."""
    whole = _limits(ir.dtype_of(expr, buffers))
    match expr:
        case ir.Var(name=name):
            return known.get(name, whole)
        case ir.Load(buffer=buffer):
            return known.get(buffer, whole)
        case ir.Const(value=value):
            return int(value), int(value)
        case ir.Cast(value=value):
            return _within(value_range(value, known, buffers), whole)
        case ir.Select(a=a, b=b):
            one, other = value_range(a, known, buffers), value_range(b, known, buffers)
            return min(one[0], other[0]), max(one[1], other[1])
        case ir.Call(name="abs", args=(value,)):
            low, high = value_range(value, known, buffers)
            return _within((max(low, -high, 0), max(-low, high)), whole)
        case ir.Call(name="popcount", args=(value,)):
            return 0, INTEGER_BITS[ir.dtype_of(value, buffers)]
        case ir.Binary(op=op, a=a, b=b):
            operands = value_range(a, known, buffers), value_range(b, known, buffers)
            return _within(_operation(op, *operands, whole), whole)
    return whole


def _limits(dtype: str) -> Interval:
    if dtype == "bool":
        return 0, 1
    low, high = limits(dtype)
    return int(low), int(high)


def _within(values: Interval, whole: Interval) -> Interval:
    return values if whole[0] <= values[0] and values[1] <= whole[1] else whole


def _operation(op: str, a: Interval, b: Interval, whole: Interval) -> Interval:
    """The exact results of an operator; `whole` where they are not worth knowing."""
    match op:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "sub":
            return a[0] - b[1], a[1] - b[0]
        case "mul":
            corners = [x * y for x in a for y in b]
            return min(corners), max(corners)
        case "min":
            return min(a[0], b[0]), min(a[1], b[1])
        case "max":
            return max(a[0], b[0]), max(a[1], b[1])
        case "and" if a[0] >= 0 or b[0] >= 0:
            return 0, min(side[1] for side in (a, b) if side[0] >= 0)
        case "mod" if b[0] > 0:
            return 0, b[1] - 1
        case "floordiv" if b[0] == b[1] > 0:
            return a[0] // b[0], a[1] // b[0]
        case "shr":
            return min(a[0], -1) if a[0] < 0 else 0, max(a[1], 0)
    return whole


_INDENT = "    "
_FUNCTIONS = {"divide": "floordiv", "remainder": "mod", "shift_left": "shl", "shift_right": "shr"}
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_TOTAL = {operator: function for function, operator in _FUNCTIONS.items()}
_NATIVE = {"int8": "np.int8", "int16": "np.int16", "int32": "np.int32"}
_STORAGE = {**_NATIVE, "uint8": "np.uint8", "uint16": "np.uint16", "uint32": "np.uint32"}

SUMS = "new"
"""The argument of a step that is the accumulator entry it computes."""


class StepText:
    """Renders a behaviour.

    `arguments` names the argument of the step that holds each operand; `fields` are the numbers and
    ranges of the fields that operands of one element stand for. `narrow` has, for operands whose
    elements are parts of those of a buffer, their bits and how many are one.
    """

    def __init__(
        self,
        where: str,
        behaviour: ir.Function,
        arguments: Mapping[str, str],
        fields: Mapping[str, tuple[int, Interval]],
        narrow: Mapping[str, tuple[int, int]],
    ) -> None:
        self.where = where
        self.behaviour = behaviour
        self.arguments = arguments
        self.fields = fields
        self.narrow = narrow
        self._known = {name: interval for name, (_, interval) in fields.items()}

    def text(self, signature: str) -> str:
        """`def` with the signature, such as `step(new, old, src, wgt, fields, begin)`."""
        lines = [f"def {signature}:", *self._statement(self.behaviour.body, 1)]
        return "\n".join(lines) + "\n"

    # --- statements

    def _statement(self, stmt: ir.Stmt, depth: int) -> Iterator[str]:
        indent = _INDENT * depth
        match stmt:
            case ir.Seq(stmts=stmts):
                for item in stmts:
                    yield from self._statement(item, depth)
            case ir.For(var=var, body=body):
                self._known[var] = (0, stmt.size - 1)
                yield f"{indent}for {_variable(var)} in range({stmt.size}):"
                yield from self._statement(body, depth + 1)
            case ir.Block():
                yield from self._block(stmt, depth)
            case ir.Store(value=value):
                yield f"{indent}{self._target(stmt)} = {self._stored(stmt.buffer, value)}"
            case _:
                raise AssertionError("a behaviour is a single block in its loops for each output")

    def _block(self, block: ir.Block, depth: int) -> Iterator[str]:
        indent = _INDENT * depth
        for axis, value in block.bindings:
            self._known[axis.var] = (0, axis.size - 1)
            yield f"{indent}{_variable(axis.var)} = {self._value(value)}"
        if block.init is not None:
            assert isinstance(block.init, ir.Store), "the start of a single value is a single store"
            reduced = [axis.var for axis in block.axes if axis.kind is ir.AxisKind.REDUCE]
            target, start = self._target(block.init), self._stored(block.init.buffer, block.init.value)
            yield f"{indent}if {' and '.join(f'{_variable(var)} == 0' for var in reduced)}:"
            if self.arguments[block.init.buffer] == SUMS:  # a sum continues that of the steps before
                start = f"{start} if begin else old{target.removeprefix(SUMS)}"
            yield f"{indent}{_INDENT}{target} = {start}"
        yield from self._statement(block.body, depth)

    def _target(self, store: ir.Store) -> str:
        return f"{self.arguments[store.buffer]}[{self._place(store.buffer, store.indices)}]"

    def _stored(self, buffer: str, value: ir.Expr) -> str:
        """A value as an element of an output."""
        return f"{_STORAGE[ir.storage_dtype(self.behaviour.buffers[buffer].dtype).name]}({self._value(value)})"

    # --- expressions

    def _place(self, operand: str, indices: tuple[ir.Expr, ...]) -> str:
        """The place of an element in its flat entry, which must lie inside it for all data."""
        place = "0"
        for dimension, (index, extent) in enumerate(zip(indices, self.behaviour.buffers[operand].dims, strict=True)):
            low, high = value_range(index, self._known, self.behaviour.buffers)
            if low < 0 or high >= extent:
                rule = f"index {dimension} of {operand}, {expr_text(index)}, must lie in 0..{extent - 1} for all data"
                remedy = f"bound it with te.clip or & {extent - 1}"
                raise ExtensionError(f"{self.where}: {rule}, got {low}..{high}; {remedy}")
            place = f"({place}) * {extent} + {self._value(index)}" if place != "0" else self._value(index)
        return place

    def _value(self, expr: ir.Expr) -> str:
        match expr:
            case ir.Var(name=name):
                return _variable(name)
            case ir.Const(value=value):
                return f"np.int64({int(value)})"
            case ir.Load(buffer=buffer) if buffer in self.fields:
                return f"fields[{self.fields[buffer][0]}]"
            case ir.Load(buffer=buffer, indices=indices) if buffer in self.narrow:
                (bits, parts), place = self.narrow[buffer], self._place(buffer, indices)
                element = f"np.int64({self.arguments[buffer]}[({place}) // {parts}])"
                return f"narrow({element}, ({place}) % {parts}, {bits})"
            case ir.Load(buffer=buffer, indices=indices):
                return f"np.int64({self.arguments[buffer]}[{self._place(buffer, indices)}])"
            case ir.Cast(dtype=dtype, value=value):
                return _wrapped(self._value(value), dtype)
            case ir.Select(cond=cond, a=a, b=b):
                return f"({self._value(a)} if {self._value(cond)} != 0 else {self._value(b)})"
            case ir.Binary():
                return self._binary(expr)
            case ir.Call(name="abs", args=(value,), dtype=dtype):
                return _wrapped(f"abs({self._value(value)})", dtype)
            case ir.Call(name="popcount", args=(value,)):
                bits = INTEGER_BITS[ir.dtype_of(value, self.behaviour.buffers)]
                return f"one_bits({self._value(value)}, {bits})"
        raise AssertionError(f"a behaviour computes with integers, got {expr_text(expr)}")

    def _binary(self, expr: ir.Binary) -> str:
        op, a, b = expr.op, self._value(expr.a), self._value(expr.b)
        dtype = ir.dtype_of(expr.a, self.behaviour.buffers)
        if op in _COMPARISONS:
            return f"np.int64({a} {_COMPARISONS[op]} {b})"
        if op in ("min", "max"):
            return f"{op}({a}, {b})"
        if op in ("floordiv", "mod"):
            self._require_divisor(expr)
        if op in _TOTAL:
            width = f", {INTEGER_BITS[dtype]}" if op in ("shl", "shr") else ""
            return _wrapped(f"{_TOTAL[op]}({a}, {b}{width})", dtype)
        return _wrapped(f"({a} {_SYMBOLS[op]} {b})", dtype)

    def _require_divisor(self, expr: ir.Binary) -> None:
        """A divisor of data must never be 0: there the simulator has 0, and SystemVerilog x."""
        loads = [item.buffer for item in ir.walk_expr(expr.b) if isinstance(item, ir.Load)]
        low, high = value_range(expr.b, self._known, self.behaviour.buffers)
        if low <= 0 <= high and not self.fields.keys() >= set(loads):
            rule = f"divisor {expr_text(expr.b)} must not be 0 for any data"
            raise ExtensionError(f"{self.where}: {rule}, got {low}..{high}; bound it with te.maximum or te.clip")


def _variable(name: str) -> str:
    """A loop variable, apart from the names of arguments and functions."""
    return f"i_{name}"


def _wrapped(value: str, dtype: str) -> str:
    """A value converted to a type, as int64."""
    if dtype == "bool":
        return f"np.int64({value} != 0)"
    if dtype in _NATIVE:
        return f"np.int64({_NATIVE[dtype]}({value}))"
    bits = INTEGER_BITS[dtype]
    if dtype.startswith("uint"):
        return f"({value} & {(1 << bits) - 1})"
    spare = 64 - bits
    return f"(({value} << {spare}) >> {spare})" if spare else value
