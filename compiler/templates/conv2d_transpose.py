# SPDX-License-Identifier: Apache-2.0
"""Transposed convolution, by phases of the strides: results are [n, c, y, phase, x, phase]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from vdla.compiler import te
from vdla.compiler.map.candidates import fixed_form
from vdla.compiler.map.expression_parts import viewed
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.definitions import Definition, transposed_convolution
from vdla.compiler.operators.definitions.sliding import SlidingWindow
from vdla.compiler.operators.vdla.operator import Array, Factors, Layout, TemplateError, template
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT, SCALE, WEIGHT
from vdla.compiler.templates.checks import Pair, pair
from vdla.compiler.templates.template import ACTIVATIONS, CHOSEN, CLIPPING
from vdla.compiler.templates.window import IMAGE, WINDOW, WindowTemplate
from vdla.support.integers import is_int


@dataclass(frozen=True, kw_only=True)
class Conv2dTranspose(WindowTemplate):
    """Transposed convolution of [batch, in_channels, height, width], as ONNX's ConvTranspose.

    Weights are [in_channels, out_channels, kh, kw]. There are
    (height - 1) * stride - top - bottom + kernel + output_padding rows of results; columns
    likewise. Other options are those of `conv2d`.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """

    in_channels: int
    out_channels: int
    output_padding: int | Pair = 0
    groups: int = 1
    name: str = "conv2d_transpose"

    def check(self) -> None:
        """Also reject groups."""
        if not is_int(self.groups) or self.groups != 1:
            raise TemplateError(f"{self.name}: groups must be 1, got {self.groups!r}")
        super().check()

    @property
    def _extra(self) -> Pair:
        return pair(self.name, "output_padding", self.output_padding, 0)

    def check_size(self, window: SlidingWindow) -> None:
        """Reject output padding of a stride or more, and padding that leaves no result."""
        extra, strides = self._extra, window.strides
        if any(more >= stride for more, stride in zip(extra, strides, strict=True)):
            raise TemplateError(f"{self.name}: output_padding must be less than the strides, got {extra} for {strides}")
        sides = zip(window.size, strides, window.before, window.after, window.taps, extra, strict=True)
        rows, cols = ((size - 1) * s - front - end + taps + more for size, s, front, end, taps, more in sides)
        if min(rows, cols) < 1:
            got = f"{self.window.pads} for an output of {(rows, cols)}"
            raise TemplateError(f"{self.name}: pads must leave at least one result, got {got}")

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the definition: every input element with every tap."""
        return self.batch * self.height * self.width * self.in_channels * self.out_channels * self.taps

    @property
    def _by_phase(self) -> bool:
        """Whether each phase needs its own bias: the taps that the zero point meets differ."""
        return self.input_zero_point != 0 and self.window.strides != (1, 1)

    @cached_property
    def definition(self) -> Definition:
        """The sums of all phases, of which the results are some."""
        return transposed_convolution(
            in_channels=self.in_channels,
            out_channels=self.out_channels,
            output_padding=self._extra,
            fill=self.input_zero_point,
            weight_dtype=self.config.wgt_dtype,
            **self.plain,
        )

    @cached_property
    def packed(self) -> UntiledForm:
        """The program's form, whose output is [n, c, y, phase, x, phase, b, o]."""
        sums, _ = viewed(self.definition.output)
        by_phase = (self.window.strides, lambda i: (i[4], i[5])) if self._by_phase else ()
        return fixed_form(self.config, self.result(sums, *by_phase), {"b": ("n",), "o": ("o",), "i": ("c",)})

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors: H and W are cut into phases of the strides."""
        high, wide = self.window.strides
        phases = (f"{high}h{wide}w", ", SH, SW") if self._by_phase else ()
        weight = "CO/block_out, C/block_in, SH, SW, KH/SH, KW/SW, block_out, block_in"
        output = "N/batch, CO/block_out, H/SH, SH, W/SW, SW, batch, block_out"
        return {
            DATA: self.layout(*ACTIVATIONS),
            WEIGHT: self.layout(f"OI{high}h{wide}wHW{{0.block_out}}o{{0.block_in}}i", weight),
            SCALE: self.scale_layout("CO", *phases),
            OUTPUT: self.layout(f"NCH{high}hW{wide}w{{0.batch}}n{{0.block_out}}c", output),
        }

    def pack_constants(self, weight: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from IOHW weights, int32 biases and real multipliers."""
        packed = self.packed_arrays(weight=weight)
        offset = self.zero_point_offset(weight)  # [O, SH, SW]
        return packed | self.packed_scale(bias, multiplier, offset if self._by_phase else offset[:, 0, 0])

    def unpack(self, outputs: Mapping[str, Array], view: te.Tensor | None = None) -> Array:
        """NCHW results from the program's outputs."""
        return super().unpack(outputs, view or self.definition.output)


_SHAPE = (*IMAGE, "in_channels", "out_channels", *WINDOW, "output_padding", "groups")
_RESULTS = ("activation", *CLIPPING, "input_zero_point", "raw", "table", *CHOSEN)
conv2d_transpose = template("conv2d_transpose", Conv2dTranspose, (*_SHAPE, *_RESULTS))
