"""Passes over whole activations: another scale, extrema, leaky relu.

A term is an integer multiple of an input without its zero point.
"""

from __future__ import annotations

from vdla.compiler.operators import definitions
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

_EXTREMA = ("maximum", "minimum")


@template
def rescale(
    config: Config,
    *,
    batch: int,
    height: int,
    width: int,
    channels: int,
    input_zero_point: int = 0,
    activation: str = "none",
    floor: int | None = None,
    ceiling: int | None = None,
    zero_point: int = 0,
    virtual_threads: int = 2,
    tiling: Tiling | None = None,
    name: str = "rescale",
) -> Operator:
    """An activation in another scale and with another zero point, clipped to floor and ceiling.

    `pack` takes the scale of the input over that of the result, 1 by default.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """
    results = Results(
        config=config, name=name, activation=activation, floor=floor, ceiling=ceiling, zero_point=zero_point
    )
    shape = checked_activations(results, batch, height, width, channels)
    check_zero_points(results, "input_zero_point", (input_zero_point,))
    return elementwise_operator(results, definitions.rescaling(**shape), 1, -input_zero_point, virtual_threads, tiling)


@template
def leaky_relu(
    config: Config,
    *,
    batch: int,
    height: int,
    width: int,
    channels: int,
    factors: tuple[int, int],
    input_zero_point: int = 0,
    floor: int | None = None,
    ceiling: int | None = None,
    zero_point: int = 0,
    virtual_threads: int = 2,
    tiling: Tiling | None = None,
    name: str = "leaky_relu",
) -> Operator:
    """The greater one of factors[0] * x and factors[1] * x, requantised.

    `slope_factors` gives the factors and the multiplier of a slope and two scales.

    Raises:
        TemplateError: an extent, factor or zero point is out of range, or no tile fits the buffers.
    """
    check_factor_pair(name, factors, 0)
    results = Results(config=config, name=name, floor=floor, ceiling=ceiling, zero_point=zero_point)
    shape = checked_activations(results, batch, height, width, channels)
    check_zero_points(results, "input_zero_point", (input_zero_point,))
    terms = definitions.leaky_relu(factors=factors, zero_point=input_zero_point, **shape)
    return elementwise_operator(results, terms, 2, 0, virtual_threads, tiling)


@template
def extremum(
    config: Config,
    *,
    kind: str,
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
    virtual_threads: int = 2,
    tiling: Tiling | None = None,
    name: str = "",
) -> Operator:
    """The greater or the smaller one of factors[0] * data and factors[1] * other, requantised.

    `kind` is maximum or minimum; `residual_factors` gives the factors and the multiplier.

    Raises:
        TemplateError: an extent, factor or zero point is out of range, or no tile fits the buffers.
    """
    if kind not in _EXTREMA:
        raise TemplateError(f"{name or 'extremum'}: kind must be maximum or minimum, got {kind!r}")
    name = name or kind
    if not isinstance(input_zero_points, tuple) or len(input_zero_points) != 2:
        raise TemplateError(f"{name}: input_zero_points must be two integers, got {input_zero_points}")
    check_factor_pair(name, factors, 0)
    results = Results(
        config=config, name=name, activation=activation, floor=floor, ceiling=ceiling, zero_point=zero_point
    )
    shape = checked_activations(results, batch, height, width, channels)
    check_zero_points(results, "input_zero_point", input_zero_points)
    terms = definitions.extremum(kind=kind, factors=factors, zero_points=input_zero_points, **shape)
    return elementwise_operator(results, terms, 2, 0, virtual_threads, tiling)
