"""Depthwise convolution on the vector unit: each channel with its own kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.definitions import depthwise_convolution
from vdla.compiler.operators.vdla.checks import check_array
from vdla.compiler.operators.vdla.layouts import Layout, depthwise_weight_layout
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, template
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import WEIGHT
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.channelwise import ChannelwiseWindow, channelwise_form
from vdla.compiler.templates.host_arrays import packed_inputs, packed_scale, zero_point_offset
from vdla.compiler.templates.mapped_template import tiled_template
from vdla.compiler.templates.plain_result import plain_result
from vdla.compiler.templates.sliding_window import Pads, Pair, check_threads, four_pads, pair
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
    results = Results(
        config=config, name=name, activation=activation, floor=floor, ceiling=ceiling, zero_point=zero_point, raw=raw
    )
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
        results=results,
    )
    conv.check()
    check_threads(name, virtual_threads)
    return tiled_template(conv, virtual_threads, tiling, conv.steps, chained=chained)


@dataclass(frozen=True)
class _DepthwiseConv2d(ChannelwiseWindow):
    """A depthwise convolution; padding holds the zero point of the input."""

    @cached_property
    def packed(self) -> UntiledForm:
        """The program's form; an entry of weights is block_in vectors of block_out."""
        sums = depthwise_convolution(
            channels=self.in_channels, fill=self.input_zero_point, weight_dtype=self.config.wgt_dtype, **self.plain
        ).output
        return channelwise_form(self.config, plain_result(self.results, sums))

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        return super().layouts | {WEIGHT: depthwise_weight_layout(self.config)}

    def pack(
        self, data: Array, weight: Array, bias: Array | None = None, multiplier: Factors = None
    ) -> dict[str, Array]:
        """The program's arrays from NCHW data, [C, 1, KH, KW] weights, biases and multipliers."""
        return self.pack_inputs(data) | self.pack_constants(weight, bias, multiplier)

    def pack_constants(self, weight: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from [C, 1, KH, KW] weights, biases and multipliers."""
        shape = (self.in_channels, 1, *self.kernel)
        kernels = check_array("weight", weight, shape, self.config.wgt_dtype)[:, 0]
        offset = zero_point_offset(self.packed, kernels, self.input_zero_point)
        packed = packed_inputs(self.packed, weight=kernels)
        return packed | packed_scale(self.packed, self.results, bias, multiplier, offset)
