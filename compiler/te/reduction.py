# SPDX-License-Identifier: Apache-2.0
"""Reductions of elements to one, or of tuples of elements to one tuple.

Reducers are commutative and associative, up to rounding, so that a schedule may choose the order.
`argmax` and `argmin` also compare positions: in any order, the first of equal elements wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from vdla.compiler import ir
from vdla.compiler.ir import is_float, limits
from vdla.compiler.te.expr import (
    Combiner,
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
    make_value,
)
from vdla.compiler.te.extents import parameter_names

_Identity = Number | Callable[[str], Number]  # a number, or a function of the dtype
_NO_POSITION = limits("int32")[1]  # greater than any position


@dataclass(frozen=True, eq=False)
class Reducer:
    """A commutative, associative function of two values, and its identity."""

    combine: Callable[[Value, Value], Any]
    identity: _Identity
    name: str

    def __call__(self, value: Operand, axis: ReduceAxis | Sequence[ReduceAxis], init: Operand | None = None) -> Value:
        """`value` reduced over `axis`, from `init` (a bias, for example) or the identity."""
        body = _reduce(self, (value,), (self.identity,), axis)[0]
        return body if init is None else _with_init(self, body, init)

    def apply(self, a: tuple[Value, ...], b: tuple[Value, ...]) -> tuple[Any, ...]:
        """The combination of two values, each in a tuple."""
        return (self.combine(a[0], b[0]),)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Predefined reducers are pickled by their names, since their functions have none."""
        return self.name if globals().get(self.name) is self else (Reducer, (self.combine, self.identity, self.name))


