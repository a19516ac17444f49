"""Passes of the vector unit over whole activations: another scale, extrema, leaky relu.

A term is an integer multiple of an input without its zero point. One term is a rescaling; of two
terms, the operator takes the greater or the smaller one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.compiler import te
from vdla.compiler.operators import definitions
from vdla.compiler.operators.vdla.layouts import Layout
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, TemplateError, template
from vdla.compiler.operators.vdla.packing import check_range
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import DATA, OTHER
from vdla.compiler.operators.vdla.sliding_window import check_threads
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.channelwise_window import ChannelwiseWindow
from vdla.compiler.templates.mapped_template import tiled_template
from vdla.hardware.config import Config
from vdla.hardware.factors import MAX_FACTOR
from vdla.support.integers import is_int

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
    return _operator(results, (batch, channels, height, width), ((0, 1),), (input_zero_point,), virtual_threads, tiling)


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
    steep, flat = _checked_factors(name, factors)
    results = Results(config=config, name=name, floor=floor, ceiling=ceiling, zero_point=zero_point)
    terms = ((0, steep), (0, flat))
    return _operator(results, (batch, channels, height, width), terms, (input_zero_point,), virtual_threads, tiling)


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
    first, second = _checked_factors(name, factors)
    results = Results(
        config=config, name=name, activation=activation, floor=floor, ceiling=ceiling, zero_point=zero_point
    )
    terms, shape = ((0, first), (1, second)), (batch, channels, height, width)
    return _operator(results, shape, terms, input_zero_points, virtual_threads, tiling, kind)


def _checked_factors(name: str, factors: tuple[int, int]) -> tuple[int, int]:
    pair = isinstance(factors, tuple) and len(factors) == 2
    if not pair or not all(is_int(f) and 0 <= f <= MAX_FACTOR for f in factors):
        raise TemplateError(f"{name}: factors must be two integers from 0 to {MAX_FACTOR}, got {factors}")
    return factors


def _operator(
    results: Results,
    shape: tuple[int, int, int, int],
    terms: tuple[tuple[int, int], ...],
    zero_points: tuple[int, ...],
    threads: int,
    tiling: Tiling | None,
    kind: str = "maximum",
) -> Operator:
    """The operator for activations of a shape [N, C, H, W]."""
    batch, channels, height, width = shape
    passes = _Elementwise(
        config=results.config,
        name=results.name,
        batch=batch,
        height=height,
        width=width,
        in_channels=channels,
        out_channels=channels,
        kernel=(1, 1),
        strides=(1, 1),
        pads=(0, 0, 0, 0),
        dilations=(1, 1),
        input_zero_point=0,
        results=results,
        terms=terms,
        zero_points=zero_points,
        kind=kind,
    )
    passes.check()
    check_threads(results.name, threads)
    return passes.operator(threads, tiling)


@dataclass(frozen=True)
class _Elementwise(ChannelwiseWindow):
    """One or two terms, (input, factor) each, of as many inputs as there are zero points."""

    terms: tuple[tuple[int, int], ...] = ((0, 1),)
    zero_points: tuple[int, ...] = (0,)
    kind: str = "maximum"

    def check(self) -> None:
        """Also reject zero points out of range."""
        ChannelwiseWindow.check(self)
        for zero in self.zero_points:
            check_range(f"{self.name}: input_zero_point", zero, self.config.inp_dtype)

    def operator(self, threads: int, tiling: Tiling | None) -> Operator:
        """The operator."""
        return tiled_template(self, self.form(self._sums()), threads, tiling, self.steps * len(self.terms))

    def _sums(self) -> te.Tensor:
        """The plain terms, or the greater or the smaller one of two.

        The zero point of a single term is in the bias.
        """
        shape: dict[str, Any] = {"batch": self.batch, "channels": self.in_channels, "size": (self.height, self.width)}
        shape["dtype"] = self.config.inp_dtype
        if len(self.terms) == 1:
            return definitions.rescaling(**shape).output
        factors = [factor for _, factor in self.terms]
        if len(self.zero_points) == 1:
            return definitions.leaky_relu(**shape, factors=factors, zero_point=self.zero_points[0]).output
        return definitions.extremum(**shape, kind=self.kind, factors=factors, zero_points=self.zero_points).output

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        own = super().layouts
        return own | {OTHER: own[DATA]} if len(self.zero_points) > 1 else own

    @property
    def pack(self) -> Callable[..., dict[str, Array]]:
        """From one or two NCHW activations to the program's arrays."""
        return self.pack_one if len(self.zero_points) == 1 else self.pack_pair

    def pack_one(self, data: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from an NCHW activation; without a multiplier, sums are clipped."""
        return self.pack_inputs(data) | self.pack_constants(bias, multiplier)

    def pack_pair(
        self, data: Array, other: Array, bias: Array | None = None, multiplier: Factors = None
    ) -> dict[str, Array]:
        """The program's arrays from two NCHW activations."""
        return self.pack_inputs(data, other) | self.pack_constants(bias, multiplier)

    def pack_inputs(self, data: Array | None = None, other: Array | None = None) -> dict[str, Array]:
        """The program's arrays from NCHW activations, those that are given."""
        given = {"data": data, "other": other}
        return {name: self.pack_data(name, array) for name, array in given.items() if array is not None}

    def pack_constants(self, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's scale; without a multiplier, sums are only clipped."""
        offset = -self.zero_points[0] if len(self.terms) == 1 else 0
        factor = 1.0 if multiplier is None else multiplier
        return self.results.pack(self.in_channels, bias, factor, np.full(self.in_channels, offset))
