# SPDX-License-Identifier: Apache-2.0
"""Checks of operator arguments: ranks, dtypes, axes, extents, options.

`where` is the name of the operator, with which error messages begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vdla.compiler import te
from vdla.compiler.ir import expr_text, is_float, is_integer
from vdla.compiler.target import Target
from vdla.support.errors import Error
from vdla.support.integers import is_int, to_python


class OperatorError(Error, ValueError):
    """An argument that an operator does not accept."""


def check_tensor(where: str, what: str, tensor: te.Tensor) -> None:
    """Refuse anything but a tensor."""
    if not isinstance(tensor, te.Tensor):
        raise OperatorError(f"{where}: {what} must be a te.Tensor, got {tensor!r}")


def check_rank(where: str, what: str, tensor: te.Tensor, least: int, most: int | None = None) -> None:
    """Refuse a tensor of fewer than `least` or more than `most` dimensions."""
    check_tensor(where, what, tensor)
    rank = len(tensor.shape)
    if most == least and rank != least:
        raise OperatorError(f"{where}: {what} must have {_dimensions(least)}, got {rank}")
    if rank < least:
        raise OperatorError(f"{where}: {what} must have at least {_dimensions(least)}, got {rank}")
    if most is not None and rank > most:
        raise OperatorError(f"{where}: {what} must have at most {_dimensions(most)}, got {rank}")


def _dimensions(count: int) -> str:
    return f"{count} dimension{'s' * (count != 1)}"


def check_float(where: str, what: str, tensor: te.Tensor) -> None:
    """Refuse a tensor whose elements are not floats."""
    check_tensor(where, what, tensor)
    if not is_float(tensor.dtype):
        raise OperatorError(f"{where}: {what} must be of a float dtype, got {tensor.dtype}")


def check_number(where: str, what: str, tensor: te.Tensor) -> None:
    """Refuse a tensor of bools."""
    check_tensor(where, what, tensor)
    if tensor.dtype == "bool":
        raise OperatorError(f"{where}: {what} must be of a number dtype, got bool")


def check_same_dtype(where: str, *tensors: te.Tensor) -> None:
    """Refuse tensors of different dtypes."""
    for tensor in tensors:
        check_tensor(where, "every operand", tensor)
    dtypes = [tensor.dtype for tensor in tensors]
    if len(set(dtypes)) > 1:
        raise OperatorError(f"{where}: all operands must have one dtype, got {', '.join(dtypes)}")


def check_bias(where: str, bias: te.Tensor | None, count: te.Dim) -> None:
    """Refuse a bias of another shape than `(count,)`; None passes."""
    if bias is not None and not same_shape(bias.shape, (count,)):
        raise OperatorError(f"{where}: bias must be of shape {shape_text((count,))}, got {shape_text(bias.shape)}")


def check_weights(where: str, weight: object, form: str) -> None:
    """Refuse anything but a non-empty array of numbers with the rank of `form`, like "[N, K]"."""
    if not isinstance(weight, np.ndarray):
        raise OperatorError(f"{where}: weight must be an array {form}, got {weight!r}")
    dtype = str(weight.dtype)
    if weight.ndim != form.count(",") + 1 or not weight.size or not (is_float(dtype) or is_integer(dtype)):
        raise OperatorError(f"{where}: weight must be an array {form} of numbers, got {dtype}{list(weight.shape)}")


def check_choice(where: str, what: str, value: str, choices: Sequence[str]) -> None:
    """Refuse an option that is not one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise OperatorError(f"{where}: {what} must be one of {', '.join(choices)}, got {value!r}")


def target_of(where: str, target: Target | str) -> Target:
    """A target, given as a Target or by name."""
    if not isinstance(target, Target | str):
        raise OperatorError(f"{where}: target must be a name or a Target, got {target!r}")
    return Target.named(target) if isinstance(target, str) else target


# --- numbers --------------------------------------------------------------------------------------


