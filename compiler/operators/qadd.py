# SPDX-License-Identifier: Apache-2.0
"""Quantised addition: an integer pair of factors, one exact sum, one requantisation.

The factors are the ratio of the scales of the operands as a fraction; the scale has the remaining
factor: scale = a_scale / a_factor / y_scale = b_scale / b_factor / y_scale.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.checks import OperatorError, integer, number, same_shape, shape_text
from vdla.compiler.operators.quantisation import check_clip, check_quantised, check_zero_point, requantise
from vdla.compiler.operators.results import result_name

_LARGEST_FACTOR = 32767


def qadd(
    a: te.Tensor,
    b: te.Tensor,
    factors: tuple[int, int],
    scale: float,
    a_zero_point: int = 0,
    b_zero_point: int = 0,
    y_zero_point: int = 0,
    dtype: str = "uint8",
    clip: tuple[int, int] | None = None,
    name: str | None = None,
) -> te.Tensor:
    """(a - a_zero_point) * factors[0] + (b - b_zero_point) * factors[1], times `scale`, as `dtype`.

    Operands are uint8 or int8 tensors of one shape, in any layout. `scale` is rounded to float32;
    results lie within `clip`. Factors have at most 15 bits, so that float32 holds the sum exactly.
    """
    where = name or "qadd"
    for what, tensor, zero in (("a", a, a_zero_point), ("b", b, b_zero_point)):
        check_quantised(where, what, tensor)
        check_zero_point(where, f"{what}_zero_point", zero, tensor.dtype)
    if not same_shape(a.shape, b.shape):
        raise OperatorError(f"{where}: b must be of shape {shape_text(a.shape)}, as a, got {shape_text(b.shape)}")
    first, second = (integer(where, "every factor", factor) for factor in factors)
    if max(abs(first), abs(second)) > _LARGEST_FACTOR:
        rule = f"factors must be at most {_LARGEST_FACTOR} in magnitude"
        raise OperatorError(f"{where}: {rule}, got {first} and {second}")
    check_zero_point(where, "y_zero_point", y_zero_point, dtype)
    check_clip(where, clip, dtype)
    factor = te.const(float(number(where, "scale", scale)), "float32")
    largest = 255 * (abs(first) + abs(second))

    def value(*i: te.Value) -> te.Value:
        term = (te.cast("int32", a[i]) - a_zero_point) * first
        total = term + (te.cast("int32", b[i]) - b_zero_point) * second
        return requantise(total, factor, y_zero_point, dtype, largest, clip)

    return te.compute(a.shape, value, result_name(a, "qadd", name))
