# SPDX-License-Identifier: Apache-2.0
"""Placeholders, computed tensors, and the elementary operations on elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, overload

from vdla.compiler import ir
from vdla.compiler.ir import RESERVED, size_violation
from vdla.compiler.te.expr import (
    Dim,
    Number,
    Operand,
    ReduceAxis,
    Reduction,
    Stage,
    TeError,
    Tensor,
    Value,
    as_value,
    axis_name,
    binary,
    check_dtype,
    check_name,
    const,
    element_of,
    make_value,
    same_dtype,
)
from vdla.compiler.te.extents import check_bounds, check_extent, check_shape, parameter_names
from vdla.support.integers import is_int

# --- operations -----------------------------------------------------------------------------------


def cast(dtype: str, value: Operand) -> Value:
    """`value` converted to `dtype`: integers wrap; floats truncate and saturate, NaN becomes 0."""
    check_dtype("te.cast", dtype)
    inner = as_value(value, "te.cast")
    return inner if inner.dtype == dtype else make_value(ir.Cast(dtype, inner.expr), dtype, inner)


def select(condition: Operand, a: Operand, b: Operand) -> Value:
    """`a` where the condition holds, else `b`; only the selected one is read."""
    test = _as_condition("te.select", condition)
    left, right = same_dtype("te.select", a, b)
    return make_value(ir.Select(test.expr, left.expr, right.expr), left.dtype, test, left, right)


if_then_else = select


def minimum(a: Operand, b: Operand) -> Value:
    """The smaller of two elements."""
    return binary("min", a, b)


def maximum(a: Operand, b: Operand) -> Value:
    """The larger of two elements."""
    return binary("max", a, b)


def clip(value: Operand, low: Operand, high: Operand) -> Value:
    """`value` limited to [low, high]."""
    return minimum(maximum(value, low), high)


def all_of(*conditions: Operand) -> Value:
    """The conjunction of bool conditions."""
    tests = [_as_condition("te.all_of", condition) for condition in conditions] or [const(True, "bool")]
    return reduce(lambda a, b: a & b, tests)


def _as_condition(where: str, condition: Operand) -> Value:
    """A condition as a bool value."""
    test = as_value(condition, where, "bool")
    if test.dtype != "bool":
        raise TeError(f"{where}: the condition must be bool, got {test.dtype}")
    return test


def var(name: str) -> Value:
    """A symbolic extent, at least 1, for shapes, reduce axes and elements, and arithmetic on it.

    In a function it must be a whole dimension of some parameter. Equal names are one symbol.
    """
    check_name("te.var", name)
    return Value(ir.Var(name), "int32", symbols=(name,))


def reduce_axis(extent: Dim, name: str) -> ReduceAxis:
    """An axis with the domain [0, extent) to reduce over."""
    check_name("te.reduce_axis", name)
    return ReduceAxis(name, check_extent(f"te.reduce_axis {name}", "the extent", extent))


# --- tensors --------------------------------------------------------------------------------------


def placeholder(shape: Sequence[Dim], dtype: str, name: str) -> Tensor:
    """An input tensor."""
    check_name("te.placeholder", name)
    check_dtype(f"te.placeholder {name}", dtype)
    return Tensor(name, check_shape(f"te.placeholder {name}", shape), dtype)


_Elements = Callable[..., tuple[Operand, ...]]


@overload
def compute(
    shape: Sequence[Dim], body: _Elements, name: str | Sequence[str], annotations: Mapping[str, Any] | None = None
) -> tuple[Tensor, ...]: ...
@overload
def compute(
    shape: Sequence[Dim], body: Callable[..., Any], name: str, annotations: Mapping[str, Any] | None = None
) -> Tensor: ...
def compute(
    shape: Sequence[Dim],
    body: Callable[..., Any],
    name: str | Sequence[str],
    annotations: Mapping[str, Any] | None = None,
) -> Tensor | tuple[Tensor, ...]:
    """The tensor whose element at `indices` is `body(*indices)`.

    The parameters of `body` name the axes. If `body` returns a tuple, as tuple reducers do, so does
    `compute`: tensors of one shape, computed by one block, named `name_0`, `name_1`, ... or by the
    sequence `name`. `annotations` are those of the block; their values are numbers, strings, None,
    or tuples of these.
    """
    names = (name,) if isinstance(name, str) else tuple(name) if isinstance(name, Sequence) else (name,)
    if not names:
        raise TeError("te.compute: the names must be at least one, got ()")
    for item in names:
        check_name("te.compute", item)
    where = f"te.compute {', '.join(names)}"
    extents = check_shape(where, shape)
    axes = _axis_names(where, body, len(extents))
    result = body(*(Value(ir.Var(axis_name(a)), "int32") for a in axes))
    values, reduction = _stage_values(where, result if isinstance(result, tuple) else (result,))
    _check_axes(where, axes, reduction)
    single = not isinstance(result, tuple)
    names = _tensor_names(where, name, len(values), single)
    stage_name = name if isinstance(name, str) else names[0]
    stage = Stage(
        name=stage_name,
        names=names,
        shape=extents,
        axes=axes,
        values=values,
        reduction=reduction,
        annotations=_check_annotations(where, annotations or {}),
    )
    check_bounds(stage)
    tensors = tuple(Tensor(n, extents, v.dtype, stage) for n, v in zip(stage.names, values, strict=True))
    return tensors[0] if single else tensors


def full(shape: Sequence[Dim], value: Number, dtype: str, name: str) -> Tensor:
    """A tensor with all elements equal to `value`."""
    return compute(shape, lambda *i: const(value, dtype), name)


def pad(tensor: Tensor, before: Sequence[int], after: Sequence[int], value: Number, name: str | None = None) -> Tensor:
    """`tensor` padded with `value`: `before` and `after` elements in each dimension."""
    if not isinstance(tensor, Tensor):
        raise TeError(f"te.pad: the operand must be a tensor, got {tensor!r}")
    where = f"te.pad {tensor.name}"
    low, high = _check_padding(where, tensor, before), _check_padding(where, tensor, after)
    shape = tuple(b + n + a for b, n, a in zip(low, tensor.shape, high, strict=True))

    def body(*indices: Value) -> Value:
        source = tuple(i - b if b else i for i, b in zip(indices, low, strict=True))
        inside = [i >= b for i, b in zip(indices, low, strict=True) if b]
        inside += [i < b + n for i, b, n, a in zip(indices, low, tensor.shape, high, strict=True) if a]
        return select(all_of(*inside), tensor[source], const(value, tensor.dtype)) if inside else tensor[source]

    return compute(shape, body, f"{tensor.name}_pad" if name is None else name)


def _check_padding(where: str, tensor: Tensor, amounts: Sequence[int]) -> tuple[int, ...]:
    """The amounts of padding, one integer >= 0 per dimension."""
    if not isinstance(amounts, Sequence):
        raise TeError(f"{where}: padding must be {len(tensor.shape)} integers >= 0, got {amounts!r}")
    if len(amounts) != len(tensor.shape) or any(not is_int(a) or a < 0 for a in amounts):
        raise TeError(f"{where}: padding must be {len(tensor.shape)} integers >= 0, got {list(amounts)}")
    return tuple(int(amount) for amount in amounts)


def _axis_names(where: str, body: Callable[..., Any], rank: int) -> tuple[str, ...]:
    """The names of the axes: the parameters of `body`, i0, i1, ... for `*indices`."""
    names = parameter_names(where, "the body must be a function of the indices", body, rank)
    if len(names) != rank:
        raise TeError(f"{where}: the function must take one index for each of {rank} dimensions, got {len(names)}")
    return tuple(names)


def _stage_values(where: str, results: tuple[Any, ...]) -> tuple[tuple[Value, ...], Reduction | None]:
    """The elements of a stage and its reduction, if there is one."""
    if not results:
        raise TeError(f"{where}: the value must be an element or a tuple of elements, got ()")
    values = tuple(element_of(where, result) for result in results)
    starts = values[0].reduction.starts if values[0].reduction else ()
    for broken in filter(None, map(size_violation, (*(value.expr for value in values), *starts))):
        raise TeError(f"{where}: the value {broken}; split it into several stages")
    if any(value.axes for value in values):
        names = ", ".join(dict.fromkeys(axis.name for value in values for axis in value.axes))
        raise TeError(f"{where}: a reduce axis must be used inside a reduction over it, got {names} outside of one")
    reduction = values[0].reduction
    if any(value.reduction is not reduction for value in values[1:]):
        raise TeError(f"{where}: a tuple must be one reduction or none, got parts of several")
    if reduction is not None and [value.part for value in values] != list(range(len(reduction.starts))):
        got = ", ".join(str(value.part) for value in values)
        parts = len(reduction.starts)
        raise TeError(f"{where}: a reduction must be returned with all of its {parts} parts in order, got {got}")
    return tuple(replace(value, reduction=None) for value in values), reduction


def _tensor_names(where: str, name: str | Sequence[str], count: int, single: bool) -> tuple[str, ...]:
    """The names of a stage's tensors."""
    if isinstance(name, str):
        return (name,) if single else tuple(f"{name}_{part}" for part in range(count))
    if single or len(name) != count:
        got = f"{len(name)} for {'one element' if single else count}"
        raise TeError(f"{where}: there must be one name for each element, got {got}")
    return tuple(name)


