"""Two-dimensional convolution with any kernel, strides, pads and dilations, requantised.

Channels are padded to whole blocks. If that wastes most of the multipliers (a first layer of three
channels), the operator reads *patches* instead: `pack` lays out the windows of the input (im2col),
and kernel positions and channels share the blocks. So it does where the windows lie apart, as those
of a 1x1 kernel with strides do: what lies between them is never moved.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics.gemm import gemm
from vdla.compiler.operators.vdla.grouped_conv2d import grouped_conv2d
from vdla.compiler.operators.vdla.layouts import Layout, activation_layout, result_layout, scale_layout, weight_layout
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, TemplateError, template
from vdla.compiler.operators.vdla.packing import (
    blocks,
    check_array,
    check_output,
    pack_activations,
    pack_weights,
    unpack_activations,
)
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT, SCALE, SUMS, WEIGHT
from vdla.compiler.operators.vdla.schedule import schedule_tiles
from vdla.compiler.operators.vdla.sliding_window import (
    PaddedImage,
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
    )
    conv.check()
    check_threads(name, virtual_threads)
    _check_packing(name, packing)
    if groups > 1:
        return grouped_conv2d(conv, groups, virtual_threads, tiling)
    form, chosen = _form(conv, packing, virtual_threads, tiling)
    fn = schedule_tiles(config, form.expression(), form.problem, chosen, gemm(config), name)
    return Operator(
        name=name,
        config=config,
        function=fn,
        macs=conv.macs,
        pack=form.pack,
        pack_inputs=form.pack_inputs,
        pack_constants=form.pack_constants,
        unpack=form.unpack,
        layouts=form.layouts,
        problem=form.problem,
        description=f"{form.packing}: {chosen}",
    )


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
    tried: list[tuple[_Conv2d, Tiling]] = []
    for form in forms:
        if tried and conv.in_channels >= conv.config.block_in:
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

    @property
    def macs(self) -> int:
        """Multiply-accumulates, without the padding of channels."""
        rows, cols = self.out_size
        return self.batch * rows * cols * self.out_channels * self.in_channels * self.taps

    @property
    def on_blocks(self) -> SlidingWindow:
        """The convolution of blocks: with patches, one of 1x1."""
        if self.packing == "channels":
            return self
        (height, width), one = self.out_size, (1, 1)
        return replace(
            self,
            height=height,
            width=width,
            in_channels=self.in_channels * self.taps,
            kernel=one,
            strides=one,
            pads=(0, 0, 0, 0),
            dilations=one,
            packing="channels",
        )

    @property
    def problem(self) -> TilingProblem:
        """The operator as the tile search sees it."""
        config, inner = self.config, self.on_blocks
        row_step = 1 if _sampled(inner) else inner.strides[0]
        kept, cuts = (1.0, (0, 0)) if self.input_zero_point and not self.by_border else inner.padding()
        return TilingProblem(
            batches=blocks(self.batch, config.batch),
            out_blocks=blocks(self.out_channels, config.block_out),
            in_blocks=blocks(inner.in_channels, config.block_in),
            rows=self.out_size[0],
            cols=self.out_size[1],
            taps=inner.taps,
            row_step=row_step,
            row_span=inner.span[0],
            col_step=inner.strides[1],
            col_span=inner.span[1],
            weights=inner.taps,
            raw=self.results.raw,
            kept=kept,
            cuts=cuts,
            chained=self.chained,
            lanes=prod(self.extents) if self.by_border else 1,
        )

    @property
    def extents(self) -> Pair:
        """Classes of rows and of columns by the taps that read padding."""
        rows, cols = self.borders
        return rows.classes, cols.classes

    def expression(self) -> list[te.Tensor]:
        """[data, weight, (scale,) output] as tensor expressions."""
        config, problem, inner = self.config, self.problem, self.on_blocks
        (kh, kw), (sh, sw), (dh, dw) = inner.kernel, inner.strides, inner.dilations
        shape = (problem.batches, problem.in_blocks, inner.height, inner.width, config.batch, config.block_in)
        kernel = (problem.out_blocks, problem.in_blocks, kh, kw, config.block_out, config.block_in)
        data = te.placeholder(shape, config.inp_dtype, DATA)
        weight = te.placeholder(kernel, config.wgt_dtype, WEIGHT)
        row_step = sh if _sampled(inner) else 1
        fill = 0 if self.by_border else self.input_zero_point
        image = PaddedImage(inner.pads_before, problem.window_size, fill, row_step)
        window = image.stage(data, config.inp_dtype)
        ci, ky, kx = te.reduce_axis(problem.in_blocks, "ci"), te.reduce_axis(kh, "ky"), te.reduce_axis(kw, "kx")
        i = te.reduce_axis(config.block_in, "i")

        def total(n: te.Value, co: te.Value, y: te.Value, x: te.Value, b: te.Value, o: te.Value) -> te.Value:
            value = te.cast("int32", window[n, ci, y * (sh // row_step) + ky * dh, x * sw + kx * dw, b, i])
            return te.sum(value * te.cast("int32", weight[co, ci, ky, kx, o, i]), axis=[ci, ky, kx, i])

        shape = (problem.batches, problem.out_blocks, problem.rows, problem.cols, config.batch, config.block_out)
        sums = te.compute(shape, total, SUMS)
        if not self.by_border:
            return [data, weight, *self.results.tensors(sums)]
        rows, cols = self.borders
        results = self.results.tensors(sums, self.extents, lambda i: (rows.class_of(i[2]), cols.class_of(i[3])))
        return [data, weight, *results]

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        channels = "C" if self.packing == "channels" else "KH*KW*C"
        return {
            DATA: activation_layout(self.config, channels),
            WEIGHT: weight_layout(self.config, channels),
            SCALE: scale_layout(self.config, "CO", ("HW", ", row class, column class") if self.by_border else ("", "")),
            OUTPUT: result_layout(self.config),
        }

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
        shape = (self.out_channels, self.in_channels, *self.kernel)
        weight = check_array("weight", weight, shape, self.config.wgt_dtype)
        offset = -self.input_zero_point * self._weights_inside(weight)
        return {"weight": self.pack_weight(weight)} | self.results.pack(self.out_channels, bias, multiplier, offset)

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
        config = self.config
        if self.packing == "channels":
            return pack_activations(data, config.batch, config.block_in)
        return pack_activations(self._patches(data), config.batch, config.block_in)

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
        config = self.config
        if self.packing == "patches":
            weight = weight.transpose(0, 2, 3, 1).reshape(self.out_channels, -1, 1, 1)
        return pack_weights(weight, config.block_out, config.block_in)

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """NCHW results from the program's outputs."""
        return unpack_activations(check_output(outputs, 6), (self.batch, self.out_channels, *self.out_size))


def _sampled(inner: SlidingWindow) -> bool:
    """Whether only every stride-th input row is read: the kernel has one row."""
    return inner.kernel[0] == 1
