"""Residual addition: two activations of different scales, added and requantised once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics import vector
from vdla.compiler.operators.vdla.channelwise_window import ChannelwiseWindow
from vdla.compiler.operators.vdla.layouts import Layout
from vdla.compiler.operators.vdla.operator import Array, Operator, TemplateError, template
from vdla.compiler.operators.vdla.packing import check_range
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import DATA, SUMS, Role
from vdla.compiler.operators.vdla.schedule import schedule_tiles
from vdla.compiler.operators.vdla.sliding_window import check_threads
from vdla.compiler.operators.vdla.tiling import choose_tiling
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.hardware.config import Config
from vdla.hardware.isa import Operand

_FACTOR_BITS = 14
_OTHER = Role("other")
_FIRST, _SECOND, _PRODUCT = Role("first_window"), Role("second_window"), Role("product")


@template
def residual_add(
    config: Config,
    *,
    batch: int,
    height: int,
    width: int,
    channels: int,
    factors: tuple[float, float] = (1.0, 1.0),
    input_zero_points: tuple[int, int] = (0, 0),
    activation: str = "none",
    ceiling: int | None = None,
    zero_point: int = 0,
    raw: bool = False,
    virtual_threads: int = 2,
    tiling: Tiling | None = None,
    name: str = "residual_add",
) -> Operator:
    """factors[0] * data + factors[1] * other, requantised.

    Each factor is the scale of an input over that of the result; they become integers of up to
    _FACTOR_BITS bits over a common power of two. With `raw`, the result is the int32 sum of the
    integer products.

    Raises:
        TemplateError: an extent, factor or zero point is out of range, or no tile fits the buffers.
    """
    integers, shift = _integer_factors(name, factors)
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
            ceiling=ceiling,
            zero_point=zero_point,
            raw=raw,
        ),
        integers=integers,
        shift=shift,
        zero_points=input_zero_points,
    )
    add.check()
    check_threads(name, virtual_threads)
    problem = add.problem(inputs=2)
    chosen = choose_tiling(config, problem, virtual_threads, tiling, name)
    fn = schedule_tiles(
        config, add.expression(), problem, chosen, vector.mac_in_place(config, Operand.IMM, add.source), name,
        windows={_FIRST: add.load(), _SECOND: add.load()},
        before={_PRODUCT: vector.product(config, Operand.IMM, add.source)},
    )  # fmt: skip
    return Operator(
        name=name,
        config=config,
        function=fn,
        macs=2 * add.steps,
        pack=add.pack,
        unpack=add.unpack,
        layouts=add.layouts,
        description=str(chosen),
    )


def _is_pair(values: object) -> bool:
    """Whether the value is a pair of real numbers."""
    return isinstance(values, tuple | list) and len(values) == 2 and all(isinstance(v, int | float) for v in values)


def _integer_factors(name: str, factors: tuple[float, float]) -> tuple[tuple[int, int], int]:
    """The factors as integers over 2**shift, the larger of _FACTOR_BITS bits, and the shift."""
    if not _is_pair(factors) or not all(np.isfinite(f) and f > 0 for f in factors):
        raise TemplateError(f"{name}: factors must be two positive numbers, got {factors}")
    shift = _FACTOR_BITS - int(np.ceil(np.log2(max(factors)))) - 1
    if not 0 <= shift <= 30:
        raise TemplateError(f"{name}: the larger factor must be from 2**-17 to 2**13, got {max(factors)}")
    low, high = (int(np.floor(f * 2.0**shift + 0.5)) for f in factors)
    return (low, high), shift


@dataclass(frozen=True)
class _ResidualAdd(ChannelwiseWindow):
    """An addition of integer multiples, with windows of one pixel."""

    integers: tuple[int, int] = (1, 1)
    shift: int = 0
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

    def expression(self) -> list[te.Tensor]:
        """[data, other, (scale,) output] as tensor expressions."""
        data, other = self.data(), self.data(_OTHER)
        first, second = self.padded_image(data, _FIRST), self.padded_image(other, _SECOND)
        product = te.compute(
            self.results_shape,
            lambda fn, fc, fy, fx, fb, fo: te.cast("int32", first[fn, fc, fy, fx, fb, fo]) * self.integers[0],
            _PRODUCT,
        )
        sums = te.compute(
            self.results_shape,
            lambda n, co, y, x, b, o: (
                product[n, co, y, x, b, o] + te.cast("int32", second[n, co, y, x, b, o]) * self.integers[1]
            ),
            SUMS,
        )
        return [data, other, *self.results.tensors(sums)]

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        return super().layouts | {_OTHER: super().layouts[DATA]}

    def pack(self, data: Array, other: Array) -> dict[str, Array]:
        """The program's arrays from two NCHW activations."""
        packed = {"data": self.pack_data("data", data), "other": self.pack_data("other", other)}
        if self.results.raw:
            return packed
        offset = -sum(m * z for m, z in zip(self.integers, self.zero_points, strict=True))
        channels = self.in_channels
        return packed | self.results.pack(channels, None, 2.0**-self.shift, np.full(channels, offset))
