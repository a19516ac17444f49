# SPDX-License-Identifier: Apache-2.0
"""Passes over whole activations: another scale, sums, extrema, leaky relu.

A term is an integer multiple of an input without its zero point. The zero point of a single term,
and those of a sum, are in the bias.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, ClassVar

import numpy as np

from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import Definition
from vdla.compiler.operators.vdla.operator import Array, Factors, Layout, Operator, TemplateError, choice, template
from vdla.compiler.operators.vdla.roles import DATA, SECOND
from vdla.compiler.templates.checks import Pair, check_extents, check_flag, check_range
from vdla.compiler.templates.template import Template
from vdla.compiler.templates.window import channelwise_form, channelwise_layouts
from vdla.hardware.factors import MAX_FACTOR
from vdla.support.integers import is_int


@dataclass(frozen=True, kw_only=True)
class ElementwiseTemplate(Template):
    """A definition of raw sums of one activation, to which a bias adds `offset`."""

    batch: int
    height: int
    width: int
    channels: int
    factors: Pair = field(default=(1, 1), init=False)
    raw: bool = field(default=False, init=False)
    terms: ClassVar[int] = 1
    least_factor: ClassVar[int] = 0

    def check(self) -> None:
        """Also reject extents and factors out of range."""
        pair = self.factors if isinstance(self.factors, tuple) and len(self.factors) == 2 else (None, None)
        if not all(is_int(f) and self.least_factor <= f <= MAX_FACTOR for f in pair):
            rule = f"factors must be two integers from {self.least_factor} to {MAX_FACTOR}"
            raise TemplateError(f"{self.name}: {rule}, got {self.factors}")
        check_extents(self.name, batch=self.batch, height=self.height, width=self.width, channels=self.channels)
        super().check()

    @property
    def plain(self) -> dict[str, Any]:
        """The extents and the type of activations, as definitions take them."""
        size = (self.height, self.width)
        return {"batch": self.batch, "channels": self.channels, "size": size, "dtype": self.config.inp_dtype}

    @property
    @abstractmethod
    def definition(self) -> Definition:
        """The raw sums."""

    @property
    def offset(self) -> int:
        """What the bias adds to each sum."""
        return 0

    @property
    def macs(self) -> int:
        """Terms of all results."""
        return self.terms * prod(self.definition.output.shape)

    @cached_property
    def packed(self) -> UntiledForm:
        """The program's form."""
        return channelwise_form(self.config, self.result(self.definition.output))

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        return channelwise_layouts(self)

    def pack_inputs(self, data: Array) -> dict[str, Array]:
        """The program's array from an NCHW activation."""
        return self.packed_arrays(data=data)

    def pack_constants(self, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's scale; without a multiplier, sums are only clipped."""
        multiplier = 1.0 if multiplier is None and not self.raw else multiplier
        return self.packed_scale(bias, multiplier, np.full(self.channels, self.offset))


@dataclass(frozen=True, kw_only=True)
class Rescale(ElementwiseTemplate):
    """An activation in another scale and with another zero point, clipped to floor and ceiling.

    `pack` takes the scale of the input over that of the result, 1 by default.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """

    name: str = "rescale"

    @cached_property
    def definition(self) -> Definition:
        """The activation in 32 bits."""
        return definitions.rescaling(**self.plain)

    @property
    def offset(self) -> int:
        """What the bias adds to each sum."""
        return -self.input_zero_point


@dataclass(frozen=True, kw_only=True)
class LeakyRelu(ElementwiseTemplate):
    """The greater one of factors[0] * x and factors[1] * x, requantised.

    `slope_factors` gives the factors and the multiplier of a slope and two scales.

    Raises:
        TemplateError: an extent, factor or zero point is out of range, or no tile fits the buffers.
    """

    factors: Pair
    activation: str = field(default="none", init=False)
    name: str = "leaky_relu"
    terms: ClassVar[int] = 2

    @cached_property
    def definition(self) -> Definition:
        """The greater term."""
        return definitions.leaky_relu(factors=self.factors, zero_point=self.input_zero_point, **self.plain)


@dataclass(frozen=True, kw_only=True)
class PairTemplate(ElementwiseTemplate):
    """An operator on two activations."""

    factors: Pair = (1, 1)
    input_zero_points: Pair = (0, 0)
    input_zero_point: int = field(default=0, init=False)
    terms: ClassVar[int] = 2
    zero_point_name: ClassVar[str] = "input_zero_points"

    def check(self) -> None:
        """Also reject zero points out of range."""
        super().check()
        zeros = self.input_zero_points
        if not isinstance(zeros, tuple) or len(zeros) != 2:
            raise TemplateError(f"{self.name}: input_zero_points must be two integers, got {zeros}")
        for zero in zeros:
            check_range(f"{self.name}: {self.zero_point_name}", zero, self.config.inp_dtype)
        if self.raw and any(zeros):
            raise TemplateError(f"{self.name}: input_zero_points must be 0 for raw sums, got {zeros}")

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        layouts = super().layouts
        return layouts | {SECOND: layouts[DATA]}

    def pack_inputs(self, data: Array | None = None, other: Array | None = None) -> dict[str, Array]:
        """The program's arrays from NCHW activations, those that are given."""
        return self.packed_arrays(data=data, other=other)


@dataclass(frozen=True, kw_only=True)
class Extremum(PairTemplate):
    """The greater or the smaller one of factors[0] * data and factors[1] * other, requantised.

    `kind` is maximum or minimum; `residual_factors` gives the factors and the multiplier.

    Raises:
        TemplateError: an extent, factor or zero point is out of range, or no tile fits the buffers.
    """

    kind: str = choice("maximum", "minimum")
    zero_point_name: ClassVar[str] = "input_zero_point"

    def operator(self) -> Operator:
        """The operator of checked options, called by its kind unless it has a name."""
        return super(Extremum, self if self.name else replace(self, name=self.kind)).operator()

    @cached_property
    def definition(self) -> Definition:
        """The extremum of both terms."""
        zeros = self.input_zero_points
        return definitions.extremum(kind=self.kind, factors=self.factors, zero_points=zeros, **self.plain)


@dataclass(frozen=True, kw_only=True)
class ResidualAdd(PairTemplate):
    """factors[0] * data + factors[1] * other, requantised.

    `residual_factors` gives the factors and the multiplier of three scales; a negative factor
    subtracts. With `raw`, the result is the int32 sum.

    Raises:
        TemplateError: an extent, factor or zero point is out of range, or no tile fits the buffers.
    """

    raw: bool = False
    name: str = "residual_add"
    least_factor: ClassVar[int] = -MAX_FACTOR

    @cached_property
    def definition(self) -> Definition:
        """The sum of both terms."""
        return definitions.residual_addition(factors=self.factors, **self.plain)

    @property
    def offset(self) -> int:
        """What the bias adds to each sum."""
        return -sum(factor * zero for factor, zero in zip(self.factors, self.input_zero_points, strict=True))


@dataclass(frozen=True, kw_only=True)
class FactorProduct(PairTemplate):
    """data * other, requantised; `by_channel`, the other operand has one pixel, a factor for each
    channel.

    `pack` takes the product of both scales over that of the result.

    Raises:
        TemplateError: an extent or zero point is out of range, or no tile fits the buffers.
    """

    factors: Pair = field(default=(1, 1), init=False)
    raw: bool = False
    by_channel: bool = False
    name: str = "scaling"

    def check(self) -> None:
        """Also reject a `by_channel` that is not a truth value."""
        check_flag(self.name, "by_channel", self.by_channel)
        super().check()

    @cached_property
    def definition(self) -> Definition:
        """The product."""
        zeros = self.input_zero_points
        return definitions.scaling(by_channel=self.by_channel, zero_points=zeros, **self.plain)


rescale = template("rescale", Rescale)
leaky_relu = template("leaky_relu", LeakyRelu)
extremum = template("extremum", Extremum)
residual_add = template("residual_add", ResidualAdd)
scaling = template("scaling", FactorProduct)
