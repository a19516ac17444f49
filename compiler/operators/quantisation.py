# SPDX-License-Identifier: Apache-2.0
"""Affine quantisation: q represents (q - zero_point) * scale. Sums of products are int32.

Requantisation matches the machine (`hardware/numerics.py`): the exact product of the sum and a
float32 scale, rounded half to even, plus the zero point, saturated. A scale of int64 is a packed
factor in fixed point instead (`hardware/fixed_point.py`), whose product is rounded as TensorFlow
Lite does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.ir import limits
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    check_choice,
    check_rank,
    check_tensor,
    integer,
    same_shape,
    shape_text,
    static_extent,
)

QUANTISED = ("uint8", "int8")
_EXACT_IN_FLOAT32 = 2**24  # integers up to this magnitude are exact


def requantise(
    total: te.Value,
    scale: te.Value,
    zero_point: int,
    dtype: str,
    largest_sum: int | None = None,
    clip: tuple[int, int] | None = None,
) -> te.Value:
    """An int32 sum as `dtype`, within `clip` as well; `largest_sum` bounds the sum's magnitude.

    A float64 holds the product of a 24-bit scale and a sum below 2**29 exactly; with a greater sum
    it may be rounded to a tie. Sums up to 2**24 are exact in float32, so that products are rounded
    once.
    """
    if scale.dtype == "int64":
        low, high = limits(dtype) if clip is None else clip
        return te.cast(dtype, te.clip(scale_fixed_point(total, scale) + zero_point, int(low), int(high)))
    if largest_sum is not None and largest_sum <= _EXACT_IN_FLOAT32:
        low, high = limits(dtype) if clip is None else clip
        bounds = float(low - zero_point), float(high - zero_point)
        return te.cast(dtype, te.round_product(te.cast("float32", total), scale, *bounds) + zero_point)
    rounded = te.round(te.cast("float64", total) * te.cast("float64", scale))
    result = te.cast(dtype, rounded + float(zero_point))
    return result if clip is None else te.clip(result, *clip)


def scale_fixed_point(total: te.Value, scale: te.Value) -> te.Value:
    """An int32 sum times a packed fixed-point factor, as int64; rounded half up, then half away
    from zero.
    """
    multiplier, left, right, first = scale & 0x7FFF_FFFF, (scale >> 32) & 0xFF, (scale >> 40) & 0xFF, scale >> 48
    one = te.const(1, "int64")
    high = ((te.cast("int64", total) << left) * multiplier + (one << (first + 30))) >> (first + 31)
    half = (one << right) >> 1
    below_zero = (high >> 63) & te.minimum(right, 1)
    return (high + half - below_zero) >> right


def convert_activation(value: te.Value, dtype: str) -> te.Value:
    """A uint8 or int8 activation plus `activation_shift`, as `dtype`."""
    shift = activation_shift(value.dtype, dtype)
    return te.cast(dtype, te.cast("int32", value) + shift if shift else value)


def activation_shift(source: str, dtype: str) -> int:
    """The constant that maps the range of `source` to that of `dtype`: 128, -128 or 0."""
    return int(limits(dtype)[0] - limits(source)[0]) if dtype in QUANTISED else 0


# --- checks ---------------------------------------------------------------------------------------


def check_zero_point(where: str, what: str, zero_point: object, dtype: str) -> int:
    """A zero point, an integer in the range of its dtype."""
    checked = integer(where, what, zero_point)
    low, high = limits(dtype)
    if not low <= checked <= high:
        raise OperatorError(f"{where}: {what} must be in {low}..{high} for {dtype}, got {checked}")
    return checked


def check_clip(where: str, clip: tuple[int, int] | None, dtype: str) -> None:
    """Refuse a range of results that is empty or outside of `dtype`; None passes."""
    if clip is None:
        return
    low, high = (integer(where, "every limit of clip", limit) for limit in clip)
    least, most = limits(dtype)
    if not least <= low <= high <= most:
        raise OperatorError(f"{where}: clip must be a range within {least}..{most} for {dtype}, got {low}..{high}")


def check_quantised(where: str, what: str, tensor: te.Tensor) -> None:
    """Refuse a tensor of another dtype than uint8 and int8."""
    check_tensor(where, what, tensor)
    check_choice(where, f"the dtype of {what}", tensor.dtype, QUANTISED)


def check_vector(where: str, what: str, tensor: te.Tensor, extent: int, dtype: str) -> None:
    """Refuse anything but one number of `dtype` for each of `extent` channels."""
    check_tensor(where, what, tensor)
    if not same_shape(tensor.shape, (extent,)) or tensor.dtype != dtype:
        rule = f"{what} must be {dtype}[{extent}], one number a channel"
        raise OperatorError(f"{where}: {rule}, got {_type_text(tensor)}")


@dataclass(frozen=True, slots=True)
class Requantisation:
    """The requantisation of int32 sums: the arguments of `requantise`, with one scale for each
    channel.

    A `bias` is added first.
    """

    scale: te.Tensor
    zero_point: int
    dtype: str
    largest_sum: int | None
    clip: tuple[int, int] | None
    bias: te.Tensor | None = None

    def result(self, total: te.Value, channel: te.Value) -> te.Value:
        """The result of a sum."""
        biased = total if self.bias is None else total + self.bias[channel]
        return requantise(biased, self.scale[channel], self.zero_point, self.dtype, self.largest_sum, self.clip)

    def results(
        self, total: te.Tensor, channel: Callable[..., te.Value], name: str, stage: Mapping[str, str] | None = None
    ) -> te.Tensor:
        """The results of a tensor of sums; `channel` maps an index to its channel."""
        return te.compute(total.shape, lambda *i: self.result(total[i], channel(*i)), name, stage)


def check_requantisation(where: str, bias: te.Tensor, channels: int, requantisation: Requantisation) -> None:
    """Refuse a bias, scale, zero point, clip or result dtype that `requantise` cannot use."""
    check_vector(where, "bias", bias, channels, "int32")
    is_fixed = requantisation.scale.dtype == "int64"
    check_vector(where, "scale", requantisation.scale, channels, "int64" if is_fixed else "float32")
    check_choice(where, "dtype", requantisation.dtype, QUANTISED)
    check_zero_point(where, "y_zero_point", requantisation.zero_point, requantisation.dtype)
    check_clip(where, requantisation.clip, requantisation.dtype)


# --- packed weights -------------------------------------------------------------------------------


def packed_extents(where: str, weight: te.Tensor, rank: int) -> tuple[int, ...]:
    """The extents of a packed weight."""
    check_rank(where, "weight", weight, rank, rank)
    return tuple(static_extent(where, f"extent {d} of weight", extent) for d, extent in enumerate(weight.shape))


def packing_error(where: str, weight: te.Tensor, wanted: str, packer: str) -> OperatorError:
    """The error for a weight that `packer` did not make."""
    return OperatorError(f"{where}: weight must be {wanted}, got {_type_text(weight)}; {packer} packs it for a target")


def output_count(where: str, what: str, count: object, packed: int) -> int:
    """The outputs of an operator: `count`, by default all `packed` outputs of its weight."""
    outputs = packed if count is None else at_least(where, what, count, 1)
    if outputs > packed:
        raise OperatorError(f"{where}: {what} must be at most {packed}, those of weight, got {outputs}")
    return outputs


def _type_text(tensor: te.Tensor) -> str:
    """The dtype and the shape of a tensor as text."""
    return f"{tensor.dtype}{shape_text(tensor.shape)}"
