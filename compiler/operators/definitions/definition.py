# SPDX-License-Identifier: Apache-2.0
"""Definitions: the inputs and the result of an operator, and common steps."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics.requantise import requantisation
from vdla.compiler.extensions import LayerError
from vdla.compiler.ir import limits
from vdla.support.errors import Error
from vdla.support.integers import is_int


class DefinitionError(Error, ValueError):
    """An invalid extent or option of a definition."""


@dataclass(frozen=True, eq=False, slots=True)
class Definition:
    """A plain operator: placeholders, and the tensor computed from them.

    `options` are the arguments of the defining function, a single value where all axes have the
    same; a user's expression has none.
    """

    name: str
    inputs: tuple[te.Tensor, ...]
    output: te.Tensor
    options: Mapping[str, Any] = field(default_factory=dict)

    def require(self, name: str, **options: Any) -> None:  # noqa: ANN401  of any option
        """LayerError unless it is the operator `name` with these options; a set holds choices."""
        if name != self.name:
            raise LayerError(f"operator must be {name}, got {self.name}")
        for key, wanted in options.items():
            if key not in self.options:
                raise DefinitionError(f"{name}: option must be one of {', '.join(self.options)}, got {key}")
            choices = sorted(wanted) if isinstance(wanted, set | frozenset) else [wanted]
            if self.options[key] not in map(_along_axes, choices):
                raise LayerError(f"{key} must be {' or '.join(map(str, choices))}, got {self.options[key]}")


_Options = ParamSpec("_Options")
Sums = tuple[Sequence[te.Tensor], te.Tensor]
"""The inputs of an operator, and raw sums [n, channels, ...] or a result."""


def definition(define: Callable[_Options, Sums]) -> Callable[_Options, Definition]:
    """A decorator that stores the arguments of the function in its definition.

    Integers without a default, and groups, are extents. Sums are requantised with a scale for each
    channel if the option `raw` is false.
    """
    name, signature = define.__name__, inspect.signature(define)
    parameters = signature.parameters.items()
    ints = [key for key, parameter in parameters if parameter.annotation == "int"]
    extents = [key for key in ints if key == "groups" or signature.parameters[key].default is inspect.Parameter.empty]

    @wraps(define)
    def defining(*words: _Options.args, **options: _Options.kwargs) -> Definition:
        given = signature.bind(*words, **options)
        given.apply_defaults()
        values = given.arguments
        require_extents(name, **{key: values[key] for key in extents})
        inputs, output = define(*words, **options)
        if not values.get("raw", True) and output.dtype == "int32":
            scale, output = requantised(output, 1, values["dtype"])
            inputs = (*inputs, scale)
        return Definition(name, tuple(inputs), output, {key: _along_axes(value) for key, value in values.items()})

    made: Any = defining
    made.__signature__ = signature.replace(return_annotation="Definition")
    return defining


def _along_axes(value: Any) -> Any:  # noqa: ANN401  of any option
    """An option with equal values along all axes as one value."""
    if not isinstance(value, tuple | list):
        return value
    return value[0] if value and all(one == value[0] for one in value) else tuple(value)


def require_extents(where: str, **extents: int) -> None:
    """DefinitionError unless all extents are positive integers."""
    for what, value in extents.items():
        if not is_int(value) or value < 1:
            raise DefinitionError(f"{where}: {what} must be a positive integer, got {value!r}")


def per_axis(where: str, what: str, value: int | Sequence[int], axes: int, least: int) -> tuple[int, ...]:
    """One integer of at least `least` for each axis, from one for all or one for each."""
    numbers = (value,) * axes if is_int(value) else tuple(value) if isinstance(value, tuple | list) else ()
    if len(numbers) != axes or not all(is_int(one) and one >= least for one in numbers):
        raise DefinitionError(f"{where}: {what} must be 1 or {axes} integers from {least}, got {value!r}")
    return numbers


def product(a: te.Value, b: te.Value) -> te.Value:
    """The product of two elements in 32 bits."""
    return te.cast("int32", a) * te.cast("int32", b)


def requantised(
    sums: te.Tensor, channels: int, dtype: str = "int8", zero_point: int = 0
) -> tuple[te.Tensor, te.Tensor]:
    """(scale, result): sums in the type of activations.

    `scale` has one element of `numerics.pack_scale` for each index of the axis `channels`.
    """
    return requantised_by(sums, (sums.shape[channels],), lambda i: (i[channels],), dtype, zero_point)


def requantised_by(
    sums: te.Tensor,
    shape: Sequence[int],
    lane: Callable[[tuple[te.Value, ...]], tuple[te.Value, ...]],
    dtype: str = "int8",
    zero_point: int = 0,
    bounds: tuple[int, int] | None = None,
) -> tuple[te.Tensor, te.Tensor]:
    """(scale, result): sums in the type of activations, clipped to `bounds`; `lane` gives the
    element of a scale of `shape` for the index of a sum.
    """
    low, high = bounds or (int(limit) for limit in limits(dtype))
    scale = te.placeholder(tuple(shape), "int64", "scale")

    def value(*i: te.Value) -> te.Value:
        return requantisation(sums[i], scale[lane(i)], zero_point, low, high, dtype)

    return scale, te.compute(sums.shape, value, "result")
