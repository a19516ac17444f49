# SPDX-License-Identifier: Apache-2.0
"""Operators of the vector unit that map each channel to itself: depthwise convolution and pooling.

An average is a sum whose multiplier is 1 / count. If padding is not counted, windows at the borders
have smaller counts: positions form classes by their numbers of rows and columns, and each class has
its own lanes of the scale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.definitions import depthwise_convolution, pooling
from vdla.compiler.operators.vdla.operator import Array, Factors, Layout, Operator, TemplateError, choice, template
from vdla.compiler.operators.vdla.roles import SCALE, WEIGHT
from vdla.compiler.operators.vdla.tile_timeline import estimate
from vdla.compiler.operators.vdla.tiling import choose_tiling, fits_somehow
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.checks import check_array, check_flag
from vdla.compiler.templates.window import BORDERS, ChannelwiseWindow, channelwise_form


@dataclass(frozen=True, kw_only=True)
class DepthwiseConv2d(ChannelwiseWindow):
    """Convolution of each channel of [batch, channels, height, width] with its own kernel.

    Weights are [channels, 1, kh, kw]; padding holds the zero point of the input. Other options,
    `chained` among them, are those of `conv2d`.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """

    chained: bool = False
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


@dataclass(frozen=True, kw_only=True)
class Pool2d(ChannelwiseWindow):
    """The maximum or the average of each window; `kind` is max or average.

    An average counts padding, as zeros, unless `count_include_pad` is false. Where results have
    another scale than the input, `pack` takes a real multiplier, the scale of the input over that
    of the result; the multiplier of the machine is this over the count, with 24 significant bits.
    Raw results are maxima or sums.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """

    # With `_by_rows`, windows are read by rows of the kernel, as other operators read blocks of
    # channels.
    kind: str = choice("max", "average")
    count_include_pad: bool = True
    _by_rows: bool = False

    def operator(self) -> Operator:
        """The operator of checked options, called by its kind unless it has a name."""
        named = self if self.name else replace(self, name=f"{self.kind}_pool2d")
        return super(Pool2d, named).operator()

    def check(self) -> None:
        """Also reject windows that may hold only padding."""
        check_flag(self.name, "count_include_pad", self.count_include_pad)
        super().check()
        pads, kernel = self.window.pads, self.window.taps
        if any(pad >= taps for pad, taps in zip(pads, kernel * 2, strict=True)):
            raise TemplateError(f"{self.name}: pads must be less than the kernel, got {pads} for {kernel}")
        if self._excludes_padding and self.raw:
            raise TemplateError(f"{self.name}: count_include_pad must be True for raw sums, got False")

    def with_tiling(self) -> tuple[Pool2d, Tiling]:
        """The pool with whole windows on the chip, or with rows of them, and its tiling.

        Rows are tried where windows do not fit, or only for fewer virtual threads.
        """
        whole, rows, threads = self.problem, replace(self, _by_rows=True), self.virtual_threads
        if not fits_somehow(self.config, whole):
            return rows, choose_tiling(self.config, rows.problem, threads, self.tiling, self.name)
        chosen = choose_tiling(self.config, whole, threads, self.tiling, self.name)
        settled = self.tiling is not None or chosen.threads == threads or whole.through_acc
        if settled or self.window.taps[0] == 1:
            return self, chosen
        of_rows = choose_tiling(self.config, rows.problem, threads, None, self.name)
        if estimate(self.config, whole, chosen) > estimate(self.config, rows.problem, of_rows):
            return rows, of_rows
        return self, chosen

    @property
    def note(self) -> str:
        """What precedes the tiles in the description."""
        return "rows of windows: " if self._by_rows else ""

    @cached_property
    def packed(self) -> UntiledForm:
        """The program's form."""
        sums = pooling(kind=self.kind, channels=self.channels, fill=self.input_zero_point, **self.plain).output
        by_class = (self.window.classes, self.class_of) if self._by_class else ()
        return channelwise_form(self.config, self.result(sums, *by_class), "ky" if self._by_rows else None)

    @property
    def _excludes_padding(self) -> bool:
        """Whether padding is not counted in an average."""
        return self.kind == "average" and not self.count_include_pad

    @property
    def _by_class(self) -> bool:
        """Whether the count depends on the position."""
        return self._excludes_padding and prod(self.window.classes) > 1

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        return super().layouts | ({SCALE: self.scale_layout("C", *BORDERS)} if self._by_class else {})

    def pack_constants(self, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's scale; `bias` is added to each maximum or sum.

        Without a multiplier, results have the scale of the data.
        """
        if multiplier is None and not self.raw:
            multiplier = 1.0
        summands = 1 if self.kind == "max" else self.taps
        offset = np.full((self.channels,) + (1, 1) * self._by_class, -self.input_zero_point * summands)
        counts = self._counts() if self._excludes_padding else np.array([[[summands]]])
        return self.packed_scale(bias, multiplier, offset, counts if self._by_class else counts.item())

    def _counts(self) -> Array:
        """[1, row class, column class]: elements in a window that are not padding, at least 1."""
        rows, cols = (self.window.reads_inside(axis).sum(axis=1) for axis in (0, 1))
        return np.asarray(np.maximum(rows[None, :, None] * cols, 1))


depthwise_conv2d = template("depthwise_conv2d", DepthwiseConv2d)
pool2d = template("pool2d", Pool2d)