def number(where: str, what: str, value: object) -> int | float:
    """A Python or NumPy number, not a bool."""
    value = to_python(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise OperatorError(f"{where}: {what} must be a number, got {value!r}")
    return value


def integer(where: str, what: str, value: object) -> int:
    """A Python or NumPy integer, not a bool."""
    if not is_int(value):
        raise OperatorError(f"{where}: {what} must be an integer, got {value!r}")
    return int(value)


def at_least(where: str, what: str, value: object, least: int) -> int:
    """An integer of at least `least`."""
    checked = integer(where, what, value)
    if checked < least:
        raise OperatorError(f"{where}: {what} must be at least {least}, got {checked}")
    return checked


def to_list(values: object) -> object:
    """A NumPy array as a list, a NumPy scalar as a Python number; any other value unchanged."""
    return values.tolist() if isinstance(values, np.ndarray) else to_python(values)


def sequence(where: str, what: str, values: object) -> Sequence[Any]:
    """A sequence with unchecked entries."""
    entries = to_list(values)
    if not isinstance(entries, Sequence) or isinstance(entries, str):
        raise OperatorError(f"{where}: {what} must be a sequence, got {entries!r}")
    return entries


def integers(where: str, what: str, values: object, count: int, least: int | None = None) -> tuple[int, ...]:
    """`count` integers; one integer stands for all of them."""
    values = to_list(values)
    if is_int(values):
        values = (values,) * count
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) != count:
        raise OperatorError(f"{where}: {what} must be {count} integers, got {values!r}")
    if least is None:
        return tuple(integer(where, what, value) for value in values)
    return tuple(at_least(where, what, value, least) for value in values)


def axis_of(where: str, rank: int, axis: object, what: str = "axis") -> int:
    """The dimension of `axis`; negative axes count from the end."""
    value = integer(where, what, axis)
    if not -rank <= value < rank:
        raise OperatorError(f"{where}: {what} must be in {-rank}..{rank - 1}, got {value}")
    return value % rank


def axes_of(where: str, rank: int, axes: object) -> tuple[int, ...]:
    """The dimensions of `axes`, ascending: None for all, an integer, or a sequence of integers."""
    if axes is None:
        return tuple(range(rank))
    axes = to_list(axes)
    if isinstance(axes, Sequence) and not isinstance(axes, str):
        dimensions = [axis_of(where, rank, axis, "every axis") for axis in axes]
    else:
        dimensions = [axis_of(where, rank, axes)]
    if len(set(dimensions)) != len(dimensions):
        raise OperatorError(f"{where}: axes must name each dimension once, got {list(axes)!r}")  # type: ignore[call-overload]
    return tuple(sorted(dimensions))


# --- extents --------------------------------------------------------------------------------------


def is_one(extent: te.Dim) -> bool:
    """Whether an extent is the number 1."""
    return isinstance(extent, int) and extent == 1


def same_extent(a: te.Dim, b: te.Dim) -> bool:
    """Whether two extents are equal for all values of their symbols."""
    return te.extent_of(a) == te.extent_of(b)


def same_shape(a: Sequence[te.Dim], b: Sequence[te.Dim]) -> bool:
    """Whether two shapes are equal for all values of their symbols."""
    return len(a) == len(b) and all(same_extent(x, y) for x, y in zip(a, b, strict=True))


def shape_text(shape: Sequence[te.Dim]) -> str:
    """A shape as text."""
    return f"[{', '.join(dim_text(extent) for extent in shape)}]"


def dim_text(extent: te.Dim) -> str:
    """An extent as text."""
    return expr_text(extent.expr) if isinstance(extent, te.Value) else str(extent)


def extent_value(extent: te.Dim) -> te.Value:
    """An extent as an int32 value."""
    return extent if isinstance(extent, te.Value) else te.const(extent, "int32")


def extents_of(where: str, what: str, shape: object) -> tuple[te.Dim, ...]:
    """A shape given by the caller: integers or symbolic extents."""
    given = sequence(where, what, shape)
    return tuple(e if isinstance(e, te.Value) else integer(where, "every extent", e) for e in given)


def static_extents(where: str, what: str, extents: Sequence[te.Dim]) -> list[int]:
    """Extents that must be numbers, not symbols."""
    return [static_extent(where, f"{what} {d}", extent) for d, extent in enumerate(extents)]


def static_extent(where: str, what: str, extent: te.Dim) -> int:
    """An extent that must be a number, not a symbol."""
    if not isinstance(extent, int):
        raise OperatorError(f"{where}: {what} must be a number, got {dim_text(extent)}")
    return extent
