"""A definition: the inputs and the result of an operator, and the steps that definitions share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics.requantise import requantisation
from vdla.compiler.ir import limits
from vdla.support.errors import Error
from vdla.support.integers import is_int


class DefinitionError(Error, ValueError):
    """An extent or option that a definition does not have."""


@dataclass(frozen=True, eq=False, slots=True)
class Definition:
    """A plain operator: placeholders, and the tensor computed from them."""

    name: str
    inputs: tuple[te.Tensor, ...]
    output: te.Tensor


def require_extents(where: str, **extents: int) -> None:
    """DefinitionError unless all extents are positive integers."""
    for what, value in extents.items():
        if not is_int(value) or value < 1:
            raise DefinitionError(f"{where}: {what} must be a positive integer, got {value!r}")


def per_axis(where: str, what: str, value: int | Sequence[int], axes: int, least: int) -> tuple[int, ...]:
    """One integer of at least `least` for each of several axes, from a single one or as many."""
    found = (value,) * axes if is_int(value) else tuple(value) if isinstance(value, tuple | list) else ()
    if len(found) != axes or not all(is_int(one) and one >= least for one in found):
        raise DefinitionError(f"{where}: {what} must be 1 or {axes} integers from {least}, got {value!r}")
    return found


def product(a: te.Value, b: te.Value) -> te.Value:
    """The product of two elements in 32 bits."""
    return te.cast("int32", a) * te.cast("int32", b)


def defined(name: str, inputs: Sequence[te.Tensor], sums: te.Tensor, channels: int | None, dtype: str) -> Definition:
    """The definition of raw sums, or of sums requantised with a scale along the axis `channels`."""
    if channels is None:
        return Definition(name, tuple(inputs), sums)
    scale, output = requantised(sums, channels, dtype)
    return Definition(name, (*inputs, scale), output)


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
    """(scale, result): sums in the type of activations, clipped to `bounds`; `lane` is the element
    of a scale of `shape` for the index of a sum.
    """
    low, high = bounds or (int(limit) for limit in limits(dtype))
    scale = te.placeholder(tuple(shape), "int64", "scale")

    def value(*i: te.Value) -> te.Value:
        return requantisation(sums[i], scale[lane(i)], zero_point, low, high, dtype)

    return scale, te.compute(sums.shape, value, "result")