def _check_axes(where: str, axes: tuple[str, ...], reduction: Reduction | None) -> None:
    """Rejects two axes of one name, and more axes than NumPy supports."""
    names = [*axes, *(axis.name for axis in (reduction.axes if reduction else ()))]
    if len(names) > ir.MAX_RANK:
        raise TeError(f"{where}: it must have at most {ir.MAX_RANK} axes, got {len(names)}")
    for name in names:
        if names.count(name) > 1:
            raise TeError(f"{where}: its axes must have different names, got {name} twice")


def _check_annotations(where: str, annotations: Mapping[str, Any]) -> dict[str, Any]:
    """The annotations of a block: names to printable constants."""
    if not isinstance(annotations, Mapping):
        raise TeError(f"{where}: annotations must be a mapping, got {annotations!r}")
    for key, value in annotations.items():
        if not isinstance(key, str) or not key.isidentifier():
            raise TeError(f"{where}: the name of an annotation must be a Python identifier, got {key!r}")
        if key in RESERVED:
            raise TeError(f"{where}: the name of an annotation must not be reserved, got {key}")
        if not _is_constant(value):
            raise TeError(f"{where}: annotation {key} must be a number, a string, None or a tuple, got {value!r}")
    return dict(annotations)


def _is_constant(value: object) -> bool:
    """Whether `repr(value)` evaluates to `value`."""
    if isinstance(value, tuple):
        return all(_is_constant(part) for part in value)
    return value is None or isinstance(value, bool | int | float | str)


def placeholders_of(result: Tensor) -> list[Tensor]:
    """The placeholders of an expression, in the order in which it reads them."""
    seen: dict[str, Tensor] = {}
    waiting = [result]
    while waiting:
        tensor = waiting.pop(0)
        if tensor.stage is None:
            seen.setdefault(tensor.name, tensor)
        else:
            waiting += [read for read in tensor.stage.reads if read is not tensor]
    return list(seen.values())
