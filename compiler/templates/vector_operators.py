"""Operators of the vector unit: depthwise convolution, pooling, residual addition; a channel's results need only it.

Activations are packed in blocks of block_out, the width of the vector unit. They are read from the input buffer where
its entries divide a vector, else through the accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.compiler import te
from vdla.compiler.intrinsic import Intrinsic
from vdla.compiler.intrinsics import dma, vector
from vdla.compiler.templates.conv2d import Pair, _pair, finished
from vdla.compiler.templates.operator import Array, Operator, TemplateError
from vdla.compiler.templates.packing import (
    blocks,
    channel_parameters,
    check_array,
    check_range,
    pack_activations,
    pack_scales,
    padded,
    result_bounds,
    unpack_activations,
)
from vdla.compiler.templates.schedule import schedule_tiles
from vdla.compiler.templates.tiling import Problem, Tiling, choose
from vdla.compiler.dtypes import limits
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Operand, Source, VectorOp


@dataclass(frozen=True)
class Window:
    """A sliding window over activations, channel by channel: shape, padding, layouts."""

    config: Config
    batch: int
    height: int
    width: int
    channels: int
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    pad_value: int
    activation: str
    ceiling: int | None
    zero_point: int
    name: str
    raw: bool = False

    def check(self) -> None:
        """Refuse a shape without results and options out of range."""
        for what in ("batch", "height", "width", "channels"):
            value = getattr(self, what)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise TemplateError(f"{self.name}: {what} must be a positive integer, got {value!r}")
        if min(self.out_size) < 1:
            raise TemplateError(
                f"{self.name}: the kernel must fit the padded input, got kernel {self.kernel} on {self.height}x{self.width} "
                f"with padding {self.padding}"
            )
        result_bounds(self.config, self.zero_point, self.activation, self.ceiling)
        check_range("pad_value", self.pad_value, self.config.inp_dtype)

    @property
    def out_size(self) -> Pair:
        """Rows and columns of results."""
        reach = ((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))
        sizes = zip((self.height, self.width), self.padding, reach, self.stride, strict=True)
        return tuple((n + 2 * p - r) // s + 1 for n, p, r, s in sizes)  # type: ignore[return-value]

    @property
    def source(self) -> Source:
        """Where the vector unit reads activations."""
        return Source.INP if self.config.block_out % self.config.block_in == 0 else Source.ACC

    @property
    def shape(self) -> tuple[int, ...]:
        """Packed activations in DRAM."""
        return (blocks(self.batch, self.config.batch), blocks(self.channels, self.config.block_out), self.height,
                self.width, self.config.batch, self.config.block_out)  # fmt: skip

    def problem(self, weights: int = 0, inputs: int = 1) -> Problem:
        """What the tile search sees."""
        config = self.config
        (kh, kw), (sh, sw), (dh, dw) = self.kernel, self.stride, self.dilation
        rows, cols = self.out_size
        unit = max(1, config.block_out // config.block_in) if self.source is Source.INP else 1
        return Problem(
            self.shape[0], self.shape[1], 1, rows, cols, kh * kw, sh, (kh - 1) * dh + 1, sw, (kw - 1) * dw + 1, weights,
            raw=self.raw, separate=True, inputs=inputs, unit=unit, through_acc=self.source is Source.ACC,
        )  # fmt: skip

    def window_load(self) -> Intrinsic:
        """The DMA that brings activations to where the vector unit reads them."""
        if self.source is Source.ACC:
            return dma.load(self.config, Buffer.ACC, widen=True)
        return dma.load(self.config, Buffer.INP, (self.config.batch, self.config.block_out))

    def padded(self, data: te.Tensor, stage: str = "padded") -> te.Tensor:
        """The rows and columns that the window reads, padding included; widened where they go to the accumulator."""
        problem = self.problem()
        ph, pw = self.padding
        rows = (problem.rows - 1) * problem.row_step + problem.row_span
        cols = (problem.cols - 1) * problem.col_step + problem.col_span
        dtype = "int32" if self.source is Source.ACC else self.config.inp_dtype

        def value(pn: te.Value, pc: te.Value, py: te.Value, px: te.Value, pb: te.Value, po: te.Value) -> te.Value:
            y, x = (py - ph if ph else py), (px - pw if pw else px)
            inside = ([y >= 0] if ph else []) + ([y < self.height] if rows - ph > self.height else [])
            inside += ([x >= 0] if pw else []) + ([x < self.width] if cols - pw > self.width else [])
            element = te.cast(dtype, data[pn, pc, y, x, pb, po])
            return te.select(te.all_of(*inside), element, te.const(self.pad_value, dtype)) if inside else element

        return te.compute((*self.shape[:2], rows, cols, *self.shape[4:]), value, stage)

    @property
    def results_shape(self) -> tuple[int, ...]:
        """Packed results."""
        return (*self.shape[:2], *self.out_size, *self.shape[4:])

    @property
    def layouts(self) -> dict[str, str]:
        """Dimensions of the program's tensors."""
        activations = "N/batch, C/block_out, H, W, batch, block_out"
        scale = "C/block_out, block_out: bias, multiplier, shift"
        return {"data": activations, "other": activations, "output": activations, "scale": scale}

    def pack_data(self, name: str, data: Array) -> Array:
        """NCHW activations in blocks of block_out."""
        data = check_array(name, data, (self.batch, self.channels, self.height, self.width), self.config.inp_dtype)
        return pack_activations(data, self.config.batch, self.config.block_out)

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """NCHW results from the program's outputs."""
        return unpack_activations(outputs["output"], (self.batch, self.channels, *self.out_size))


