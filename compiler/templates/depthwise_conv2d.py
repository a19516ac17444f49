"""Depthwise convolution on the vector unit: each channel with its own kernel."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.definitions import depthwise_convolution
from vdla.compiler.operators.vdla.layouts import Layout
from vdla.compiler.operators.vdla.operator import Array, Factors, template
from vdla.compiler.operators.vdla.roles import WEIGHT
from vdla.compiler.templates.checks import check_array
from vdla.compiler.templates.template import CLIPPING
from vdla.compiler.templates.window import IMAGE, WINDOW, ChannelwiseWindow, channelwise_form


@dataclass(frozen=True, kw_only=True)
class DepthwiseConv2d(ChannelwiseWindow):
    """Convolution of each channel of [batch, channels, height, width] with its own kernel.

    Weights are [channels, 1, kh, kw]; padding holds the zero point of the input. Other options,
    `chained` among them, are those of `conv2d`.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """

    name: str = "depthwise_conv2d"

    @cached_property
    def packed(self) -> UntiledForm:
        """The program's form; an entry of weights is block_in vectors of block_out."""
        fill, dtype = self.input_zero_point, self.config.wgt_dtype
        sums = depthwise_convolution(channels=self.channels, fill=fill, weight_dtype=dtype, **self.plain).output
        return channelwise_form(self.config, self.result(sums))

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors; K is a kernel position."""
        name = "CK{0.block_in}k{0.block_out}c"
        return super().layouts | {WEIGHT: self.layout(name, "C/block_out, KH*KW/block_in, block_in, block_out")}

    def pack_constants(self, weight: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from [C, 1, KH, KW] weights, biases and multipliers."""
        shape = (self.channels, 1, *self.window.taps)
        kernels = check_array("weight", weight, shape, self.config.wgt_dtype)[:, 0]
        offset = self.zero_point_offset(kernels)
        return self.packed_arrays(weight=kernels) | self.packed_scale(bias, multiplier, offset)


_RESULTS = ("activation", *CLIPPING, "input_zero_point", "raw", "virtual_threads", "tiling", "chained", "name")
depthwise_conv2d = template("depthwise_conv2d", DepthwiseConv2d, (*IMAGE, "channels", *WINDOW, "dilations", *_RESULTS))
