"""Depthwise convolution: each channel with a kernel of its own, multiplied and added by the vector unit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics import dma, vector
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, template
from vdla.compiler.operators.vdla.packing import blocks, check_array, padded
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.schedule import schedule_tiles
from vdla.compiler.operators.vdla.sliding import Pair, check_threads, pair
from vdla.compiler.operators.vdla.tiling import Tiling, tiles
from vdla.compiler.operators.vdla.window import Window
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
    stride: int | Pair = 1,
    padding: int | Pair = 0,
    dilation: int | Pair = 1,
    activation: str = "none",
    ceiling: int | None = None,
    zero_point: int = 0,
    input_zero_point: int = 0,
    raw: bool = False,
    virtual_threads: int = 2,
    tiling: Tiling | None = None,
    name: str = "depthwise_conv2d",
) -> Operator:
    """Convolution of each channel of [batch, channels, height, width] with its own [kh, kw] kernel.

    Weights are [channels, 1, kh, kw]; the rest as for `conv2d`.

    Raises:
        TemplateError: an extent, option or zero point that is out of range, or a shape that fits no buffer.
    """
    conv = Depthwise(
        config, name, batch, height, width, channels, channels, pair(name, "kernel", kernel, 1),
        pair(name, "stride", stride, 1), pair(name, "padding", padding, 0), pair(name, "dilation", dilation, 1),
        input_zero_point, Results(config, name, activation, ceiling, zero_point, raw), fill=input_zero_point,
    )  # fmt: skip
    conv.check()
    check_threads(name, virtual_threads)
    problem = conv.problem(weights=conv.weight_shape[1])
    chosen = tiles(config, problem, virtual_threads, tiling, name)
    fn = schedule_tiles(
        config, conv.expression(), problem, chosen, vector.mac(config, Operand.WGT, conv.source), name,
        windows={"padded": conv.load()},
        weights=dma.load(config, Buffer.WGT, (config.block_in, config.block_out)),
    )  # fmt: skip
    return Operator(name, config, fn, conv.steps, conv.pack, conv.unpack, conv.layouts, str(chosen))


@dataclass(frozen=True)
class Depthwise(Window):
    """One depthwise convolution: its tensor expression and its weights, block_in vectors of block_out an entry."""

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """Packed weights in DRAM."""
        config = self.config
        return self.shape[1], blocks(self.taps, config.block_in), config.block_in, config.block_out

    def expression(self) -> list[te.Tensor]:
        """[data, weight, (scale,) output] as tensor expressions."""
        (kh, kw), entry = self.kernel, self.config.block_in
        data = self.data()
        weight = te.placeholder(self.weight_shape, self.config.wgt_dtype, "weight")
        window = self.padded(data)
        ky, kx = te.reduce_axis(kh, "ky"), te.reduce_axis(kw, "kx")

        def total(n: te.Value, co: te.Value, y: te.Value, x: te.Value, b: te.Value, o: te.Value) -> te.Value:
            tap = ky * kw + kx
            factor = te.cast("int32", weight[co, tap // entry, tap % entry, o])
            return te.sum(self.value(window, ky, kx, n, co, y, x, b, o) * factor, axis=[ky, kx])

        return [data, weight, *self.results.tensors(te.compute(self.results_shape, total, "sums"))]

    @property
    def layouts(self) -> dict[str, str]:
        """Dimensions of the program's tensors."""
        return super().layouts | {"weight": "C/block_out, KH*KW/block_in, block_in, block_out"}

    def pack(
        self, data: Array, weight: Array, bias: Array | None = None, multiplier: Factors = None
    ) -> dict[str, Array]:
        """The program's arrays from NCHW data, [C, 1, KH, KW] weights, int32 biases and real multipliers."""
        weight = check_array("weight", weight, (self.in_channels, 1, *self.kernel), self.config.wgt_dtype)
        offset = -self.input_zero_point * weight.reshape(self.in_channels, -1).sum(axis=1, dtype=np.int64)
        packed = {"data": self.pack_data("data", data), "weight": self._pack_weight(weight)}
        return packed | self.results.pack(self.in_channels, bias, multiplier, offset)

    def _pack_weight(self, weight: Array) -> Array:
        outer, entries, inner, block = self.weight_shape
        full = padded(weight.reshape(self.in_channels, self.taps), (outer * block, entries * inner))
        vectors = full.reshape(outer, block, entries * inner).transpose(0, 2, 1)
        return np.ascontiguousarray(vectors.reshape(self.weight_shape), np.int8)