def _window(
    config: Config, batch: int, height: int, width: int, channels: int, kernel: int | Pair, stride: int | Pair,
    padding: int | Pair, dilation: int | Pair, pad_value: int, activation: str, ceiling: int | None, zero_point: int, name: str,
    raw: bool = False,
) -> Window:  # fmt: skip
    window = Window(
        config, batch, height, width, channels, _pair("kernel", kernel, 1), _pair("stride", stride, 1),
        _pair("padding", padding, 0), _pair("dilation", dilation, 1), pad_value, activation, ceiling, zero_point, name, raw,
    )  # fmt: skip
    window.check()
    return window


def depthwise_conv2d(
    config: Config, *, batch: int, height: int, width: int, channels: int, kernel: int | Pair, stride: int | Pair = 1,
    padding: int | Pair = 0, dilation: int | Pair = 1, activation: str = "none", ceiling: int | None = None, zero_point: int = 0,
    input_zero_point: int = 0, raw: bool = False, virtual_threads: int = 2, tiling: Tiling | None = None, name: str = "depthwise_conv2d",
) -> Operator:  # fmt: skip
    """Convolution of each channel of [batch, channels, height, width] with its own [kh, kw] kernel.

    Weights are [channels, 1, kh, kw]; the rest as for `conv2d`.

    Raises:
        TemplateError: an extent, option or zero point that is out of range, or a shape that fits no buffer.
    """
    window = _window(config, batch, height, width, channels, kernel, stride, padding, dilation, input_zero_point,
                     activation, ceiling, zero_point, name, raw)  # fmt: skip
    kh, kw = window.kernel
    entries = blocks(kh * kw, config.block_in)
    weight_shape = (window.shape[1], entries, config.block_in, config.block_out)
    data = te.placeholder(window.shape, config.inp_dtype, "data")
    weight = te.placeholder(weight_shape, config.wgt_dtype, "weight")
    padded_data = window.padded(data)
    ky, kx = te.reduce_axis(kh, "ky"), te.reduce_axis(kw, "kx")
    (sh, sw), (dh, dw) = window.stride, window.dilation

    def total(n: te.Value, co: te.Value, y: te.Value, x: te.Value, b: te.Value, o: te.Value) -> te.Value:
        tap = ky * kw + kx
        activation = te.cast("int32", padded_data[n, co, y * sh + ky * dh, x * sw + kx * dw, b, o])
        factor = te.cast("int32", weight[co, tap // config.block_in, tap % config.block_in, o])
        return te.sum(activation * factor, axis=[ky, kx])

    sums = te.compute(window.results_shape, total, "sums")
    problem = window.problem(weights=entries)
    chosen = tiling or choose(config, problem, virtual_threads)
    fn = schedule_tiles(
        config, [data, weight, *finished(config, sums, window)], problem, chosen, vector.mac(config, Operand.WGT, window.source), name,
        windows={"padded": window.window_load()},
        weights=dma.load(config, Buffer.WGT, (config.block_in, config.block_out)),
    )  # fmt: skip

    def pack(data: Array, weight: Array, bias: Array | None = None, multiplier: Any = 1.0) -> dict[str, Array]:
        weight = check_array("weight", weight, (channels, 1, kh, kw), config.wgt_dtype)
        full = padded(weight.reshape(channels, kh * kw), (weight_shape[0] * config.block_out, entries * config.block_in))
        vectors = full.reshape(weight_shape[0], config.block_out, -1).transpose(0, 2, 1).reshape(weight_shape)
        packed = {"data": window.pack_data("data", data), "weight": np.ascontiguousarray(vectors, np.int8)}
        if raw:
            return packed
        biases, factors = channel_parameters(channels, bias, multiplier)
        offset = input_zero_point * weight.reshape(channels, -1).astype(np.int64).sum(axis=1)
        return packed | {"scale": pack_scales(biases - offset, factors, config.block_out)}

    macs = batch * channels * window.out_size[0] * window.out_size[1] * kh * kw
    layouts = window.layouts | {"weight": "C/block_out, KH*KW/block_in, block_in, block_out"}
    return Operator(name, config, fn, macs, pack, window.unpack, layouts, ("weight", "scale"), str(chosen))


def pool2d(
    config: Config, *, kind: str, batch: int, height: int, width: int, channels: int, kernel: int | Pair,
    stride: int | Pair = 1, padding: int | Pair = 0, dilation: int | Pair = 1, activation: str = "none",
    ceiling: int | None = None, zero_point: int = 0, input_zero_point: int = 0, raw: bool = False,
    virtual_threads: int = 2, tiling: Tiling | None = None, name: str = "",
) -> Operator:  # fmt: skip
    """The maximum or the average of each window; `kind` is max or average.

    An average counts padding, as zeros. Its default scale divides by the window; `pack` takes a multiplier and a bias for
    both kinds, so that results can have another scale than the input.

    Raises:
        TemplateError: an extent, option or zero point that is out of range, or a shape that fits no buffer.
    """
    if kind not in ("max", "average"):
        raise TemplateError(f"pool2d: kind must be max or average, got {kind!r}")
    name = name or f"{kind}_pool2d"
    lowest = int(limits(config.inp_dtype)[0])
    pad_value = lowest if kind == "max" else input_zero_point
    window = _window(config, batch, height, width, channels, kernel, stride, padding, dilation, pad_value,
                     activation, ceiling, zero_point, name, raw)  # fmt: skip
    if kind == "max" and any(p >= k for p, k in zip(window.padding, window.kernel, strict=True)):
        raise TemplateError(f"{name}: padding must be less than the kernel, got {window.padding} for {window.kernel}")
    kh, kw = window.kernel
    data = te.placeholder(window.shape, config.inp_dtype, "data")
    padded_data = window.padded(data)
    ky, kx = te.reduce_axis(kh, "ky"), te.reduce_axis(kw, "kx")
    (sh, sw), (dh, dw) = window.stride, window.dilation
    reduce = te.max if kind == "max" else te.sum
    sums = te.compute(
        window.results_shape,
        lambda n, co, y, x, b, o: reduce(
            te.cast("int32", padded_data[n, co, y * sh + ky * dh, x * sw + kx * dw, b, o]), axis=[ky, kx]
        ),
        "sums",
    )
    problem = window.problem()
    chosen = tiling or choose(config, problem, virtual_threads)
    core = vector.reducing(config, VectorOp.MAX if kind == "max" else VectorOp.ADD, window.source)
    fn = schedule_tiles(config, [data, *finished(config, sums, window)], problem, chosen, core, name,
                        windows={"padded": window.window_load()})  # fmt: skip

    def pack(data: Array, bias: Array | None = None, multiplier: Any = None) -> dict[str, Array]:
        packed = {"data": window.pack_data("data", data)}
        if raw:
            return packed
        default = 1.0 if kind == "max" else 1.0 / (kh * kw)
        biases, factors = channel_parameters(channels, bias, default if multiplier is None else multiplier)
        offset = input_zero_point * (1 if kind == "max" else kh * kw)
        return packed | {"scale": pack_scales(biases - offset, factors, config.block_out)}

    macs = batch * channels * window.out_size[0] * window.out_size[1] * kh * kw
    return Operator(name, config, fn, macs, pack, window.unpack, window.layouts, ("scale",), str(chosen))


FACTOR_BITS = 14


def residual_add(
    config: Config, *, batch: int, height: int, width: int, channels: int, factors: tuple[float, float] = (1.0, 1.0),
    input_zero_points: tuple[int, int] = (0, 0), activation: str = "none", ceiling: int | None = None, zero_point: int = 0,
    raw: bool = False, virtual_threads: int = 2, tiling: Tiling | None = None, name: str = "residual_add",
) -> Operator:  # fmt: skip
    """factors[0] * data + factors[1] * other, requantised: two activations of different scales added.

    The factors (the scale of each input over that of the result) become integers of FACTOR_BITS bits over a common power of
    two; `raw` gives the int32 sum of the integer products.

    Raises:
        TemplateError: an extent, factor or zero point that is out of range, or a shape that fits no buffer.
    """
    window = _window(config, batch, height, width, channels, 1, 1, 0, 1, 0, activation, ceiling, zero_point, name, raw)
    integers, shift = _integer_factors(name, factors)
    for zero in input_zero_points:
        check_range("input_zero_points", zero, config.inp_dtype)
    data = te.placeholder(window.shape, config.inp_dtype, "data")
    other = te.placeholder(window.shape, config.inp_dtype, "other")
    first, second = window.padded(data, "first_window"), window.padded(other, "second_window")
    wide = lambda t, *i: te.cast("int32", t[i])  # noqa: E731
    product = te.compute(window.results_shape, lambda fn, fc, fy, fx, fb, fo: wide(first, fn, fc, fy, fx, fb, fo) * integers[0], "product")
    sums = te.compute(
        window.results_shape,
        lambda n, co, y, x, b, o: product[n, co, y, x, b, o] + wide(second, n, co, y, x, b, o) * integers[1],
        "sums",
    )
    problem = window.problem(inputs=2)
    chosen = tiling or choose(config, problem, virtual_threads)
    fn = schedule_tiles(
        config, [data, other, *finished(config, sums, window)], problem, chosen, vector.mac_in_place(config, Operand.IMM, window.source), name,
        windows={"first_window": window.window_load(), "second_window": window.window_load()},
        before={"product": vector.product(config, Operand.IMM, window.source)},
    )  # fmt: skip

    def pack(data: Array, other: Array) -> dict[str, Array]:
        packed = {"data": window.pack_data("data", data), "other": window.pack_data("other", other)}
        if raw:
            return packed
        bias = -sum(m * z for m, z in zip(integers, input_zero_points, strict=True))
        scale = np.full(channels, 2.0**-shift)
        return packed | {"scale": pack_scales(np.full(channels, bias), scale, config.block_out)}

    macs = 2 * batch * channels * height * width
    return Operator(name, config, fn, macs, pack, window.unpack, window.layouts, ("scale",), str(chosen))


def _integer_factors(name: str, factors: tuple[float, float]) -> tuple[tuple[int, int], int]:
    """The factors over a common power of two: integers, the larger of FACTOR_BITS bits, and the shift."""
    if len(factors) != 2 or not all(np.isfinite(f) and f > 0 for f in factors):
        raise TemplateError(f"{name}: factors must be two positive numbers, got {factors}")
    shift = FACTOR_BITS - int(np.ceil(np.log2(max(factors)))) - 1
    if not 0 <= shift <= 30:
        raise TemplateError(f"{name}: the larger factor must be from 2**-17 to 2**13, got {max(factors)}")
    low, high = (int(np.floor(f * 2.0**shift + 0.5)) for f in factors)
    return (low, high), shift
