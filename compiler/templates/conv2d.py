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
from math import prod

import numpy as np

from vdla.compiler.map.fixed_form import fixed_form
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.tile_facts import tiling_problem
from vdla.compiler.operators.definitions import convolution
from vdla.compiler.operators.vdla.layouts import (
    Layout,
    activation_layout,
    in_sections,
    result_layout,
    scale_layout,
    weight_layout,
)
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, TemplateError, template
from vdla.compiler.operators.vdla.packing import (
    check_array,
    check_output,
    pack_activations,
    pack_weights,
    unpack_activations,
)
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT, SCALE, WEIGHT
from vdla.compiler.operators.vdla.sliding_window import (
    Pads,
    Pair,
    SlidingWindow,
    check_extents,
    check_threads,
    four_pads,
    pair,
)
from vdla.compiler.operators.vdla.tiling import choose_tiling, estimate
from vdla.compiler.operators.vdla.tiling_problem import Tiling, TilingProblem
from vdla.compiler.templates.channel_sections import ChannelSections, best_sections
from vdla.compiler.templates.mapped_template import mapped_template
from vdla.compiler.templates.plain_result import plain_result
from vdla.hardware.config import Config

_MOST_BORDERS = 16
_PACKINGS = ("channels", "patches")


@template
def conv2d(
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
    dilations: int | Pair = 1,
    groups: int = 1,
    activation: str = "none",
    floor: int | None = None,
    ceiling: int | None = None,
    zero_point: int = 0,
    input_zero_point: int = 0,
    raw: bool = False,
    virtual_threads: int = 2,
    packing: str = "auto",
    tiling: Tiling | None = None,
    chained: bool = False,
    name: str = "conv2d",
) -> Operator:
    """Convolution of [batch, in_channels, height, width] with [out_channels, in_channels, kh, kw].

    Results are `config.out_dtype`, requantised with a bias and a real multiplier for each channel;
    with `raw` they are the int32 sums. `activation` is none or relu; `floor` and `ceiling` are clip
    bounds (relu6). `packing` is channels, patches, or auto for the better of `packings`; `tiling`
    overrides the search, which assumes with `chained` that another operator runs before
    this one in a chain. With `groups`, weights are [out_channels, in_channels / groups, kh, kw],
    and `packing` is that of channels.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """
    check_extents(name, [("groups", groups)])
    _check_packing(name, packing)
    conv = _Conv2d(
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
        chained=chained,
        groups=groups,
    )
    conv.check()
    check_threads(name, virtual_threads)
    form, chosen = _form(conv, "channels" if groups > 1 else packing, virtual_threads, tiling)
    note = f"sections of {form.sections.merged} of {groups} groups: " if groups > 1 else f"{form.packing}: "
    return mapped_template(form, form.packed, form.problem, chosen, form.macs, note)


def packings(
    config: Config, in_channels: int, kernel: Pair, strides: Pair, pads: Pads, chained: bool
) -> tuple[str, ...]:
    """The layouts, the one that reads less first where channels fill their blocks.

    Patches have less than the image if windows lie apart; no other operator of a chain writes them.
    """
    apart = kernel != strides and all(size <= step for size, step in zip(kernel, strides, strict=True))
    less = apart and in_channels >= config.block_in and not any(pads) and not chained
    return _PACKINGS[::-1] if less else _PACKINGS


def _check_packing(name: str, packing: str) -> None:
    if packing not in ("auto", *_PACKINGS):
        raise TemplateError(f"{name}: packing must be auto, channels or patches, got {packing!r}")


def _has_borders(conv: _Conv2d) -> bool:
    """Whether padding with a zero point is skipped: a few lanes of the scale tell borders apart."""
    padded = bool(conv.input_zero_point) and not conv.results.raw and prod(conv.extents) > 1
    return padded and prod(conv.extents) <= min(_MOST_BORDERS, conv.config.scl_depth)


def _form(conv: _Conv2d, packing: str, threads: int, tiling: Tiling | None) -> tuple[_Conv2d, Tiling]:
    """The form of the convolution with the lowest estimate, and its tiling."""
    auto = packings(conv.config, conv.in_channels, conv.kernel, conv.strides, conv.pads, conv.chained)
    layouts = auto if packing == "auto" else (packing,)
    forms = [replace(conv, packing=each, by_border=each == "channels" and _has_borders(conv)) for each in layouts]
    if conv.groups > 1 and forms[0].by_border:
        forms.append(conv)  # its few channels may not be worth a lane for each border
    tried: list[tuple[_Conv2d, Tiling]] = []
    for form in forms:
        if tried and conv.groups == 1 and conv.in_channels >= conv.config.block_in:
            break  # both have the same products, and the first reads less
        try:
            chosen = choose_tiling(conv.config, form.problem, threads, tiling, conv.name)
        except TemplateError:
            if form is forms[-1] and not tried:
                raise
            continue
        tried.append((form, chosen))
    if len(tried) == 1:
        return tried[0]
    return min(tried, key=lambda form: estimate(conv.config, form[0].problem, form[1]))


