"""Transposed convolution: an ordinary convolution for each phase of the strides.

Row y * stride + p of the output, its phase p, sums the kernel rows k for which p + top - k is
divisible by the stride (`top` is the padding), so no multiplier works on inserted zeros. A kernel
that is not a multiple of the stride is padded with zero taps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vdla.compiler.map.expression_parts import viewed
from vdla.compiler.map.fixed_form import fixed_form
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.operators.definitions import transposed_convolution
from vdla.compiler.operators.vdla.layouts import (
    Layout,
    activation_layout,
    scale_layout,
    transposed_result_layout,
    transposed_weight_layout,
)
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, TemplateError, template
from vdla.compiler.operators.vdla.packing import blocks, check_array, check_output, pack_activations, pad_to
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT, SCALE, WEIGHT
from vdla.compiler.operators.vdla.sliding_window import (
    Pads,
    Pair,
    SlidingWindow,
    check_groups,
    check_threads,
    four_pads,
    pair,
)
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.mapped_template import tiled_template
from vdla.compiler.templates.plain_result import plain_result
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
        results=Results(
            config=config,
            name=name,
            activation=activation,
            floor=floor,
            ceiling=ceiling,
            zero_point=zero_point,
            raw=raw,
        ),
        output_padding=pair(name, "output_padding", output_padding, 0),
    )
    op.check()
    check_threads(name, virtual_threads)
    return tiled_template(op, op.form(), virtual_threads, tiling, op.macs)


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
    def phase_taps(self) -> Pair:
        """Kernel rows and columns of one phase."""
        return blocks(self.kernel[0], self.strides[0]), blocks(self.kernel[1], self.strides[1])

    @property
    def by_phase(self) -> bool:
        """Whether each phase needs its own bias: the taps that the zero point meets differ."""
        return self.input_zero_point != 0 and self.strides != (1, 1)

    def form(self) -> PackedForm:
        """The program's form, whose output is [n, c, y, phase, x, phase, b, o].

        `unpack` drops results beyond the output.
        """
        definition = transposed_convolution(
            batch=self.batch,
            in_channels=self.in_channels,
            out_channels=self.out_channels,
            size=(self.height, self.width),
            kernel=self.kernel,
            strides=self.strides,
            pads=self.pads,
            output_padding=self.output_padding,
            fill=self.input_zero_point,
            dtype=self.config.inp_dtype,
            weight_dtype=self.config.wgt_dtype,
        )
        sums, _ = viewed(definition.output)
        if self.by_phase:
            output = plain_result(self.results, sums, self.strides, lambda i: (i[4], i[5]))
        else:
            output = plain_result(self.results, sums)
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
        config = self.config
        data = check_array("data", data, (self.batch, self.in_channels, self.height, self.width), config.inp_dtype)
        return {"data": pack_activations(data, config.batch, config.block_in)}

    def pack_constants(self, weight: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from IOHW weights, int32 biases and real multipliers."""
        out = self.out_channels
        weight = check_array("weight", weight, (self.in_channels, out, *self.kernel), self.config.wgt_dtype)
        phases = self._by_phase(weight)
        offset = -self.input_zero_point * phases.sum(axis=(0, 4, 5), dtype=np.int64)  # [O, SH, SW]
        lanes = self.results.pack(out, bias, multiplier, offset if self.by_phase else offset[:, 0, 0])
        return {"weight": self._pack_weight(phases)} | lanes

    def _by_phase(self, weight: Array) -> Array:
        """[I, O, SH, SW, TY, TX]: the taps of each phase, last tap first."""
        (ty, tx), (sh, sw) = self.phase_taps, self.strides
        full = pad_to(weight, (*weight.shape[:2], ty * sh, tx * sw))
        rows, cols = (self._taps_of_phases(axis) for axis in (0, 1))
        return full[:, :, rows[:, None, :, None], cols[None, :, None, :]]

    def _taps_of_phases(self, axis: int) -> Array:
        """[phase, tap]: the kernel row (or column)."""
        stride, taps = self.strides[axis], self.phase_taps[axis]
        first = (np.arange(stride) + self.pads[axis]) % stride
        return np.asarray(first[:, None] + stride * np.arange(taps)[::-1])

    def _pack_weight(self, phases: Array) -> Array:
        config = self.config
        ib, ob = blocks(self.in_channels, config.block_in), blocks(self.out_channels, config.block_out)
        full = pad_to(phases, (ib * config.block_in, ob * config.block_out, *phases.shape[2:]))
        split = full.reshape(ib, config.block_in, ob, config.block_out, *phases.shape[2:])
        return np.ascontiguousarray(split.transpose(2, 0, 4, 5, 6, 7, 3, 1), np.int8)

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """NCHW results from the program's outputs."""
        out = check_output(outputs, 8)
        nb, cb, ty, sh, tx, sw, batch, block = out.shape
        full = out.transpose(0, 6, 1, 7, 2, 3, 4, 5).reshape(nb * batch, cb * block, ty * sh, tx * sw)
        return np.ascontiguousarray(full[: self.batch, : self.out_channels, : self.out_size[0], : self.out_size[1]])
