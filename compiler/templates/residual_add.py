"""Residual addition: integer multiples of two activations, added and requantised once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.compiler import te
from vdla.compiler.operators.definitions import residual_addition
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
    _check_factors(name, factors)
    add = _ResidualAdd(
        config=config,
        name=name,
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
        results=Results(
            config=config,
            name=name,
            activation=activation,
            floor=floor,
            ceiling=ceiling,
            zero_point=zero_point,
            raw=raw,
        ),
        factors=factors,
        zero_points=input_zero_points,
    )
    add.check()
    check_threads(name, virtual_threads)
    return tiled_template(add, add.form(add.sums()), virtual_threads, tiling, 2 * add.steps)


def _check_factors(name: str, factors: object) -> None:
    pair = factors if isinstance(factors, tuple) and len(factors) == 2 else (None, None)
    if not all(is_int(f) and abs(f) <= MAX_FACTOR for f in pair):
        raise TemplateError(f"{name}: factors must be two integers from -{MAX_FACTOR} to {MAX_FACTOR}, got {factors}")


@dataclass(frozen=True)
class _ResidualAdd(ChannelwiseWindow):
    """An addition of integer multiples, with windows of one pixel."""

    factors: tuple[int, int] = (1, 1)
    zero_points: tuple[int, ...] = (0, 0)

    def check(self) -> None:
        """Also reject zero points out of range."""
        ChannelwiseWindow.check(self)
        if not isinstance(self.zero_points, tuple) or len(self.zero_points) != 2:
            raise TemplateError(f"{self.name}: input_zero_points must be two integers, got {self.zero_points}")
        for zero in self.zero_points:
            check_range(f"{self.name}: input_zero_points", zero, self.config.inp_dtype)
        if self.results.raw and any(self.zero_points):
            raise TemplateError(f"{self.name}: input_zero_points must be 0 for raw sums, got {self.zero_points}")

    def sums(self) -> te.Tensor:
        """The plain sums; the zero points are in the bias."""
        return residual_addition(
            batch=self.batch,
            channels=self.in_channels,
            size=(self.height, self.width),
            factors=self.factors,
            dtype=self.config.inp_dtype,
        ).output

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        return super().layouts | {OTHER: super().layouts[DATA]}

    def pack(
        self, data: Array, other: Array, bias: Array | None = None, multiplier: Factors = None
    ) -> dict[str, Array]:
        """The program's arrays from two NCHW activations; by default, sums are only clipped."""
        return self.pack_inputs(data, other) | self.pack_constants(bias, multiplier)

    def pack_inputs(self, data: Array | None = None, other: Array | None = None) -> dict[str, Array]:
        """The program's arrays from NCHW activations, those that are given."""
        given = {"data": data, "other": other}
        return {name: self.pack_data(name, array) for name, array in given.items() if array is not None}

    def pack_constants(self, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's scale; without a multiplier, sums are only clipped."""
        if multiplier is None and not self.results.raw:
            multiplier = 1.0
        offset = -sum(m * z for m, z in zip(self.factors, self.zero_points, strict=True))
        return self.results.pack(self.in_channels, bias, multiplier, np.full(self.in_channels, offset))
