"""Residual addition: integer multiples of two activations, added and requantised once."""

from __future__ import annotations

from vdla.compiler.operators.definitions import residual_addition
from vdla.compiler.operators.vdla.operator import Operator, TemplateError, template
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.elementwise_form import (
    check_factor_pair,
    check_zero_points,
    checked_activations,
    elementwise_operator,
)
from vdla.hardware.config import Config
from vdla.hardware.factors import MAX_FACTOR


@template
def residual_add(
    config: Config,
    *,
    batch: int,
    height: int,
    width: int,
    channels: int,
    factors: tuple[int, int] = (1, 1),
    input_zero_points: tuple[int, int] = (0, 0),
    activation: str = "none",
    floor: int | None = None,
    ceiling: int | None = None,
    zero_point: int = 0,
    raw: bool = False,
    virtual_threads: int = 2,
    tiling: Tiling | None = None,
    name: str = "residual_add",
) -> Operator:
    """factors[0] * data + factors[1] * other, requantised.

    `residual_factors` gives the factors and the multiplier of three scales; a negative factor
    subtracts. With `raw`, the result is the int32 sum.

    Raises:
        TemplateError: an extent, factor or zero point is out of range, or no tile fits the buffers.
    """
    check_factor_pair(name, factors, -MAX_FACTOR)
    results = Results(
        config=config, name=name, activation=activation, floor=floor, ceiling=ceiling, zero_point=zero_point, raw=raw
    )
    shape = checked_activations(results, batch, height, width, channels)
    if not isinstance(input_zero_points, tuple) or len(input_zero_points) != 2:
        raise TemplateError(f"{name}: input_zero_points must be two integers, got {input_zero_points}")
    check_zero_points(results, "input_zero_points", input_zero_points)
    if raw and any(input_zero_points):
        raise TemplateError(f"{name}: input_zero_points must be 0 for raw sums, got {input_zero_points}")
    offset = -sum(factor * zero for factor, zero in zip(factors, input_zero_points, strict=True))
    sums = residual_addition(factors=factors, **shape)
    return elementwise_operator(results, sums, 2, offset, virtual_threads, tiling)
