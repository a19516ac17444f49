"""Transposed convolution, by phases of the strides: results are [n, c, y, phase, x, phase]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from vdla.compiler.map.expression_parts import viewed
from vdla.compiler.map.fixed_form import fixed_form
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.definitions import Definition, transposed_convolution
from vdla.compiler.operators.vdla.layouts import (
    Layout,
    activation_layout,
    scale_layout,
    transposed_result_layout,
    transposed_weight_layout,
)
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, TemplateError, template
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT, SCALE, WEIGHT
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.host_arrays import packed_inputs, packed_scale, plain_output, zero_point_offset
from vdla.compiler.templates.mapped_template import tiled_template
from vdla.compiler.templates.plain_result import plain_result
from vdla.compiler.templates.sliding_window import (
    Pads,
    Pair,
    SlidingWindow,
    check_groups,
    check_threads,
    four_pads,
    pair,
)
from vdla.hardware.config import Config


@template
def conv2d_transpose(
    config: Config,
    *,
    batch: int,
    height: int,
    width: int,
    in_channels: int,
    out_channels: int,
    kernel: int | Pair,
    strides: int | Pair = 1,
    pads: int | Pair | Pads = 0,
    output_padding: int | Pair = 0,
    groups: int = 1,
    activation: str = "none",
    floor: int | None = None,
    ceiling: int | None = None,
    zero_point: int = 0,
    input_zero_point: int = 0,
    raw: bool = False,
    virtual_threads: int = 2,
    tiling: Tiling | None = None,
    name: str = "conv2d_transpose",
) -> Operator:
    """Transposed convolution of [batch, in_channels, height, width], as ONNX's ConvTranspose.

    Weights are [in_channels, out_channels, kh, kw]. There are
    (height - 1) * stride - top - bottom + kernel + output_padding rows of results; columns
    likewise. Other options are those of `conv2d`.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """
    check_groups(name, groups)
    results = Results(
        config=config, name=name, activation=activation, floor=floor, ceiling=ceiling, zero_point=zero_point, raw=raw
    )
    op = _Conv2dTranspose(
        config=config,
        name=name,
        batch=batch,
        height=height,
        width=width,
        in_channels=in_channels,
        out_channels=out_channels,
        kernel=pair(name, "kernel", kernel, 1),
        strides=pair(name, "strides", strides, 1),
        pads=four_pads(name, pads),
        dilations=(1, 1),
        input_zero_point=input_zero_point,
        results=results,
        output_padding=pair(name, "output_padding", output_padding, 0),
    )
    op.check()
    check_threads(name, virtual_threads)
    return tiled_template(op, virtual_threads, tiling, op.macs)


@dataclass(frozen=True)
class _Conv2dTranspose(SlidingWindow):
    """A transposed convolution: its shape, expression and layouts."""

    output_padding: Pair = (0, 0)

    def check_size(self) -> None:
        """Reject output padding of a stride or more, and padding that leaves no result."""
        extra, strides = self.output_padding, self.strides
        if any(more >= stride for more, stride in zip(extra, strides, strict=True)):
            raise TemplateError(f"{self.name}: output_padding must be less than the strides, got {extra} for {strides}")
        if min(self.out_size) < 1:
            raise TemplateError(
                f"{self.name}: pads must leave at least one result, got {self.pads} for an output of {self.out_size}"
            )

    @property
    def out_size(self) -> Pair:
        """Rows and columns of results."""
        (kh, kw), (sh, sw), (eh, ew) = self.kernel, self.strides, self.output_padding
        top, left, bottom, right = self.pads
        return (self.height - 1) * sh - top - bottom + kh + eh, (self.width - 1) * sw - left - right + kw + ew

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the definition: every input element with every tap."""
        return self.batch * self.height * self.width * self.in_channels * self.out_channels * self.taps

    @property
    def by_phase(self) -> bool:
        """Whether each phase needs its own bias: the taps that the zero point meets differ."""
        return self.input_zero_point != 0 and self.strides != (1, 1)

    @cached_property
    def definition(self) -> Definition:
        """The sums of all phases, of which the results are some."""
        return transposed_convolution(
            in_channels=self.in_channels,
            out_channels=self.out_channels,
            output_padding=self.output_padding,
            fill=self.input_zero_point,
            weight_dtype=self.config.wgt_dtype,
            **self.plain,
        )

    @cached_property
    def packed(self) -> UntiledForm:
        """The program's form, whose output is [n, c, y, phase, x, phase, b, o]."""
        sums, _ = viewed(self.definition.output)
        by_phase = (self.strides, lambda i: (i[4], i[5])) if self.by_phase else ()
        output = plain_result(self.results, sums, *by_phase)
        return fixed_form(self.config, output, {"b": ("n",), "o": ("o",), "i": ("c",)})

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        phases = ("{}h{}w".format(*self.strides), ", SH, SW") if self.by_phase else ("", "")
        return {
            DATA: activation_layout(self.config),
            WEIGHT: transposed_weight_layout(self.config, self.strides),
            SCALE: scale_layout(self.config, "CO", phases),
            OUTPUT: transposed_result_layout(self.config, self.strides),
        }

    def pack(
        self, data: Array, weight: Array, bias: Array | None = None, multiplier: Factors = None
    ) -> dict[str, Array]:
        """The program's arrays from NCHW data, IOHW weights, int32 biases and real multipliers."""
        return self.pack_inputs(data) | self.pack_constants(weight, bias, multiplier)

    def pack_inputs(self, data: Array) -> dict[str, Array]:
        """The program's array from NCHW data."""
        return packed_inputs(self.packed, data=data)

    def pack_constants(self, weight: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from IOHW weights, int32 biases and real multipliers."""
        packed = packed_inputs(self.packed, weight=weight)
        offset = zero_point_offset(self.packed, weight, self.input_zero_point)  # [O, SH, SW]
        each = offset if self.by_phase else offset[:, 0, 0]
        return packed | packed_scale(self.packed, self.results, bias, multiplier, each)

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """NCHW results from the program's outputs."""
        return plain_output(self.packed, outputs, self.definition.output)
