"""A form of a convolution: the plain expression, and its arrays on the host.

Channels lie in blocks, or kernel positions and channels share the blocks of *patches*, which `pack`
lays out of the windows (im2col).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from vdla.compiler.map.fixed_form import fixed_form
from vdla.compiler.map.packing import pack_array
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.definitions import convolution
from vdla.compiler.operators.vdla.checks import check_array
from vdla.compiler.operators.vdla.layouts import (
    Layout,
    activation_layout,
    in_sections,
    result_layout,
    scale_layout,
    weight_layout,
)
from vdla.compiler.operators.vdla.operator import Array, Factors, TemplateError
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT, SCALE, WEIGHT
from vdla.compiler.operators.vdla.tiling_problem import TilingProblem
from vdla.compiler.templates.channel_sections import ChannelSections, best_sections
from vdla.compiler.templates.host_arrays import plain_output
from vdla.compiler.templates.plain_result import plain_result
from vdla.compiler.templates.sliding_window import SlidingWindow


@dataclass(frozen=True)
class ConvolutionForm(SlidingWindow):
    """A convolution whose places in the instruction are fixed, with any tiles.

    `packing` is channels or patches. `by_border`: padding is zeros, which are skipped, and the
    scale has a lane for each set of taps that read the input; else padding is the zero point.
    """

    packing: str = "channels"
    chained: bool = False
    by_border: bool = False
    groups: int = 1

    def check_channels(self) -> None:
        """Also reject channels that are not the same number in each group."""
        SlidingWindow.check_channels(self)
        for what, channels in (("in_channels", self.in_channels), ("out_channels", self.out_channels)):
            if channels % self.groups:
                raise TemplateError(f"{self.name}: groups must divide {what} = {channels}, got {self.groups}")

    @property
    def macs(self) -> int:
        """Multiply-accumulates, without the padding of channels and the zeros between groups."""
        rows, cols = self.out_size
        return self.batch * rows * cols * self.out_channels * (self.in_channels // self.groups) * self.taps

    @cached_property
    def sections(self) -> ChannelSections:
        """The groups as the program computes them."""
        inputs, outputs = self.in_channels // self.groups, self.out_channels // self.groups
        return best_sections(self.groups, inputs, outputs, (self.config.block_in, self.config.block_out))

    @cached_property
    def problem(self) -> TilingProblem:
        """The operator as the tile search sees it."""
        return replace(self.packed.problem, chained=self.chained)

    @cached_property
    def packed(self) -> UntiledForm:
        """The program's form."""
        count, (inputs, outputs) = self.sections.count, self.sections.channels
        sums = convolution(
            in_channels=count * inputs,
            out_channels=count * outputs,
            groups=count,
            fill=0 if self.by_border else self.input_zero_point,
            weight_dtype=self.config.wgt_dtype,
            **self.plain,
        ).output
        by_class = (self.classes, self.class_of) if self.by_border else ()
        output = plain_result(self.results, sums, *by_class)
        terms = ("c",) if self.packing == "channels" else ("ky", "kx", "c")
        lanes = ("o",) if count == 1 else ("o_l",) if outputs > 1 else ()  # within a section
        return fixed_form(self.config, output, {"b": ("n",), "o": lanes, "i": terms})

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        config, several = self.config, self.sections.count > 1
        channels = "C" if self.packing == "channels" else "KH*KW*C"
        classes = ("HW", ", row class, column class") if self.by_border else ("", "")
        plain: dict[str, Layout] = {
            DATA: activation_layout(config, channels),
            WEIGHT: weight_layout(config, channels),
            SCALE: scale_layout(config, "CO", classes),
            OUTPUT: result_layout(config),
        }
        if not several:
            return plain
        places = {DATA: 1, WEIGHT: 0, SCALE: 0, OUTPUT: 1}
        gaps = dict(zip((DATA, OUTPUT), self.sections.gaps, strict=True))
        return {role: in_sections(plain[role], at, gaps=gaps.get(role, False)) for role, at in places.items()}

    def pack(
        self, data: Array, weight: Array, bias: Array | None = None, multiplier: Factors = None
    ) -> dict[str, Array]:
        """The program's arrays from NCHW data, OIHW weights, int32 biases and real multipliers."""
        return self.pack_inputs(data) | self.pack_constants(weight, bias, multiplier)

    def pack_inputs(self, data: Array) -> dict[str, Array]:
        """The program's array from NCHW data."""
        shape = (self.batch, self.in_channels, self.height, self.width)
        data = self.sections.whole(check_array("data", data, shape, self.config.inp_dtype), 1, 0)
        return {"data": pack_array(self.packed, DATA, data)}

    def pack_constants(self, weight: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from OIHW weights, int32 biases and real multipliers."""
        shape = (self.out_channels, self.in_channels // self.groups, *self.kernel)
        weight = check_array("weight", weight, shape, self.config.wgt_dtype)
        offset = -self.input_zero_point * self._weights_inside(weight)
        packed = {"weight": pack_array(self.packed, WEIGHT, self.sections.dense(weight))}
        lanes = self.results.lanes(self.out_channels, bias, multiplier, offset)
        if lanes is None:
            return packed
        return packed | {"scale": pack_array(self.packed, SCALE, self.sections.whole(lanes, 0, 1))}

    def _weights_inside(self, weight: Array) -> Array:
        """The sum of the weights of each output channel that read the input, [O] or [O, row class,
        column class]; padding is read as the zero point unless there are classes.
        """
        taps = weight.sum(axis=1, dtype=np.int64)
        if not self.by_border:
            return np.asarray(taps.sum(axis=(1, 2)))
        rows, cols = (self.inside_by_class(axis).astype(np.int64) for axis in (0, 1))
        return np.asarray(np.einsum("okl,rk,cl->orc", taps, rows, cols))

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """NCHW results from the program's outputs."""
        return np.ascontiguousarray(plain_output(self.packed, outputs)[:, : self.out_channels])
