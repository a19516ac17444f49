"""Reductions: how many elements combine into one, or into a tuple of several that belong together.

A combination is commutative and associative, so that a schedule may choose its order; for floats that holds but for
rounding. `argmax` and `argmin` compare positions too, so the first of equal elements wins in whatever order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from vdla.compiler import ir
from vdla.compiler.ir import is_float, limits
from vdla.compiler.te.expr import (
    Number,
    Operand,
    ReduceAxis,
    Reduction,
    TeError,
    Value,
    as_value,
    binary,
    check_name,
    const,
    element_of,
    joined,
)
from vdla.compiler.te.lambda_names import parameter_names

Identity = Number | Callable[[str], Number]  # a number, or what gives it for a dtype
LAST = limits("int32")[1]  # no position of an element


@dataclass(frozen=True, eq=False)
class Reducer:
    """A commutative and associative combination of two values, with its identity."""

    combine: Callable[[Value, Value], Any]
    identity: Identity
    name: str

    def __call__(self, value: Operand, axis: ReduceAxis | Sequence[ReduceAxis], init: Operand | None = None) -> Value:
        """The combination of `value` over all points of `axis`, and of `init` before them: a bias, for example."""
        body = reduced(self, (value,), (self.identity,), axis)[0]
        return body if init is None else started(self, body, init)

    def apply(self, a: tuple[Value, ...], b: tuple[Value, ...]) -> tuple[Any, ...]:
        """The combination of two values, each a tuple of one."""
        return (self.combine(a[0], b[0]),)


@dataclass(frozen=True, eq=False)
class TupleReducer:
    """A commutative and associative combination of two tuples of values, with the tuple that is its identity."""

    combine: Callable[[tuple[Value, ...], tuple[Value, ...]], tuple[Any, ...]]
    identity: tuple[Identity, ...]
    name: str

    def __call__(self, values: tuple[Operand, ...], axis: ReduceAxis | Sequence[ReduceAxis]) -> tuple[Value, ...]:
        """The combination of the tuple over all points of `axis`: the whole value of a compute."""
        if not isinstance(values, tuple) or len(values) != len(self.identity):
            count = len(values) if isinstance(values, tuple) else 1
            raise TeError(f"te.{self.name}: the value must be a tuple of {len(self.identity)} elements, got {count}")
        return reduced(self, values, self.identity, axis)

    def apply(self, a: tuple[Value, ...], b: tuple[Value, ...]) -> tuple[Any, ...]:
        """The combination of two tuples."""
        results = self.combine(a, b)
        if not isinstance(results, tuple):
            raise TeError(f"te.{self.name}: combine must return {len(a)} elements, got {results!r}")
        return results


@overload
def reducer(
    combine: Callable[[tuple[Value, ...], tuple[Value, ...]], tuple[Any, ...]],
    identity: tuple[Identity, ...],
    name: str = "reducer",
) -> TupleReducer: ...
@overload
def reducer(combine: Callable[[Value, Value], Any], identity: Identity, name: str = "reducer") -> Reducer: ...
def reducer(
    combine: Callable[[Any, Any], Any], identity: Identity | tuple[Identity, ...], name: str = "reducer"
) -> Reducer | TupleReducer:
    """A user-defined reducer: `reducer(lambda x, y: x * y, 1, "product")`.

    `combine` must be commutative and associative; `identity` is its neutral value, or a function from dtype to it. With
    a tuple of identities the reducer combines tuples, and takes and gives tuples of so many elements.
    """
    check_name("te.reducer", name)
    check_function(f"te.reducer {name}", "combine must be a function of two values", combine, 2)
    for each in identity if isinstance(identity, tuple) else (identity,):
        if callable(each):
            check_function(f"te.reducer {name}", "identity must be a number or a function of a dtype", each, 1)
    return TupleReducer(combine, identity, name) if isinstance(identity, tuple) else Reducer(combine, identity, name)


def check_function(where: str, rule: str, function: object, count: int) -> None:
    """Refuse what is no function of `count` arguments."""
    names = parameter_names(where, rule, function, count)
    if len(names) != count:
        raise TeError(f"{where}: {rule}, got one of {len(names)}")


def reduced(
    reducer: Reducer | TupleReducer,
    values: tuple[Operand, ...],
    identities: tuple[Identity, ...],
    axis: ReduceAxis | Sequence[ReduceAxis],
) -> tuple[Value, ...]:
    """The values, marked as combined over `axis`."""
    where = f"te.{reducer.name}"
    read = number_of if isinstance(reducer, Reducer) else as_value
    bodies = tuple(read(value, where) for value in values)
    axes = checked_axes(where, axis)
    starts = tuple(start_of(identity, body.dtype) for identity, body in zip(identities, bodies, strict=True))
    reduction = Reduction(reducer, axes, starts)
    opened = [tuple(a for a in body.axes if not any(a is b for b in axes)) for body in bodies]
    return tuple(
        replace(body, axes=rest, reduction=reduction, part=part)
        for part, (body, rest) in enumerate(zip(bodies, opened, strict=True))
    )


def number_of(item: Operand, where: str) -> Value:
    """What is combined: an element, not a bool."""
    value = as_value(item, where)
    if value.dtype == "bool":
        raise TeError(f'{where}: the value must be a number, got bool; write te.cast("int32", ...)')
    return value


def started(reducer: Reducer, body: Value, init: Operand) -> Value:
    """A reduction that starts from `init`."""
    where = f"te.{reducer.name}"
    start = as_value(init, f"{where} init", body.dtype)
    if start.dtype != body.dtype:
        fix = f'write te.cast("{body.dtype}", ...)'
        raise TeError(f"{where}: init must be {body.dtype} as the value is, got {start.dtype}; {fix}")
    if start.axes:
        names = ", ".join(axis.name for axis in start.axes)
        raise TeError(f"{where}: init must be the same for all terms, got the reduce axis {names} in it")
    assert body.reduction is not None
    given = (start.expr,) != body.reduction.starts
    reduction = replace(body.reduction, starts=(start.expr,), given=given)
    parts = joined(body.expr, body.dtype, body, start)
    return replace(parts, axes=body.axes, reduction=reduction, part=body.part)


def start_of(identity: Identity, dtype: str) -> ir.Expr:
    """The identity as a constant."""
    return const(identity(dtype) if callable(identity) else identity, dtype).expr


def checked_axes(where: str, axis: ReduceAxis | Sequence[ReduceAxis]) -> tuple[ReduceAxis, ...]:
    """The axes of a reduction: at least one, of different names."""
    axes = (axis,) if isinstance(axis, ReduceAxis) else axis
    if not isinstance(axes, Sequence) or not all(isinstance(a, ReduceAxis) for a in axes):
        raise TeError(f"{where}: axis must be a te.reduce_axis or several, got {axis!r}")
    if not axes:
        raise TeError(f"{where}: axis must name at least one reduce axis, got none")
    names = [a.name for a in axes]
    if len(set(names)) != len(names):
        raise TeError(f"{where}: reduce axes must have different names, got {', '.join(names)}")
    return tuple(axes)


def combine(reduction: Reduction, so_far: tuple[Value, ...], new: tuple[Value, ...]) -> tuple[Value, ...]:
    """`so_far` combined with one more term, dtypes unchanged."""
    where = f"te.{reduction.reducer.name}"
    results = reduction.reducer.apply(so_far, new)
    if len(results) != len(new):
        raise TeError(f"{where}: combine must return {len(new)} elements, got {len(results)}")
    values = tuple(element_of(where, result) for result in results)
    for value, old in zip(values, so_far, strict=True):
        if value.dtype != old.dtype:
            raise TeError(f"{where}: combine must keep the dtype {old.dtype}, got {value.dtype}")
        if value.tensors or value.axes or value.symbols:
            found = [tensor.name for tensor in value.tensors] + [axis.name for axis in value.axes]
            names = ", ".join([*found, *value.symbols])
            raise TeError(f"{where}: combine must be made of its arguments and numbers alone, got {names}")
    return values


# --- predefined reducers -------------------------------------------------------------------------------------

sum = reducer(lambda x, y: x + y, 0, "sum")
max = reducer(lambda x, y: binary("max", x, y), lambda dtype: limits(dtype)[0], "max")
min = reducer(lambda x, y: binary("min", x, y), lambda dtype: limits(dtype)[1], "min")


def is_nan(x: Value) -> Value:
    """Whether a float is no number."""
    return x != x


def first_of(a: tuple[Value, ...], b: tuple[Value, ...], op: str) -> tuple[Value, ...]:
    """Of two pairs (element, position) that with the better element, of equal ones that at the lower position.

    NaN is better than any number, as in numpy.
    """
    better, equal = binary(op, b[0], a[0]), b[0] == a[0]
    if is_float(a[0].dtype):
        better = better | (is_nan(b[0]) & (a[0] == a[0]))
        equal = equal | (is_nan(b[0]) & is_nan(a[0]))
    chosen = better | (equal & (b[1] < a[1]))
    return tuple(replace(y, expr=ir.Select(chosen.expr, y.expr, x.expr)) for x, y in zip(a, b, strict=True))


_ARGMAX = reducer(lambda a, b: first_of(a, b, "gt"), (lambda dtype: limits(dtype)[0], LAST), "argmax")
_ARGMIN = reducer(lambda a, b: first_of(a, b, "lt"), (lambda dtype: limits(dtype)[1], LAST), "argmin")


def argmax(value: Operand, axis: ReduceAxis | Sequence[ReduceAxis]) -> tuple[Value, Value]:
    """(the largest element, its position along `axis`), the position int32 and of equal elements the lowest.

    Along several axes the position counts row-major, the last axis fastest. NaN is larger than any number.
    """
    return arg_reduced(_ARGMAX, value, axis)


def argmin(value: Operand, axis: ReduceAxis | Sequence[ReduceAxis]) -> tuple[Value, Value]:
    """(the smallest element, its position along `axis`), as `argmax`; NaN is smaller than any number."""
    return arg_reduced(_ARGMIN, value, axis)


def arg_reduced(pairs: TupleReducer, value: Operand, axis: ReduceAxis | Sequence[ReduceAxis]) -> tuple[Value, Value]:
    """The best element and its position."""
    where = f"te.{pairs.name}"
    element, axes = number_of(value, where), checked_axes(where, axis)
    position = as_value(axes[0], where)
    for other in axes[1:]:
        position = position * other.extent + other
    best, place = pairs((element, position), axes)
    return best, place
