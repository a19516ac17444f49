"""Quantised numbers: q stands for (q - zero_point) * scale. Sums of products stay int32; results are rescaled.

Rescaling follows ONNX's QLinear operators: the sum as float32 times a float32 scale, rounded half to even, plus the
zero point, saturated.
"""

from __future__ import annotations

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


def requantised(total: te.Value, scale: te.Value, zero_point: int, dtype: str) -> te.Value:
    """An int32 sum as `dtype`; the cast of a float saturates."""
    rounded = te.round(te.cast("float32", total) * scale)
    return te.cast(dtype, rounded + float(zero_point))


def shifted(value: te.Value, dtype: str) -> te.Value:
    """A uint8 or int8 as `dtype`, moved by `shift_of`."""
    shift = shift_of(value.dtype, dtype)
    return te.cast(dtype, te.cast("int32", value) + shift if shift else value)


def shift_of(source: str, dtype: str) -> int:
    """What is added to an activation of dtype `source` so that it fits `dtype`: 128, -128 or 0."""
    return int(limits(dtype)[0] - limits(source)[0]) if dtype in QUANTISED else 0


# --- checks ----------------------------------------------------------------------------------------------------------


def check_zero_point(where: str, what: str, zero_point: object, dtype: str) -> int:
    """A zero point: an integer in the range of its dtype."""
    checked = integer(where, what, zero_point)
    low, high = limits(dtype)
    if not low <= checked <= high:
        raise OperatorError(f"{where}: {what} must be in {low}..{high} for {dtype}, got {checked}")
    return checked


def check_quantised(where: str, what: str, tensor: te.Tensor) -> None:
    """Refuse a tensor that is not of 8-bit integers."""
    check_tensor(where, what, tensor)
    check_choice(where, f"the dtype of {what}", tensor.dtype, QUANTISED)


def check_vector(where: str, what: str, tensor: te.Tensor, extent: int, dtype: str) -> None:
    """Refuse what is not one number of `dtype` for each of `extent` channels."""
    check_tensor(where, what, tensor)
    if not same_shape(tensor.shape, (extent,)) or tensor.dtype != dtype:
        rule = f"{what} must be {dtype}[{extent}], one number a channel"
        raise OperatorError(f"{where}: {rule}, got {kind_of(tensor)}")


def check_rescaling(
    where: str, bias: te.Tensor, scale: te.Tensor, channels: int, zero_point: object, dtype: str
) -> None:
    """Refuse a bias, scale, zero point or dtype of the result that `requantised` cannot use."""
    check_vector(where, "bias", bias, channels, "int32")
    check_vector(where, "scale", scale, channels, "float32")
    check_choice(where, "dtype", dtype, QUANTISED)
    check_zero_point(where, "y_zero_point", zero_point, dtype)


# --- packed weights --------------------------------------------------------------------------------------------------


def packed_shape(where: str, weight: te.Tensor, rank: int) -> tuple[int, ...]:
    """The extents of packed weights."""
    check_rank(where, "weight", weight, rank, rank)
    return tuple(static_extent(where, f"extent {d} of weight", extent) for d, extent in enumerate(weight.shape))


def not_packed(where: str, weight: te.Tensor, wanted: str, packer: str) -> OperatorError:
    """The error for weights that are not laid out as `packer` does."""
    return OperatorError(f"{where}: weight must be {wanted}, got {kind_of(weight)}; {packer} packs it for a target")


def kept_outputs(where: str, what: str, kept: object, packed: int) -> int:
    """How many of the packed outputs an operator keeps: all of them where `kept` is None."""
    outputs = packed if kept is None else at_least(where, what, kept, 1)
    if outputs > packed:
        raise OperatorError(f"{where}: {what} must be at most {packed}, those of the weights, got {outputs}")
    return outputs


def kind_of(tensor: te.Tensor) -> str:
    """The dtype and the shape of a tensor as text."""
    return f"{tensor.dtype}{shape_text(tensor.shape)}"
