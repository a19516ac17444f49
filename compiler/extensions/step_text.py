"""The text of one step of an extension: its behaviour as Python that Numba compiles.

Every value is an int64 within the range of its type, wrapped after each operation. Entries are
flat: an element's place in its operand is computed from the operand's shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vdla.compiler import ir
from vdla.compiler.extensions.errors import ExtensionError
from vdla.compiler.extensions.value_range import Interval, value_range
from vdla.compiler.ir import INTEGER_BITS, expr_text

_INDENT = "    "
_FUNCTIONS = {"divide": "floordiv", "remainder": "mod", "shift_left": "shl", "shift_right": "shr"}
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|", "xor": "^"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_TOTAL = {operator: function for function, operator in _FUNCTIONS.items()}
_NATIVE = {"int8": "np.int8", "int16": "np.int16", "int32": "np.int32"}


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

    def text(self) -> str:
        """`def step(new, old, src, wgt, fields, begin)`."""
        lines = ["def step(new, old, src, wgt, fields, begin):", *self._statement(self.behaviour.body, 1)]
        return "\n".join(lines) + "\n"

    # --- statements

    def _statement(self, stmt: ir.Stmt, depth: int) -> Iterator[str]:
        indent = _INDENT * depth
        match stmt:
            case ir.For(var=var, body=body):
                self._known[var] = (0, stmt.size - 1)
                yield f"{indent}for {_variable(var)} in range({stmt.size}):"
                yield from self._statement(body, depth + 1)
            case ir.Block():
                yield from self._block(stmt, depth)
            case ir.Store(indices=indices, value=value):
                place = self._place(self.behaviour.params[-1], indices)
                yield f"{indent}new[{place}] = np.int32({self._value(value)})"
            case _:
                raise AssertionError("a behaviour is a single block in its loops")

    def _block(self, block: ir.Block, depth: int) -> Iterator[str]:
        indent = _INDENT * depth
        for axis, value in zip(block.axes, block.values, strict=True):
            self._known[axis.var] = (0, axis.size - 1)
            yield f"{indent}{_variable(axis.var)} = {self._value(value)}"
        if block.init is not None:
            assert isinstance(block.init, ir.Store), "the start of a single value is a single store"
            reduced = [axis.var for axis in block.axes if axis.kind is ir.AxisKind.REDUCE]
            place = self._place(block.init.buffer, block.init.indices)
            yield f"{indent}if {' and '.join(f'{_variable(var)} == 0' for var in reduced)}:"
            start = f"np.int32({self._value(block.init.value)})"
            yield f"{indent}{_INDENT}new[{place}] = {start} if begin else old[{place}]"
        yield from self._statement(block.body, depth)

    # --- expressions

    def _place(self, operand: str, indices: tuple[ir.Expr, ...]) -> str:
        """The place of an element in its flat entry, which must lie inside whatever the data."""
        place = "0"
        for dimension, (index, extent) in enumerate(zip(indices, self.behaviour.buffers[operand].dims, strict=True)):
            low, high = value_range(index, self._known, self.behaviour.buffers)
            if low < 0 or high >= extent:
                rule = (
                    f"index {dimension} of {operand}, {expr_text(index)}, must lie in 0..{extent - 1} whatever the data"
                )
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
            case ir.Call(name=name):
                raise ExtensionError(
                    f"{self.where}: behaviour must be made of integer operators and te.abs, got {name}; "
                    "read its values from a table"
                )

    def _binary(self, expr: ir.Binary) -> str:
        op, a, b = expr.op, self._value(expr.a), self._value(expr.b)
        dtype = ir.dtype_of(expr.a, self.behaviour.buffers)
        if op in _COMPARISONS:
            return f"np.int64({a} {_COMPARISONS[op]} {b})"
        if op in ("min", "max"):
            return f"{op}({a}, {b})"
        if op in _TOTAL:
            width = f", {INTEGER_BITS[dtype]}" if op in ("shl", "shr") else ""
            return _wrapped(f"{_TOTAL[op]}({a}, {b}{width})", dtype)
        return _wrapped(f"({a} {_SYMBOLS[op]} {b})", dtype)


def check_dtypes(where: str, behaviour: ir.Function) -> None:
    """Refuse a behaviour that computes with anything but integers that fit int64."""
    stores = [s for s in ir.walk(behaviour.body) if isinstance(s, ir.Store)]
    for dtype in (ir.dtype_of(e, behaviour.buffers) for store in stores for e in ir.walk_expr(store.value)):
        if dtype != "bool" and (dtype not in INTEGER_BITS or dtype == "uint64"):
            raise ExtensionError(f"{where}: behaviour must compute with integers of at most int64, got {dtype}")


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
