"""Depthwise convolution on the vector unit: each channel with its own kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.compiler import te
from vdla.compiler.operators.definitions import depthwise_convolution
from vdla.compiler.operators.vdla.layouts import Layout, depthwise_weight_layout
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, template
from vdla.compiler.operators.vdla.packing import blocks, check_array, pad_to
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import WEIGHT
from vdla.compiler.operators.vdla.sliding_window import Pads, Pair, check_threads, four_pads, pair
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.channelwise_window import ChannelwiseWindow
from vdla.compiler.templates.mapped_template import tiled_template
from vdla.hardware.config import Config


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
    return tiled_template(conv, conv.form(conv.sums()), virtual_threads, tiling, conv.steps, chained=chained)


@dataclass(frozen=True)
class _DepthwiseConv2d(ChannelwiseWindow):
    """A depthwise convolution; an entry of weights is block_in vectors of block_out."""

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """Shape of the packed weights in DRAM."""
        config = self.config
        outer = blocks(self.in_channels, config.block_out)
        return outer, blocks(self.taps, config.block_in), config.block_in, config.block_out

    def sums(self) -> te.Tensor:
        """The plain sums of each channel."""
        return depthwise_convolution(
            batch=self.batch,
            channels=self.in_channels,
            size=(self.height, self.width),
            kernel=self.kernel,
            strides=self.strides,
            pads=self.pads,
            dilations=self.dilations,
            fill=self.fill,
            dtype=self.config.inp_dtype,
            weight_dtype=self.config.wgt_dtype,
        ).output

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