@dataclass(frozen=True, eq=False)
class TupleReducer:
    """A commutative, associative function of two tuples of values, and its identity, a tuple."""

    combine: Callable[[tuple[Value, ...], tuple[Value, ...]], tuple[Any, ...]]
    identity: tuple[_Identity, ...]
    name: str

    def __call__(self, values: tuple[Operand, ...], axis: ReduceAxis | Sequence[ReduceAxis]) -> tuple[Value, ...]:
        """The tuple reduced over `axis`; it must be the whole value of a `te.compute`."""
        if not isinstance(values, tuple) or len(values) != len(self.identity):
            count = len(values) if isinstance(values, tuple) else 1
            raise TeError(f"te.{self.name}: the value must be a tuple of {len(self.identity)} elements, got {count}")
        return _reduce(self, values, self.identity, axis)

    def apply(self, a: tuple[Value, ...], b: tuple[Value, ...]) -> tuple[Any, ...]:
        """The combination of two tuples."""
        results = self.combine(a, b)
        if not isinstance(results, tuple):
            raise TeError(f"te.{self.name}: combine must return {len(a)} elements, got {results!r}")
        return results

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Predefined reducers are pickled by their names, as `Reducer` does."""
        name = self.name.upper()
        return name if globals().get(name) is self else (TupleReducer, (self.combine, self.identity, self.name))


@overload
def reducer(
    combine: Callable[[tuple[Value, ...], tuple[Value, ...]], tuple[Any, ...]],
    identity: tuple[_Identity, ...],
    name: str = "reducer",
) -> TupleReducer: ...
@overload
def reducer(combine: Callable[[Value, Value], Any], identity: _Identity, name: str = "reducer") -> Reducer: ...
def reducer(
    combine: Callable[[Any, Any], Any], identity: _Identity | tuple[_Identity, ...], name: str = "reducer"
) -> Reducer | TupleReducer:
    """A user-defined reducer: `reducer(lambda x, y: x * y, 1, "product")`.

    `combine` must be commutative and associative; `identity` is its neutral element, or a function
    from the dtype to it. With a tuple of identities, `combine` takes and returns tuples of that
    length.
    """
    check_name("te.reducer", name)
    _check_arity(f"te.reducer {name}", "combine must be a function of two values", combine, 2)
    for item in identity if isinstance(identity, tuple) else (identity,):
        if callable(item):
            _check_arity(f"te.reducer {name}", "identity must be a number or a function of a dtype", item, 1)
    return TupleReducer(combine, identity, name) if isinstance(identity, tuple) else Reducer(combine, identity, name)


def _check_arity(where: str, rule: str, function: object, count: int) -> None:
    """Rejects anything but a function of `count` arguments."""
    names = parameter_names(where, rule, function, count)
    if len(names) != count:
        raise TeError(f"{where}: {rule}, got one of {len(names)}")


def _reduce(
    reducer: Reducer | TupleReducer,
    values: tuple[Operand, ...],
    identities: tuple[_Identity, ...],
    axis: ReduceAxis | Sequence[ReduceAxis],
) -> tuple[Value, ...]:
    """The values as terms of one reduction over `axis`."""
    where = f"te.{reducer.name}"
    read = _as_number if isinstance(reducer, Reducer) else as_value
    bodies = tuple(read(value, where) for value in values)
    axes = _reduction_axes(where, axis)
    starts = tuple(_identity_const(identity, body.dtype) for identity, body in zip(identities, bodies, strict=True))
    reduction = Reduction(reducer, axes, starts)
    opened = [tuple(a for a in body.axes if not any(a is b for b in axes)) for body in bodies]
    return tuple(
        replace(body, axes=rest, reduction=reduction, part=part)
        for part, (body, rest) in enumerate(zip(bodies, opened, strict=True))
    )


def _as_number(item: Operand, where: str) -> Value:
    """An element that is a number, not a bool."""
    value = as_value(item, where)
    if value.dtype == "bool":
        raise TeError(f'{where}: the value must be a number, got bool; write te.cast("int32", ...)')
    return value


def _with_init(reducer: Reducer, body: Value, init: Operand) -> Value:
    """The reduction `body`, starting from `init`."""
    where = f"te.{reducer.name}"
    start = as_value(init, f"{where} init", body.dtype)
    if start.dtype != body.dtype:
        fix = f'write te.cast("{body.dtype}", ...)'
        raise TeError(f"{where}: init must be {body.dtype} as the value is, got {start.dtype}; {fix}")
    if start.axes:
        names = ", ".join(axis.name for axis in start.axes)
        raise TeError(f"{where}: init must not depend on the reduce axes, got {names}")
    assert body.reduction is not None
    given = (start.expr,) != body.reduction.starts
    reduction = replace(body.reduction, starts=(start.expr,), given=given)
    parts = make_value(body.expr, body.dtype, body, start)
    return replace(parts, axes=body.axes, reduction=reduction, part=body.part)


def _identity_const(identity: _Identity, dtype: str) -> ir.Expr:
    """The identity as a constant of `dtype`."""
    return const(identity(dtype) if callable(identity) else identity, dtype).expr


def _reduction_axes(where: str, axis: ReduceAxis | Sequence[ReduceAxis]) -> tuple[ReduceAxis, ...]:
    """The axes of a reduction: at least one, with distinct names."""
    axes = (axis,) if isinstance(axis, ReduceAxis) else axis
    if not isinstance(axes, Sequence) or not all(isinstance(a, ReduceAxis) for a in axes):
        raise TeError(f"{where}: axis must be one or more te.reduce_axis, got {axis!r}")
    if not axes:
        raise TeError(f"{where}: axis must name at least one reduce axis, got none")
    names = [a.name for a in axes]
    if len(set(names)) != len(names):
        raise TeError(f"{where}: reduce axes must have different names, got {', '.join(names)}")
    return tuple(axes)


def combine(reduction: Reduction, so_far: tuple[Value, ...], new: tuple[Value, ...]) -> tuple[Value, ...]:
    """`so_far` combined with the term `new`; the dtypes must not change."""
    where = f"te.{reduction.reducer.name}"
    results = reduction.reducer.apply(so_far, new)
    if len(results) != len(new):
        raise TeError(f"{where}: combine must return {len(new)} elements, got {len(results)}")
    values = tuple(element_of(where, result) for result in results)
    for value, old in zip(values, so_far, strict=True):
        if value.dtype != old.dtype:
            raise TeError(f"{where}: combine must keep the dtype {old.dtype}, got {value.dtype}")
        if value.tensors or value.axes or value.symbols:
            read_names = [tensor.name for tensor in value.tensors] + [axis.name for axis in value.axes]
            names = ", ".join([*read_names, *value.symbols])
            raise TeError(f"{where}: combine must use its arguments and constants only, got {names}")
    return values


# --- predefined reducers --------------------------------------------------------------------------

sum = reducer(lambda x, y: x + y, 0, "sum")
max = reducer(lambda x, y: binary("max", x, y), lambda dtype: limits(dtype)[0], "max")
min = reducer(lambda x, y: binary("min", x, y), lambda dtype: limits(dtype)[1], "min")


def _is_nan(x: Value) -> Value:
    """Whether a float is NaN."""
    return x != x


def _better_pair(a: tuple[Value, ...], b: tuple[Value, ...], op: str) -> tuple[Value, ...]:
    """The (element, position) pair with the better element, ties to the lower position.

    NaN beats any number, as in NumPy.
    """
    better, equal = binary(op, b[0], a[0]), b[0] == a[0]
    if is_float(a[0].dtype):
        better = better | (_is_nan(b[0]) & (a[0] == a[0]))
        equal = equal | (_is_nan(b[0]) & _is_nan(a[0]))
    chosen = better | (equal & (b[1] < a[1]))
    return tuple(replace(y, expr=ir.Select(chosen.expr, y.expr, x.expr)) for x, y in zip(a, b, strict=True))


ARGMAX = reducer(lambda a, b: _better_pair(a, b, "gt"), (lambda dtype: limits(dtype)[0], _NO_POSITION), "argmax")
ARGMIN = reducer(lambda a, b: _better_pair(a, b, "lt"), (lambda dtype: limits(dtype)[1], _NO_POSITION), "argmin")
PREDEFINED: tuple[Combiner, ...] = (sum, max, min, ARGMAX, ARGMIN)
"""The reducers that have names here; those of a user are functions of one process."""


def argmax(
    value: Operand, axis: ReduceAxis | Sequence[ReduceAxis], position: Operand | None = None
) -> tuple[Value, Value]:
    """(the largest element, its position along `axis`): int32, the lowest of equal elements.

    The position over several axes is row-major, the last axis fastest, unless `position` gives
    another one. NaN is larger than any number.
    """
    return _arg_reduce(ARGMAX, value, axis, position)


def argmin(
    value: Operand, axis: ReduceAxis | Sequence[ReduceAxis], position: Operand | None = None
) -> tuple[Value, Value]:
    """(the smallest element, its position), as for `argmax`; NaN is smaller than any number."""
    return _arg_reduce(ARGMIN, value, axis, position)


def _arg_reduce(
    pairs: TupleReducer, value: Operand, axis: ReduceAxis | Sequence[ReduceAxis], position: Operand | None
) -> tuple[Value, Value]:
    """The best element and its position."""
    where = f"te.{pairs.name}"
    element, axes = _as_number(value, where), _reduction_axes(where, axis)
    if position is None:
        position = as_value(axes[0], where)
        for other in axes[1:]:
            position = position * other.extent + other
    best, place = pairs((element, as_value(position, where)), axes)
    return best, place
