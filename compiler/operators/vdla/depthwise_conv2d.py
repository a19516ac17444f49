"""Depthwise convolution on the vector unit: each channel with its own kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics import dma, vector
from vdla.compiler.operators.vdla.channelwise_window import ChannelwiseWindow
from vdla.compiler.operators.vdla.layouts import Layout, depthwise_weight_layout
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, template
from vdla.compiler.operators.vdla.packing import blocks, check_array, pad_to
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import SUMS, WEIGHT, WINDOW
from vdla.compiler.operators.vdla.schedule import schedule_tiles
from vdla.compiler.operators.vdla.sliding_window import Pads, Pair, check_threads, four_pads, pair
from vdla.compiler.operators.vdla.tiling import choose_tiling
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Operand


@template
def depthwise_conv2d(
    config: Config,
    *,
    batch: int,
    height: int,
    width: int,
    channels: int,
    kernel: int | Pair,
    strides: int | Pair = 1,
    pads: int | Pair | Pads = 0,
    dilations: int | Pair = 1,
    activation: str = "none",
    floor: int | None = None,
    ceiling: int | None = None,
    zero_point: int = 0,
    input_zero_point: int = 0,
    raw: bool = False,
    virtual_threads: int = 2,
    tiling: Tiling | None = None,
    chained: bool = False,
    name: str = "depthwise_conv2d",
) -> Operator:
    """Convolution of each channel of [batch, channels, height, width] with its own kernel.

    Weights are [channels, 1, kh, kw]; other options, `chained` among them, are those of `conv2d`.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """
    conv = _DepthwiseConv2d(
        config=config,
        name=name,
        batch=batch,
        height=height,
        width=width,
        in_channels=channels,
        out_channels=channels,
        kernel=pair(name, "kernel", kernel, 1),
        strides=pair(name, "strides", strides, 1),
        pads=four_pads(name, pads),
        dilations=pair(name, "dilations", dilations, 1),
        input_zero_point=input_zero_point,
        results=Results(
            config=config,
            name=name,
            activation=activation,
            floor=floor,
            ceiling=ceiling,
            zero_point=zero_point,
            raw=raw,
        ),
        fill=input_zero_point,
    )
    conv.check()
    check_threads(name, virtual_threads)
    problem = replace(conv.problem(weights=conv.weight_shape[1]), chained=chained)
    chosen = choose_tiling(config, problem, virtual_threads, tiling, name)
    fn = schedule_tiles(
        config, conv.expression(), problem, chosen, vector.mac(config, Operand.WGT, conv.source), name,
        windows={WINDOW: conv.load()},
        weights=dma.load(config, Buffer.WGT, (config.block_in, config.block_out)),
    )  # fmt: skip
    return Operator(
        name=name,
        config=config,
        function=fn,
        macs=conv.steps,
        pack=conv.pack,
        pack_inputs=conv.pack_inputs,
        pack_constants=conv.pack_constants,
        unpack=conv.unpack,
        layouts=conv.layouts,
        problem=problem,
        description=str(chosen),
    )


@dataclass(frozen=True)
class _DepthwiseConv2d(ChannelwiseWindow):
    """A depthwise convolution; an entry of weights is block_in vectors of block_out."""

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """Shape of the packed weights in DRAM."""
        config = self.config
        return self.shape[1], blocks(self.taps, config.block_in), config.block_in, config.block_out

    def expression(self) -> list[te.Tensor]:
        """[data, weight, (scale,) output] as tensor expressions."""
        (kh, kw), entry = self.kernel, self.config.block_in
        data = self.data()
        weight = te.placeholder(self.weight_shape, self.config.wgt_dtype, WEIGHT)
        image = self.padded_image(data)
        ky, kx = te.reduce_axis(kh, "ky"), te.reduce_axis(kw, "kx")

        def total(n: te.Value, co: te.Value, y: te.Value, x: te.Value, b: te.Value, o: te.Value) -> te.Value:
            tap = ky * kw + kx
            factor = te.cast("int32", weight[co, tap // entry, tap % entry, o])
            return te.sum(self.element(image, ky, kx, n, co, y, x, b, o) * factor, axis=[ky, kx])

        return [data, weight, *self.results.tensors(te.compute(self.results_shape, total, SUMS))]

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        return super().layouts | {WEIGHT: depthwise_weight_layout(self.config)}

    def pack(
        self, data: Array, weight: Array, bias: Array | None = None, multiplier: Factors = None
    ) -> dict[str, Array]:
        """The program's arrays from NCHW data, [C, 1, KH, KW] weights, biases and multipliers."""
        return self.pack_inputs(data) | self.pack_constants(weight, bias, multiplier)

    def pack_inputs(self, data: Array) -> dict[str, Array]:
        """The program's array from NCHW data."""
        return {"data": self.pack_data("data", data)}

    def pack_constants(self, weight: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from [C, 1, KH, KW] weights, biases and multipliers."""
        weight = check_array("weight", weight, (self.in_channels, 1, *self.kernel), self.config.wgt_dtype)
        offset = -self.input_zero_point * weight.reshape(self.in_channels, -1).sum(axis=1, dtype=np.int64)
        return {"weight": self._pack_weight(weight)} | self.results.pack(self.in_channels, bias, multiplier, offset)

    def _pack_weight(self, weight: Array) -> Array:
        outer, entries, inner, block = self.weight_shape
        full = pad_to(weight.reshape(self.in_channels, self.taps), (outer * block, entries * inner))
        vectors = full.reshape(outer, block, entries * inner).transpose(0, 2, 1)
        return np.ascontiguousarray(vectors.reshape(self.weight_shape), np.int8)
