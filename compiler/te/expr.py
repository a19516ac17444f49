# SPDX-License-Identifier: Apache-2.0
"""Tensors and their elements: values that Python's operators combine, with strict dtypes.

Both operands have one dtype; a Python number takes that of the other operand. A value records the
tensors, reduce axes and symbols it uses, which are the dependences of its stage.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol

import numpy as np

from vdla.compiler import ir
from vdla.compiler.ir import DTYPES, expr_text, is_float, is_integer, limits, size_of
from vdla.support.errors import Error
from vdla.support.integers import to_python

Number = int | float | bool
Dim = Any  # an extent: an int, or an int32 Value over symbols; both have the same operators
_MAX_REPR_NODES = 30  # larger expressions print as "..."
_MAX_FLOAT_INT_BITS = 1023  # bits of the longest integer that is finite as a float64


class TeError(Error, ValueError):
    """An invalid tensor expression."""


# --- values ---------------------------------------------------------------------------------------


def _operator(op: str) -> Callable[[Any, Operand], Value]:
    """The method of an operator."""
    return lambda value, other: binary(op, value, other)


def _reflected(op: str) -> Callable[[Any, Operand], Value]:
    """The method of an operator whose left operand has none."""
    return lambda value, other: binary(op, other, value)


_REFLECTED = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "floor_divide": "__rfloordiv__",
    "remainder": "__rmod__",
    "left_shift": "__rlshift__",
    "right_shift": "__rrshift__",
    "bitwise_and": "__rand__",
    "bitwise_or": "__ror__",
    "bitwise_xor": "__rxor__",
    "less": "__gt__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "greater_equal": "__le__",
    "equal": "__eq__",
    "not_equal": "__ne__",
}
"""The operators behind those of NumPy, by the name of its function."""


class _PythonOperators:
    """Python's operators on elements."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:  # noqa: ANN401
        """NumPy scalars on the left defer to these operators; its functions take no elements."""
        name = ufunc.__name__
        if name in _REFLECTED and method == "__call__" and len(inputs) == 2 and inputs[0] is not self:
            return getattr(self, _REFLECTED[name])(np.asarray(inputs[0])[()])
        ours = {"absolute": "abs", "power": "pow", "rint": "round"}.get(name, name)
        known = (*ir.SCALAR_FUNCTIONS, "maximum", "minimum")
        hint = f"te.{ours} takes it" if ours in known else f"te has {', '.join(known)}"
        raise TeError(f"np.{name}: operand must be an array, got an element of a tensor ({hint})")

    def __array_function__(self, function: Callable[..., Any], *rest: Any) -> Any:  # noqa: ANN401
        """No function of NumPy takes elements."""
        raise TeError(f"np.{function.__name__}: operand must be an array, got an element of a tensor")

    __add__ = _operator("add")
    __radd__ = _reflected("add")
    __sub__ = _operator("sub")
    __rsub__ = _reflected("sub")
    __mul__ = _operator("mul")
    __rmul__ = _reflected("mul")
    __floordiv__ = _operator("floordiv")
    __rfloordiv__ = _reflected("floordiv")
    __mod__ = _operator("mod")
    __rmod__ = _reflected("mod")
    __lshift__ = _operator("shl")
    __rlshift__ = _reflected("shl")
    __rshift__ = _operator("shr")
    __rrshift__ = _reflected("shr")
    __and__ = _operator("and")
    __rand__ = _reflected("and")
    __or__ = _operator("or")
    __ror__ = _reflected("or")
    __xor__ = _operator("xor")
    __rxor__ = _reflected("xor")
    __lt__ = _operator("lt")
    __le__ = _operator("le")
    __gt__ = _operator("gt")
    __ge__ = _operator("ge")

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return binary("eq", self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return binary("ne", self, other)

    def __neg__(self) -> Value:
        return _negate(self)

    def __invert__(self) -> Value:
        return _invert(self)

    def __truediv__(self, other: Operand) -> Value:
        return divide(self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return divide(other, self)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TeError("te: a condition on elements must not be used as a Python truth value; write &, |, te.select")


@dataclass(frozen=True, eq=False)
class Value(_PythonOperators):
    """An element: its expression and dtype, and the tensors, reduce axes and symbols it uses."""

    expr: ir.Expr
    dtype: str
    tensors: tuple[Tensor, ...] = ()
    axes: tuple[ReduceAxis, ...] = ()
    reduction: Reduction | None = None
    part: int = 0  # which component of the reduction
    symbols: tuple[str, ...] = ()

    def __repr__(self) -> str:
        text = expr_text(self.expr) if size_of(self.expr).nodes <= _MAX_REPR_NODES else "..."
        return f"<Value {text}: {self.dtype}>"


@dataclass(frozen=True, eq=False)
class ReduceAxis(_PythonOperators):
    """An axis to reduce over; an int32 index in expressions."""

    name: str
    extent: Dim

    def __repr__(self) -> str:
        return f"<ReduceAxis {self.name}>"


class Combiner(Protocol):
    """How a reduction combines values; implemented by `Reducer` and `TupleReducer`."""

    @property
    def name(self) -> str:
        """The name, for messages."""

    def apply(self, a: tuple[Value, ...], b: tuple[Value, ...]) -> tuple[Any, ...]:
        """The combination of two tuples of values."""


@dataclass(frozen=True, eq=False)
class Reduction:
    """A reduction over `axes` that begins at `starts`: given values, or the identities."""

    reducer: Combiner
    axes: tuple[ReduceAxis, ...]
    starts: tuple[ir.Expr, ...]
    given: bool = False


@dataclass(frozen=True, eq=False)
class Stage:
    """The computation of one block: the tensors `names`, of one shape.

    `values` are their elements at the index `axes`, the terms of `reduction` if it is set.
    """

    name: str
    names: tuple[str, ...]
    shape: tuple[Dim, ...]
    axes: tuple[str, ...]
    values: tuple[Value, ...]
    reduction: Reduction | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Stage {self.name}>"

    @property
    def value(self) -> Value:
        """The element of the first tensor."""
        return self.values[0]

    @property
    def exprs(self) -> tuple[ir.Expr, ...]:
        """The elements, and the start values of the reduction."""
        starts = self.reduction.starts if self.reduction else ()
        return (*(value.expr for value in self.values), *starts)

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """The tensors that the stage reads."""
        return merge_unique(*(value.tensors for value in self.values))

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stage itself, as for a `Scan`."""
        return (self,)


@dataclass(frozen=True, eq=False)
class Scan:
    """Stages computed step by step; the step is the first axis of each, named `axis`.

    With `reverse` the last step comes first. `reads` are the tensors read from outside the scan.
    """

    axis: str
    extent: Dim
    reverse: bool
    stages: tuple[Stage, ...]
    reads: tuple[Tensor, ...]

    def __repr__(self) -> str:
        return f"<Scan over {self.axis}>"


@dataclass(frozen=True, eq=False)
class Tensor:
    """A named array, a placeholder (`stage` is None) or computed. `t[i, j]` is an element.

    Each dimension of `shape` is an int, or an int32 `Value` over symbols of `te.var`.
    """

    name: str
    shape: tuple[Dim, ...]
    dtype: str
    stage: Stage | Scan | None = None

    def __repr__(self) -> str:
        return f"<Tensor {self.name}>"

    def __getitem__(self, indices: Operand | tuple[Operand, ...]) -> Value:
        """The element at `indices`, one int32 per dimension."""
        items = indices if isinstance(indices, tuple) else (indices,)
        if len(items) != len(self.shape):
            raise TeError(f"{self.name}: the number of indices must be its rank {len(self.shape)}, got {len(items)}")
        values = [self._index(d, item) for d, item in enumerate(items)]
        element = make_value(ir.Load(self.name, tuple(v.expr for v in values)), self.dtype, *values)
        return replace(element, tensors=merge_unique((self,), element.tensors))

    def __iter__(self) -> NoReturn:
        raise TeError(f"{self.name}: a tensor must be indexed, got a loop over it")

    def _index(self, dimension: int, item: Operand) -> Value:
        value, extent = as_value(item, self.name), self.shape[dimension]
        if value.dtype != "int32":
            fix = 'write te.cast("int32", ...)'
            raise TeError(f"{self.name}: index {dimension} must be int32, got {value.dtype}; {fix}")
        if isinstance(value.expr, ir.Const) and isinstance(extent, int) and not 0 <= value.expr.value < extent:
            raise TeError(f"{self.name}: index {dimension} must satisfy 0 <= index < {extent}, got {value.expr.value}")
        return value


Operand = object  # a Value, a ReduceAxis or a number; `as_value` rejects anything else


def as_value(item: Operand, where: str, dtype: str = "int32") -> Value:
    """An operand as a value; a Python number takes `dtype`."""
    match item:
        case Value():
            if item.reduction is not None:
                text = f"te.{item.reduction.reducer.name} inside an expression"
                raise TeError(f"{where}: a reduction must be the whole value of a te.compute, got {text}")
            return item
        case ReduceAxis():
            return Value(ir.Var(axis_name(item.name)), "int32", axes=(item,))
        case bool() | int() | float() | np.number() | np.bool_():
            return const(to_python(item), dtype)
        case Tensor(name=name):
            raise TeError(f"{where}: an operand must be an element, got the tensor {name}; write {name}[...]")
        case _:
            raise TeError(f"{where}: an operand must be an element or a number, got {item!r}")


def merge_unique(*groups: tuple[Any, ...]) -> tuple[Any, ...]:
    """The distinct objects of all groups, in order of first occurrence."""
    return tuple({id(member): member for group in groups for member in group}.values())


def axis_name(name: str) -> str:
    """The name of a block's iteration variable for the axis `name`."""
    return f"v{name}"


# --- operations -----------------------------------------------------------------------------------


def const(value: Number, dtype: str) -> Value:
    """The constant `value` of type `dtype`, which must represent it (floats round to nearest)."""
    check_dtype("te.const", dtype)
    value = to_python(value)
    if not isinstance(value, bool | int | float):
        raise TeError(f"te.const: the value must be a number, got {value!r}")
    if dtype == "bool":
        if value not in (0, 1):
            raise TeError(f"te.const: a bool must be True or False, got {value!r}")
        return Value(ir.Const(bool(value), dtype), dtype)
    if is_float(dtype):
        if isinstance(value, int) and value.bit_length() > _MAX_FLOAT_INT_BITS:
            rule = f"must be an integer of at most {_MAX_FLOAT_INT_BITS} bits"
            raise TeError(f"te.const: a value of type {dtype} {rule}, got {value.bit_length()}")
        return Value(ir.Const(float(value), dtype), dtype)
    if isinstance(value, float):
        raise TeError(f"te.const: a value of type {dtype} must be an integer, got {value!r}")
    low, high = limits(dtype)
    if not low <= value <= high:
        raise TeError(f"te.const: a value of type {dtype} must be in {low}..{high}, got {value}")
    return Value(ir.Const(int(value), dtype), dtype)


def binary(op: str, a: Operand, b: Operand) -> Value:
    """`a op b`, both of one dtype."""
    symbol = ir.OPERATORS[op].symbol
    where = f"te.{op}imum" if symbol is None else f"te: operator {symbol}"
    left, right = same_dtype(where, a, b)
    _check_operator(where, op, left.dtype)
    if (same := _fold_identity(op, left, right)) is not None:
        return same
    dtype = "bool" if op in ir.COMPARE_OPS else left.dtype
    return make_value(ir.Binary(op, left.expr, right.expr), dtype, left, right)


def _fold_identity(op: str, a: Value, b: Value) -> Value | None:
    """The operand equal to the result of an integer operation: x of x + 0, x - 0 or x * 1."""
    if op not in ("add", "sub", "mul") or not is_integer(a.dtype):
        return None
    identity = ir.RIGHT_IDENTITY[op]
    if isinstance(b.expr, ir.Const) and b.expr.value == identity:
        return a
    return b if op != "sub" and isinstance(a.expr, ir.Const) and a.expr.value == identity else None


def make_value(expr: ir.Expr, dtype: str, *parts: Value) -> Value:
    """The value of `expr`, whose operands are `parts`."""
    tensors, axes = merge_unique(*(p.tensors for p in parts)), merge_unique(*(p.axes for p in parts))
    symbols = tuple(dict.fromkeys(symbol for p in parts for symbol in p.symbols))
    return Value(expr, dtype, tensors=tensors, axes=axes, symbols=symbols)


def same_dtype(where: str, a: Operand, b: Operand) -> tuple[Value, Value]:
    """Both operands as values of one dtype."""
    a, b = to_python(a), to_python(b)
    if isinstance(a, (bool, int, float)):
        right = as_value(b, where)
        return as_value(a, where, right.dtype), right
    left = as_value(a, where)
    right = as_value(b, where, left.dtype)
    if left.dtype != right.dtype:
        fix = f'write te.cast("{left.dtype}", ...) or te.cast("{right.dtype}", ...) on one side'
        raise TeError(f"{where}: both sides must have one dtype, got {left.dtype} and {right.dtype}; {fix}")
    return left, right


def _check_operator(where: str, op: str, dtype: str) -> None:
    """Rejects an operator that is not defined on `dtype`."""
    if op in ir.LOGIC_OPS and is_float(dtype):
        raise TeError(f"{where}: operands must be bool or integers, got {dtype}")
    if op in ir.INTEGER_OPS and not is_integer(dtype):
        raise TeError(f"{where}: operands must be integers, got {dtype}")
    if dtype == "bool" and op not in (*ir.LOGIC_OPS, "eq", "ne"):
        raise TeError(f'{where}: operands must be numbers, got bool; write te.cast("int32", ...)')


def _negate(item: Operand) -> Value:
    """`-item`; for floats this includes the sign of 0."""
    value = as_value(item, "te: operator -")
    return binary("mul", value, -1) if is_float(value.dtype) else binary("sub", 0, value)


def _invert(item: Operand) -> Value:
    """The bitwise complement; of a bool, its negation."""
    value = as_value(item, "te: operator ~")
    if is_float(value.dtype):
        raise TeError(f"te: operator ~: the operand must be bool or an integer, got {value.dtype}")
    ones = True if value.dtype == "bool" else limits(value.dtype)[1] if value.dtype.startswith("u") else -1
    return binary("xor", value, ones)


def divide(a: Operand, b: Operand) -> Value:
    """The quotient of two floats."""
    left, right = same_dtype("te: operator /", a, b)
    if not is_float(left.dtype):
        raise TeError(f"te: operator /: operands must be floats, got {left.dtype}; write // for floor division")
    return make_value(ir.Call("divide", (left.expr, right.expr), left.dtype), left.dtype, left, right)


def element_of(where: str, value: object) -> Value:
    """The result of a user's function as a value."""
    value = to_python(value)
    if isinstance(value, (Value, ReduceAxis, Tensor)):
        return value if isinstance(value, Value) else as_value(value, where)
    if isinstance(value, (bool, int, float)):
        fix = f"write te.const({value!r}, dtype)"
        raise TeError(f"{where}: the value must have a dtype, got the number {value!r}; {fix}")
    raise TeError(f"{where}: the value must be an element, got {value!r}")


# --- checks ---------------------------------------------------------------------------------------


def check_name(where: str, name: str) -> None:
    """Rejects anything but a Python identifier."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise TeError(f"{where}: the name must be a Python identifier, got {name!r}")


def check_dtype(where: str, dtype: str) -> None:
    """Rejects an unknown element type."""
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise TeError(f"{where}: the dtype must be one of {', '.join(DTYPES)}, got {dtype}")
