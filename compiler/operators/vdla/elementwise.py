"""Passes of the vector unit over whole activations: another scale, extrema, leaky relu.

A term is an integer multiple of an input without its zero point. One term is a rescaling; of two
terms, the operator takes the greater or the smaller one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics import vector
from vdla.compiler.operators.vdla.channelwise_window import ChannelwiseWindow
from vdla.compiler.operators.vdla.layouts import Layout
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, TemplateError, template
from vdla.compiler.operators.vdla.packing import check_range
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import DATA, OTHER, SUMS, Role
from vdla.compiler.operators.vdla.schedule import schedule_tiles
from vdla.compiler.operators.vdla.sliding_window import check_threads
from vdla.compiler.operators.vdla.tiling import choose_tiling
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.tensorize import Intrinsic
from vdla.hardware.config import Config
from vdla.hardware.factors import MAX_FACTOR
from vdla.hardware.isa import Operand, Source, VectorOp
from vdla.support.integers import is_int

_WINDOWS, _MOVED = (Role("first_window"), Role("second_window")), (Role("first"), Role("second"))
_CENTRED, _TERMS = (Role("first_centred"), Role("second_centred")), (Role("first_term"), Role("second_term"))
_EXTREMA = {"maximum": VectorOp.MAX, "minimum": VectorOp.MIN}


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
    return _operator(results, shape, terms, input_zero_points, virtual_threads, tiling, _EXTREMA[kind])


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
    op: VectorOp = VectorOp.MAX,
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
        op=op,
    )
    passes.check()
    check_threads(results.name, threads)
    return passes.operator(threads, tiling)


@dataclass(frozen=True)
class _Elementwise(ChannelwiseWindow):
    """One or two terms, (input, factor) each, of as many inputs as there are zero points."""

    terms: tuple[tuple[int, int], ...] = ((0, 1),)
    zero_points: tuple[int, ...] = (0,)
    op: VectorOp = VectorOp.MAX

    def check(self) -> None:
        """Also reject zero points out of range."""
        ChannelwiseWindow.check(self)
        for zero in self.zero_points:
            check_range(f"{self.name}: input_zero_point", zero, self.config.inp_dtype)

    def operator(self, threads: int, tiling: Tiling | None) -> Operator:
        """The operator."""
        tensors, before = self._stages()
        problem = self.problem(inputs=len(self.zero_points), sums=self._sums)
        chosen = choose_tiling(self.config, problem, threads, tiling, self.name)
        windows = {_WINDOWS[k]: self.load() for k in range(len(self.zero_points))}
        fn = schedule_tiles(self.config, tensors, problem, chosen, self._core, self.name, windows, before)
        return Operator(
            name=self.name,
            config=self.config,
            function=fn,
            macs=self.steps * len(self.terms),
            pack=self.pack if len(self.zero_points) == 1 else self.pack_pair,
            pack_inputs=self.pack_inputs,
            pack_constants=self.pack_constants,
            unpack=self.unpack,
            layouts=self.layouts,
            problem=problem,
            description=str(chosen),
        )

    @property
    def _sums(self) -> int:
        """Accumulator entries for each result: one a term, and one for an input that both read."""
        shared = len(self.terms) > len(self.zero_points) and self.zero_points[0] != 0
        return len(self.terms) + shared

    @property
    def _core(self) -> Intrinsic:
        """What computes the sums."""
        if len(self.terms) == 1:
            return vector.move(self.config, Operand.SRC, self.source)
        return vector.in_place(self.config, self.op, Operand.SRC, Source.ACC)

    def _stages(self) -> tuple[list[te.Tensor], dict[Role, Intrinsic]]:
        """[data, (other, scale,) output] as tensor expressions, and the stages before the sums."""
        inputs = [self.data(role) for role in (DATA, OTHER)[: len(self.zero_points)]]
        windows = [self.padded_image(data, role) for data, role in zip(inputs, _WINDOWS, strict=False)]
        shape, before = self.results_shape, dict[Role, Intrinsic]()
        if len(self.terms) == 1:
            sums = te.compute(shape, lambda n, co, y, x, b, o: te.cast("int32", windows[0][n, co, y, x, b, o]), SUMS)
            return [*inputs, *self.results.tensors(sums)], before
        sources = [self._centred(k, window, before) for k, window in enumerate(windows)]
        terms = []
        for role, (k, factor) in zip(_TERMS, self.terms, strict=True):
            tensor, source = sources[k]
            alone = source is Source.ACC and self.zero_points[k] != 0 and len(self.zero_points) > 1
            before[role] = self._multiplication(source, in_place=alone)
            terms.append(te.compute(shape, lambda *i, x=tensor, f=factor: te.cast("int32", x[i]) * f, role))
        choose = te.maximum if self.op is VectorOp.MAX else te.minimum
        first, second = terms
        sums = te.compute(
            shape, lambda n, co, y, x, b, o: choose(first[n, co, y, x, b, o], second[n, co, y, x, b, o]), SUMS
        )
        return [*inputs, *self.results.tensors(sums)], before

    def _multiplication(self, source: Source, in_place: bool) -> Intrinsic:
        """A product with an immediate; in place, where nothing else reads the centred input."""
        if in_place:
            return vector.in_place(self.config, VectorOp.MUL, Operand.IMM)
        return vector.product(self.config, Operand.IMM, source)

    def _centred(self, k: int, window: te.Tensor, before: dict[Role, Intrinsic]) -> tuple[te.Tensor, Source]:
        """Input k without its zero point, and the buffer that holds it."""
        zero, shape = self.zero_points[k], self.results_shape
        if zero == 0:
            return window, self.source
        before[_MOVED[k]] = vector.move(self.config, Operand.SRC, self.source)
        before[_CENTRED[k]] = vector.in_place(self.config, VectorOp.ADD, Operand.IMM)
        moved = te.compute(shape, lambda *i: te.cast("int32", window[i]), _MOVED[k])
        return te.compute(shape, lambda *i: moved[i] + -zero, _CENTRED[k]), Source.ACC

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        own = super().layouts
        return own | {OTHER: own[DATA]} if len(self.zero_points) > 1 else own

    def pack(self, data: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
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