@dataclass(frozen=True)
class _Conv2d(SlidingWindow):
    """A convolution: its shape, expression and layouts.

    `by_border`: padding is zeros, which are skipped, and the scale has a lane for each set of taps
    that read the input; else padding is the zero point.
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
        return replace(tiling_problem(self.packed), chained=self.chained)

    @property
    def extents(self) -> Pair:
        """Classes of rows and of columns by the taps that read padding."""
        rows, cols = self.borders
        return rows.classes, cols.classes

    @cached_property
    def packed(self) -> PackedForm:
        """The program's form."""
        count, (inputs, outputs) = self.sections.count, self.sections.channels
        sums = convolution(
            batch=self.batch,
            in_channels=count * inputs,
            out_channels=count * outputs,
            size=(self.height, self.width),
            kernel=self.kernel,
            strides=self.strides,
            pads=self.pads,
            dilations=self.dilations,
            groups=count,
            fill=0 if self.by_border else self.input_zero_point,
            dtype=self.config.inp_dtype,
            weight_dtype=self.config.wgt_dtype,
        ).output
        output = plain_result(self.results, sums)
        if self.by_border:
            rows, cols = self.borders
            output = plain_result(
                self.results, sums, self.extents, lambda i: (rows.class_of(i[2]), cols.class_of(i[3]))
            )
        terms = ("c",) if self.packing == "channels" else ("ky", "kx", "c")
        lanes = ("o",) if count == 1 else ("o_l",) if outputs > 1 else ()  # within a section
        return fixed_form(self.config, output, {"b": ("n",), "o": lanes, "i": terms})

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        config, several = self.config, self.sections.count > 1
        channels = "C" if self.packing == "channels" else "KH*KW*C"
        scale = scale_layout(config, "CO", ("HW", ", row class, column class") if self.by_border else ("", ""))
        plain: dict[str, Layout] = {
            DATA: activation_layout(config, channels),
            WEIGHT: weight_layout(config, channels),
            SCALE: scale,
            OUTPUT: result_layout(config),
        }
        return (
            {role: in_sections(layout, role in (DATA, OUTPUT)) for role, layout in plain.items()} if several else plain
        )

    def pack(
        self, data: Array, weight: Array, bias: Array | None = None, multiplier: Factors = None
    ) -> dict[str, Array]:
        """The program's arrays from NCHW data, OIHW weights, int32 biases and real multipliers."""
        return self.pack_inputs(data) | self.pack_constants(weight, bias, multiplier)

    def pack_inputs(self, data: Array) -> dict[str, Array]:
        """The program's array from NCHW data."""
        shape = (self.batch, self.in_channels, self.height, self.width)
        return {"data": self.pack_data(check_array("data", data, shape, self.config.inp_dtype))}

    def pack_constants(self, weight: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from OIHW weights, int32 biases and real multipliers."""
        shape = (self.out_channels, self.in_channels // self.groups, *self.kernel)
        weight = check_array("weight", weight, shape, self.config.wgt_dtype)
        offset = -self.input_zero_point * self._weights_inside(weight)
        scale = self.results.pack(
            self.out_channels, bias, multiplier, offset, arrange=lambda lanes: self.sections.spread(lanes, 0, 1)
        )
        return {"weight": self.pack_weight(weight)} | {
            name: self.sections.split(array, 0) for name, array in scale.items()
        }

    def _weights_inside(self, weight: Array) -> Array:
        """The sum of the weights of each output channel that read the input, [O] or [O, row class,
        column class]; padding is read as the zero point unless there are classes.
        """
        taps = weight.sum(axis=1, dtype=np.int64)
        if not self.by_border:
            return np.asarray(taps.sum(axis=(1, 2)))
        rows, cols = (self.reads_inside(axis)[self.borders[axis].firsts] for axis in (0, 1))
        return np.asarray(np.einsum("okl,rk,cl->orc", taps, rows.astype(np.int64), cols.astype(np.int64)))

    def pack_data(self, data: Array) -> Array:
        """NCHW data in the program's layout."""
        config, sections = self.config, self.sections
        channels = sections.spread(data, 1, 0) if self.packing == "channels" else self._patches(data)
        return sections.split(pack_activations(channels, config.batch, config.block_in), 1)

    def _patches(self, data: Array) -> Array:
        """[N, C, H, W] to [N, KH * KW * C, OH, OW]."""
        (top, left, bottom, right), (kh, kw) = self.pads, self.kernel
        (dh, dw), (sh, sw), (rows, cols) = self.dilations, self.strides, self.out_size
        sides = ((0, 0), (0, 0), (top, bottom), (left, right))
        full = np.pad(data, sides, constant_values=self.input_zero_point)
        windows = [
            full[:, :, y * dh : y * dh + (rows - 1) * sh + 1 : sh, x * dw : x * dw + (cols - 1) * sw + 1 : sw]
            for y in range(kh)
            for x in range(kw)
        ]
        return np.concatenate(windows, axis=1)

    def pack_weight(self, weight: Array) -> Array:
        """OIHW weights in the program's layout."""
        config, sections = self.config, self.sections
        if self.packing == "channels":
            return sections.split(pack_weights(sections.dense(weight), config.block_out, config.block_in), 0)
        patches = weight.transpose(0, 2, 3, 1).reshape(self.out_channels, -1, 1, 1)
        return pack_weights(patches, config.block_out, config.block_in)[:, :, 0, 0]

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """NCHW results from the program's outputs."""
        sections = self.sections
        packed = sections.merge(check_output(outputs, 6 + (sections.count > 1)), 1)
        whole = (self.batch, sections.count * sections.padded[1], *self.out_size)
        return sections.joined(unpack_activations(packed, whole))
