# SPDX-License-Identifier: Apache-2.0
"""Two-dimensional convolution with any kernel, strides, pads and dilations, requantised.

Channels are padded to whole blocks. If that wastes most of the multipliers (a first layer of three
channels), the operator reads *patches* instead: `pack` lays out the windows of the input (im2col),
and kernel positions and channels share the blocks. So it does where the windows lie apart, as those
of a 1x1 kernel with strides do: what lies between them is never moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, prod

import numpy as np

from vdla.compiler import te
from vdla.compiler.map.candidates import fixed_form
from vdla.compiler.map.packing import pack_array
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.definitions import convolution
from vdla.compiler.operators.vdla.operator import Array, Factors, Layout, TemplateError, choice, in_sections, template
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT, SCALE, WEIGHT
from vdla.compiler.operators.vdla.tiling import ranking_estimate
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.channel_sections import ChannelSections, best_sections
from vdla.compiler.templates.checks import check_array, check_extents
from vdla.compiler.templates.template import ACTIVATIONS, CLIPPING, RESULTS
from vdla.compiler.templates.window import BORDERS, IMAGE, WINDOW, WindowTemplate

_MOST_BORDERS = 16
_PACKINGS = ("channels", "patches")


@dataclass(frozen=True, kw_only=True)
class Conv2d(WindowTemplate):
    """Convolution of [batch, in_channels, height, width] with [out_channels, in_channels, kh, kw].

    Results are `config.out_dtype`, requantised with a bias and a real multiplier for each channel;
    with `raw` they are the int32 sums. `activation` is none or relu; `floor` and `ceiling` are clip
    bounds (relu6). `packing` is channels, patches, or auto for the better of them; `tiling`
    overrides the search, which assumes with `chained` that another operator runs before
    this one in a chain. With `groups`, weights are [out_channels, in_channels / groups, kh, kw],
    and `packing` is that of channels.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """

    # `by_border`, which is no option: padding is zeros, which are skipped, and the scale has a lane
    # for each set of taps that read the input; else padding is the zero point.
    in_channels: int
    out_channels: int
    groups: int = 1
    packing: str = choice("auto", *_PACKINGS, default="auto")
    name: str = "conv2d"
    by_border: bool = False

    def check(self) -> None:
        """Also reject groups that are no number."""
        check_extents(self.name, groups=self.groups)
        super().check()

    def check_channels(self) -> None:
        """Also reject channels that are not the same number in each group."""
        super().check_channels()
        for what, channels in (("in_channels", self.in_channels), ("out_channels", self.out_channels)):
            if channels % self.groups:
                raise TemplateError(f"{self.name}: groups must divide {what} = {channels}, got {self.groups}")

    @property
    def macs(self) -> int:
        """Multiply-accumulates, without the padding of channels and the zeros between groups."""
        results = self.batch * self.out_channels * prod(self.window.places)
        return results * (self.in_channels // self.groups) * self.taps

    # --- the form

    @property
    def packings(self) -> tuple[str, ...]:
        """The layouts, the one that reads less first where channels fill their blocks.

        Patches have less than the image if windows lie apart; no other operator of a chain writes
        them.
        """
        window, fills = self.window, self.in_channels >= self.config.block_in
        steps = zip(window.taps, window.strides, strict=True)
        apart = window.taps != window.strides and all(size <= step for size, step in steps)
        less = apart and fills and not any(self.window.pads) and not self.chained
        return _PACKINGS[::-1] if less else _PACKINGS

    @property
    def forms(self) -> list[Conv2d]:
        """The forms to choose from, those that read less first.

        Padding with a zero point may be skipped where a few lanes of the scale tell borders. Where
        sums are short, an instruction for each border may cost more than it saves.
        """
        classes = prod(self.window.classes)
        borders = self.input_zero_point and not self.raw and 1 < classes <= min(_MOST_BORDERS, self.config.scl_depth)
        packings = self.packings if self.packing == "auto" and self.groups == 1 else (self.packing,)
        forms = []
        for packing in packings if self.groups == 1 else _PACKINGS[:1]:
            by_border = (True, False) if borders and packing == "channels" else (False,)
            forms += [replace(self, packing=packing, by_border=skips) for skips in by_border]
        return forms

    def with_tiling(self) -> tuple[Conv2d, Tiling]:
        """The form of the convolution with the lowest estimate, and its tiling."""
        best: tuple[Conv2d, Tiling] | None = None
        least, refused = inf, None
        for form in self.forms:
            if best is not None and best[0].packing != form.packing and self.in_channels >= self.config.block_in:
                break  # both have the same products, and the first reads less
            if form.problem.least_cycles >= least:
                continue
            try:
                _, tiling = super(Conv2d, form).with_tiling()
            except TemplateError as error:
                refused = error
                continue
            cycles = ranking_estimate(self.config, form.problem, tiling)
            if cycles < least:
                best, least = (form, tiling), cycles
        if best is None:
            assert refused is not None
            raise refused
        return best

    @property
    def note(self) -> str:
        """What precedes the tiles in the description."""
        sections = f"sections of {self.sections.merged} of {self.groups} groups: "
        return sections if self.groups > 1 else f"{self.packing}: "

    @cached_property
    def sections(self) -> ChannelSections:
        """The groups as the program computes them."""
        inputs, outputs = self.in_channels // self.groups, self.out_channels // self.groups
        return best_sections(self.groups, inputs, outputs, (self.config.block_in, self.config.block_out))

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
        by_class = (self.window.classes, self.class_of) if self.by_border else ()
        terms = ("c",) if self.packing == "channels" else ("ky", "kx", "c")
        lanes = ("o",) if count == 1 else ("o_l",) if outputs > 1 else ()  # within a section
        return fixed_form(self.config, self.result(sums, *by_class), {"b": ("n",), "o": lanes, "i": terms})

    # --- arrays

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors; patches, P, are of kernel positions and channels."""
        data = self.layout(*ACTIVATIONS)
        weight = "OIHW{0.block_out}o{0.block_in}i", "CO/block_out, C/block_in, KH, KW"
        if self.packing == "patches":
            dimensions = "N/batch, KH*KW*C/block_in, H, W, batch, block_in"
            data = replace(self.layout("NPHW{0.batch}n{0.block_in}p", dimensions), holds_patches=True)
            weight = "OP{0.block_out}o{0.block_in}p", "CO/block_out, KH*KW*C/block_in"
        plain: dict[str, Layout] = {
            DATA: data,
            WEIGHT: self.layout(weight[0], f"{weight[1]}, block_out, block_in"),
            SCALE: self.scale_layout("CO", *(BORDERS if self.by_border else ())),
            OUTPUT: self.layout(*RESULTS),
        }
        if self.sections.count == 1:
            return plain
        places = {DATA: 1, WEIGHT: 0, SCALE: 0, OUTPUT: 1}
        gaps = dict(zip((DATA, OUTPUT), self.sections.gaps, strict=True))
        return {role: in_sections(plain[role], at, gaps=gaps.get(role, False)) for role, at in places.items()}

    def pack_inputs(self, data: Array) -> dict[str, Array]:
        """The program's array from NCHW data."""
        shape = (self.batch, self.in_channels, self.height, self.width)
        data = self.sections.whole(check_array("data", data, shape, self.config.inp_dtype), 1, 0)
        return {"data": pack_array(self.packed, DATA, data)}

    def pack_constants(self, weight: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from OIHW weights, int32 biases and real multipliers."""
        shape = (self.out_channels, self.in_channels // self.groups, *self.window.taps)
        weight = check_array("weight", weight, shape, self.config.wgt_dtype)
        offset = -self.input_zero_point * self._weights_inside(weight)
        packed = {"weight": pack_array(self.packed, WEIGHT, self.sections.dense(weight))}
        lanes = self.lanes(bias, multiplier, offset)
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
        rows, cols = (self.window.reads_inside(axis).astype(np.int64) for axis in (0, 1))
        return np.asarray(np.einsum("okl,rk,cl->orc", taps, rows, cols))

    def unpack(self, outputs: Mapping[str, Array], view: te.Tensor | None = None) -> Array:
        """NCHW results from the program's outputs."""
        return np.ascontiguousarray(super().unpack(outputs, view)[:, : self.out_channels])


_SHAPE = (*IMAGE, "in_channels", "out_channels", *WINDOW, "dilations", "groups")
_RESULTS = ("activation", *CLIPPING, "input_zero_point", "raw", "table")
conv2d = template("conv2d", Conv2d, (*_SHAPE, *_RESULTS, "virtual_threads", "packing", "tiling", "chained", "name"))
