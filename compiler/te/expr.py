"""The elements of tensors: values that Python's operators combine, with strict dtypes.

Both sides of an operator have one dtype, except that a Python number takes that of the other side. A value remembers
which tensors it reads and which reduce axes it uses, so that a stage knows what it depends on.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Protocol

import numpy as np

from vdla.compiler import ir
from vdla.compiler.ir import DTYPES, expr_text, is_float, is_integer, limits, size_of
from vdla.support.errors import Error
from vdla.support.integers import to_python

Number = int | float | bool
Dim = Any  # an extent: an int, or a Value over symbols; what is done with it is done with both
MOST_SHOWN = 30  # operations of an element in a message
LONGEST = 1023  # bits of an integer that is a number in every float


class TeError(Error, ValueError):
    """A tensor expression that means nothing."""


# --- values ----------------------------------------------------------------------------------------------------------


class Operators:
    """Python's operators on the elements of tensors."""

    __array_ufunc__ = None  # a number of numpy's on the left leaves the operation to the element

    def __add__(self, other: Operand) -> Value:
        return binary("add", self, other)

    def __radd__(self, other: Operand) -> Value:
        return binary("add", other, self)

    def __sub__(self, other: Operand) -> Value:
        return binary("sub", self, other)

    def __rsub__(self, other: Operand) -> Value:
        return binary("sub", other, self)

    def __mul__(self, other: Operand) -> Value:
        return binary("mul", self, other)

    def __rmul__(self, other: Operand) -> Value:
        return binary("mul", other, self)

    def __floordiv__(self, other: Operand) -> Value:
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other: Operand) -> Value:
        return binary("floordiv", other, self)

    def __mod__(self, other: Operand) -> Value:
        return binary("mod", self, other)

    def __rmod__(self, other: Operand) -> Value:
        return binary("mod", other, self)

    def __lshift__(self, other: Operand) -> Value:
        return binary("shl", self, other)

    def __rlshift__(self, other: Operand) -> Value:
        return binary("shl", other, self)

    def __rshift__(self, other: Operand) -> Value:
        return binary("shr", self, other)

    def __rrshift__(self, other: Operand) -> Value:
        return binary("shr", other, self)

    def __and__(self, other: Operand) -> Value:
        return binary("and", self, other)

    def __rand__(self, other: Operand) -> Value:
        return binary("and", other, self)

    def __or__(self, other: Operand) -> Value:
        return binary("or", self, other)

    def __ror__(self, other: Operand) -> Value:
        return binary("or", other, self)

    def __xor__(self, other: Operand) -> Value:
        return binary("xor", self, other)

    def __rxor__(self, other: Operand) -> Value:
        return binary("xor", other, self)

    def __lt__(self, other: Operand) -> Value:
        return binary("lt", self, other)

    def __le__(self, other: Operand) -> Value:
        return binary("le", self, other)

    def __gt__(self, other: Operand) -> Value:
        return binary("gt", self, other)

    def __ge__(self, other: Operand) -> Value:
        return binary("ge", self, other)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return binary("eq", self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return binary("ne", self, other)

    def __neg__(self) -> Value:
        return negated(self)

    def __invert__(self) -> Value:
        return inverted(self)

    def __truediv__(self, other: Operand) -> Value:
        return divide(self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return divide(other, self)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TeError("te: a condition on elements must not be used as a Python truth value; write &, |, te.select")


@dataclass(frozen=True, eq=False)
class Value(Operators):
    """One element: its expression, its dtype, the tensors, reduce axes and symbols that it names."""

    expr: ir.Expr
    dtype: str
    tensors: tuple[Tensor, ...] = ()
    axes: tuple[ReduceAxis, ...] = ()
    reduction: Reduction | None = None
    part: int = 0  # of the reduction
    symbols: tuple[str, ...] = ()

    def __repr__(self) -> str:
        text = expr_text(self.expr) if size_of(self.expr).nodes <= MOST_SHOWN else "..."
        return f"<Value {text}: {self.dtype}>"


@dataclass(frozen=True, eq=False)
class ReduceAxis(Operators):
    """An axis along which the elements of one result combine; an int32 index in expressions."""

    name: str
    extent: Dim

    def __repr__(self) -> str:
        return f"<ReduceAxis {self.name}>"


class Combiner(Protocol):
    """The combination of a reduction, of one value or of a tuple; `te.Reducer` and `te.TupleReducer` are the two."""

    @property
    def name(self) -> str:
        """Its name in messages."""

    def apply(self, a: tuple[Value, ...], b: tuple[Value, ...]) -> tuple[Any, ...]:
        """The combination of two tuples of values."""


@dataclass(frozen=True, eq=False)
class Reduction:
    """How the values of a stage combine: a reducer over axes, from `starts`; `given` if not from identities."""

    reducer: Combiner
    axes: tuple[ReduceAxis, ...]
    starts: tuple[ir.Expr, ...]
    given: bool = False


@dataclass(frozen=True, eq=False)
class Stage:
    """One computation, a block: the tensors `names`, whose elements at the point where `axes` are the indices are
    `values`, combined by `reduction` if there is one."""

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
        """The (first) element."""
        return self.values[0]

    @property
    def exprs(self) -> tuple[ir.Expr, ...]:
        """The elements, and what they start from if they are combined."""
        starts = self.reduction.starts if self.reduction else ()
        return (*(value.expr for value in self.values), *starts)

    @property
    def reads(self) -> tuple[Tensor, ...]:
        """The tensors that it reads."""
        return merged(*(value.tensors for value in self.values))

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Itself."""
        return (self,)


@dataclass(frozen=True, eq=False)
class Scan:
    """Stages that run step by step, each with the step as its first axis, named `axis`; backwards if `reverse`.

    `reads` are the tensors outside of the scan that its stages read.
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
    """A named array, given (`stage` is None) or computed. `t[i, j]` is an element.

    Each dimension of `shape` is an int, or an element over symbols of `te.var` that combines with ints as any element.
    """

    name: str
    shape: tuple[Dim, ...]
    dtype: str
    stage: Stage | Scan | None = None

    def __repr__(self) -> str:
        return f"<Tensor {self.name}>"

    def __getitem__(self, indices: Operand | tuple[Operand, ...]) -> Value:
        """The element at `indices`, one int32 for each dimension."""
        items = indices if isinstance(indices, tuple) else (indices,)
        if len(items) != len(self.shape):
            raise TeError(f"{self.name}: the number of indices must be its rank {len(self.shape)}, got {len(items)}")
        values = [self._index(d, item) for d, item in enumerate(items)]
        element = joined(ir.Load(self.name, tuple(v.expr for v in values)), self.dtype, *values)
        return replace(element, tensors=merged((self,), element.tensors))

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


Operand = object  # a Value, a ReduceAxis or a number; anything else is refused by `as_value`


def as_value(item: Operand, where: str, dtype: str = "int32") -> Value:
    """An operand as a value; a Python number takes `dtype`."""
    match item:
        case Value():
            if item.reduction is not None:
                found = f"te.{item.reduction.reducer.name} inside an expression"
                raise TeError(f"{where}: a reduction must be the whole value of a te.compute, got {found}")
            return item
        case ReduceAxis():
            return Value(ir.Var(axis_name(item.name)), "int32", axes=(item,))
        case bool() | int() | float() | np.number() | np.bool_():
            return const(to_python(item), dtype)
        case Tensor(name=name):
            raise TeError(f"{where}: an operand must be an element, got the tensor {name}; write {name}[...]")
        case _:
            raise TeError(f"{where}: an operand must be an element or a number, got {item!r}")


def merged(*groups: tuple[Any, ...]) -> tuple[Any, ...]:
    """The members of all groups, each object once, in order."""
    return tuple({id(member): member for group in groups for member in group}.values())


def axis_name(name: str) -> str:
    """The name of a block's iteration variable for the axis `name`."""
    return f"v{name}"


# --- operations ------------------------------------------------------------------------------------------------------


def const(value: Number, dtype: str) -> Value:
    """The number `value` of type `dtype`, which must hold it exactly (floats: nearest)."""
    check_dtype("te.const", dtype)
    value = to_python(value)
    if not isinstance(value, bool | int | float):
        raise TeError(f"te.const: the value must be a number, got {value!r}")
    if dtype == "bool":
        if value not in (0, 1):
            raise TeError(f"te.const: a bool must be True or False, got {value!r}")
        return Value(ir.Const(bool(value), dtype), dtype)
    if is_float(dtype):
        if isinstance(value, int) and value.bit_length() > LONGEST:
            rule = f"must be an integer of at most {LONGEST} bits"
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
    check_operator(where, op, left.dtype)
    if (same := without_effect(op, left, right)) is not None:
        return same
    dtype = "bool" if op in ir.COMPARE_OPS else left.dtype
    return joined(ir.Binary(op, left.expr, right.expr), dtype, left, right)


def without_effect(op: str, a: Value, b: Value) -> Value | None:
    """The operand that the operation gives back unchanged: x + 0, x - 0, x * 1 (so strides of 1 leave no trace)."""
    if op not in ("add", "sub", "mul") or not is_integer(a.dtype):
        return None
    identity = ir.RIGHT_IDENTITY[op]
    if isinstance(b.expr, ir.Const) and b.expr.value == identity:
        return a
    return b if op != "sub" and isinstance(a.expr, ir.Const) and a.expr.value == identity else None


def joined(expr: ir.Expr, dtype: str, *parts: Value) -> Value:
    """`expr`, made of `parts`."""
    tensors, axes = merged(*(p.tensors for p in parts)), merged(*(p.axes for p in parts))
    symbols = tuple(dict.fromkeys(symbol for p in parts for symbol in p.symbols))
    return Value(expr, dtype, tensors, axes, symbols=symbols)


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


def check_operator(where: str, op: str, dtype: str) -> None:
    """Refuse an operator that its operands' dtype does not have."""
    if op in ir.LOGIC_OPS and is_float(dtype):
        raise TeError(f"{where}: operands must be bool or integers, got {dtype}")
    if op in ir.INTEGER_OPS and not is_integer(dtype):
        raise TeError(f"{where}: operands must be integers, got {dtype}")
    if dtype == "bool" and op not in (*ir.LOGIC_OPS, "eq", "ne"):
        raise TeError(f'{where}: operands must be numbers, got bool; write te.cast("int32", ...)')


def negated(item: Operand) -> Value:
    """The number of the other sign; of a float's 0 too."""
    value = as_value(item, "te: operator -")
    return binary("mul", value, -1) if is_float(value.dtype) else binary("sub", 0, value)


def inverted(item: Operand) -> Value:
    """Every bit the other way; of a bool, whether it does not hold."""
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
    return joined(ir.Call("divide", (left.expr, right.expr), left.dtype), left.dtype, left, right)


def element_of(where: str, value: object) -> Value:
    """What a function of the user's gave, as an element."""
    value = to_python(value)
    if isinstance(value, (Value, ReduceAxis, Tensor)):
        return value if isinstance(value, Value) else as_value(value, where)
    if isinstance(value, (bool, int, float)):
        fix = f"write te.const({value!r}, dtype)"
        raise TeError(f"{where}: the value must have a dtype, got the number {value!r}; {fix}")
    raise TeError(f"{where}: the value must be an element, got {value!r}")


# --- checks ----------------------------------------------------------------------------------------------------------


def check_name(where: str, name: str) -> None:
    """Refuse what cannot be printed as a name."""
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise TeError(f"{where}: the name must be a Python identifier, got {name!r}")


def check_dtype(where: str, dtype: str) -> None:
    """Refuse an unknown element type."""
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise TeError(f"{where}: the dtype must be one of {', '.join(DTYPES)}, got {dtype}")
