"""Two-dimensional convolution on packed layouts, any kernel, stride, padding and dilation, requantised on the way out.

Channels are padded to whole blocks. Where that wastes most of the multipliers (a first layer of three channels), the
operator reads *patches* instead: kernel positions and channels share the blocks, laid out by `pack`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vdla.compiler import te
from vdla.compiler.intrinsics.gemm import gemm
from vdla.compiler.intrinsics.requantise import requantised
from vdla.compiler.templates.schedule import schedule_tiles
from vdla.compiler.templates.operator import Array, Operator, TemplateError
from vdla.compiler.templates.packing import (
    blocks,
    channel_parameters,
    check_range,
    check_array,
    pack_activations,
    pack_scales,
    pack_weights,
    result_bounds,
    unpack_activations,
)
from vdla.compiler.templates.tiling import Problem, Tiling, choose, estimate
from vdla.hardware.config import Config

Pair = tuple[int, int]


def conv2d(
    config: Config,
    *,
    batch: int,
    height: int,
    width: int,
    in_channels: int,
    out_channels: int,
    kernel: int | Pair,
    stride: int | Pair = 1,
    padding: int | Pair = 0,
    dilation: int | Pair = 1,
    activation: str = "none",
    ceiling: int | None = None,
    zero_point: int = 0,
    input_zero_point: int = 0,
    raw: bool = False,
    virtual_threads: int = 2,
    packing: str = "auto",
    tiling: Tiling | None = None,
    name: str = "conv2d",
) -> Operator:
    """Convolution of [batch, in_channels, height, width] with [out_channels, in_channels, kh, kw].

    The results are `config.out_dtype`, requantised by one bias and one real multiplier a channel; with `raw` they are the
    int32 sums. `activation` is none or relu, `ceiling` an upper clip bound (relu6). `packing` is channels, patches, or
    auto for the faster of the two by estimate; `tiling` overrides the search.

    Raises:
        TemplateError: an extent, option or zero point that is out of range, or a shape that fits no buffer.
    """
    conv = Convolution(
        config, batch, height, width, in_channels, out_channels, _pair("kernel", kernel, 1), _pair("stride", stride, 1),
        _pair("padding", padding, 0), _pair("dilation", dilation, 1), activation, ceiling, zero_point, input_zero_point, raw, name,
    )  # fmt: skip
    conv.check()
    if virtual_threads < 1:
        raise TemplateError(f"{name}: virtual_threads must be at least 1, got {virtual_threads}")
    form = _form(conv, packing, virtual_threads, tiling)
    problem = form.problem
    chosen = tiling or choose(config, problem, virtual_threads)
    fn = schedule_tiles(config, form.expression(), problem, chosen, gemm(config), name)
    return Operator(
        name, config, fn, conv.macs, form.pack, form.unpack, form.layouts, ("weight", "scale") if not raw else ("weight",),
        f"{form.packing}: {chosen}",
    )  # fmt: skip


def _pair(name: str, value: int | Pair, low: int) -> Pair:
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2 or any(not isinstance(v, int) or isinstance(v, bool) or v < low for v in pair):
        raise TemplateError(f"conv2d: {name} must be one or two integers >= {low}, got {value!r}")
    return pair[0], pair[1]


def _form(conv: Convolution, packing: str, threads: int, tiling: Tiling | None) -> Convolution:
    """The convolution with its packing decided: the one with the lower estimate."""
    if packing not in ("auto", "channels", "patches"):
        raise TemplateError(f"{conv.name}: packing must be auto, channels or patches, got {packing!r}")
    forms = [replace(conv, packing=p) for p in ("channels", "patches") if packing in ("auto", p)]
    if len(forms) == 1 or conv.in_channels >= conv.config.block_in:
        return forms[0]

    def cost(form: Convolution) -> float:
        try:
            return estimate(conv.config, form.problem, tiling or choose(conv.config, form.problem, threads))
        except TemplateError:
            return float("inf")

    return min(forms, key=cost)


@dataclass(frozen=True)
class Convolution:
    """One convolution: its shape, its tensor expression, its layouts."""

    config: Config
    batch: int
    height: int
    width: int
    in_channels: int
    out_channels: int
    kernel: Pair
    stride: Pair
    padding: Pair
    dilation: Pair
    activation: str
    ceiling: int | None
    zero_point: int
    input_zero_point: int
    raw: bool
    name: str
    packing: str = "channels"

    def check(self) -> None:
        """Refuse a shape without results and options out of range."""
        for what in ("batch", "height", "width", "in_channels", "out_channels"):
            value = getattr(self, what)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise TemplateError(f"{self.name}: {what} must be a positive integer, got {value!r}")
        if min(self.out_size) < 1:
            raise TemplateError(
                f"{self.name}: the kernel must fit the padded input, got kernel {self._reach} on {self.height}x{self.width} "
                f"with padding {self.padding}"
            )
        result_bounds(self.config, self.zero_point, self.activation, self.ceiling)
        check_range("input_zero_point", self.input_zero_point, self.config.inp_dtype)

    @property
    def _reach(self) -> Pair:
        """Input rows and columns that one result sees."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilation, strict=True))  # type: ignore[return-value]

    @property
    def out_size(self) -> Pair:
        """Rows and columns of results."""
        sizes = zip((self.height, self.width), self.padding, self._reach, self.stride, strict=True)
        return tuple((n + 2 * p - r) // s + 1 for n, p, r, s in sizes)  # type: ignore[return-value]

    @property
    def macs(self) -> int:
        """Multiply-accumulates, padding of channels not counted."""
        rows, cols = self.out_size
        return self.batch * rows * cols * self.out_channels * self.in_channels * self.kernel[0] * self.kernel[1]

    # -- in blocks

    @property
    def _inner(self) -> tuple[Pair, Pair, Pair]:
        """Kernel, stride and padding of what runs on blocks: patches make it a 1x1 convolution."""
        return (self.kernel, self.stride, self.padding) if self.packing == "channels" else ((1, 1), (1, 1), (0, 0))

    @property
    def _image(self) -> Pair:
        return (self.height, self.width) if self.packing == "channels" else self.out_size

    @property
    def _in_blocks(self) -> int:
        taps = self.kernel[0] * self.kernel[1] if self.packing == "patches" else 1
        return blocks(self.in_channels * taps, self.config.block_in)

    @property
    def _sampled(self) -> bool:
        """Whether only every stride-th input row is needed: a kernel of one row."""
        return self._inner[0][0] == 1

    @property
    def problem(self) -> Problem:
        """What the tile search sees."""
        (kh, kw), (sh, sw), _ = self._inner
        dh, dw = self.dilation
        rows, cols = self.out_size
        row = (1, 1) if self._sampled else (sh, (kh - 1) * dh + 1)
        return Problem(
            blocks(self.batch, self.config.batch), blocks(self.out_channels, self.config.block_out), self._in_blocks,
            rows, cols, kh * kw, row[0], row[1], sw, (kw - 1) * dw + 1, kh * kw, self.raw,
        )  # fmt: skip

    def expression(self) -> list[te.Tensor]:
        """[data, weight, (scale,) padded, sums, results, output] as tensor expressions."""
        config, problem = self.config, self.problem
        (kh, kw), (sh, sw), _ = self._inner
        dh, dw = self.dilation
        data = te.placeholder(
            (problem.batches, problem.in_blocks, *self._image, config.batch, config.block_in), config.inp_dtype, "data"
        )
        weight = te.placeholder(
            (problem.out_blocks, problem.in_blocks, kh, kw, config.block_out, config.block_in), config.wgt_dtype, "weight"
        )
        padded = self._padded(data)
        ci, ky, kx = te.reduce_axis(problem.in_blocks, "ci"), te.reduce_axis(kh, "ky"), te.reduce_axis(kw, "kx")
        i = te.reduce_axis(config.block_in, "i")
        row = 1 if self._sampled else sh
        sums = te.compute(
            (problem.batches, problem.out_blocks, problem.rows, problem.cols, config.batch, config.block_out),
            lambda n, co, y, x, b, o: te.sum(
                te.cast("int32", padded[n, ci, y * row + ky * dh, x * sw + kx * dw, b, i])
                * te.cast("int32", weight[co, ci, ky, kx, o, i]),
                axis=[ci, ky, kx, i],
            ),
            "sums",
        )
        return [data, weight, *finished(config, sums, self)]

    def _padded(self, data: te.Tensor) -> te.Tensor:
        """The rows and columns that the kernel reads, padding included."""
        problem = self.problem
        (_, (sh, _), (ph, pw)) = self._inner
        step = sh if self._sampled else 1
        rows = (problem.rows - 1) * problem.row_step + problem.row_span
        cols = (problem.cols - 1) * problem.col_step + problem.col_span
        height, width = self._image
        zero = te.const(self.input_zero_point, self.config.inp_dtype)

        def value(pn: te.Value, pc: te.Value, py: te.Value, px: te.Value, pb: te.Value, pi: te.Value) -> te.Value:
            y, x = py * step - ph, px - pw
            inside = [y >= 0] if ph else []
            inside += [y < height] if (rows - 1) * step - ph >= height else []
            inside += ([x >= 0] if pw else []) + ([x < width] if cols - pw > width else [])
            element = data[pn, pc, y, x, pb, pi]
            return te.select(te.all_of(*inside), element, zero) if inside else element

        shape = (problem.batches, problem.in_blocks, rows, cols, self.config.batch, self.config.block_in)
        return te.compute(shape, value, "padded")

    # -- layouts

    @property
    def layouts(self) -> dict[str, str]:
        """Dimensions of the program's tensors."""
        inner = "C/block_in" if self.packing == "channels" else "KH*KW*C/block_in"
        return {
            "data": f"N/batch, {inner}, H, W, batch, block_in",
            "weight": f"CO/block_out, {inner}, KH, KW, block_out, block_in",
            "scale": "CO/block_out, block_out: bias, multiplier, shift",
            "output": "N/batch, CO/block_out, H, W, batch, block_out",
        }

    def pack(self, data: Array, weight: Array, bias: Array | None = None, multiplier: Any = 1.0) -> dict[str, Array]:
        """The program's arrays from NCHW data, OIHW weights, int32 biases and real multipliers."""
        config = self.config
        data = check_array("data", data, (self.batch, self.in_channels, self.height, self.width), config.inp_dtype)
        weight = check_array("weight", weight, (self.out_channels, self.in_channels, *self.kernel), config.wgt_dtype)
        offset = self.input_zero_point * weight.reshape(self.out_channels, -1).astype(np.int64).sum(axis=1)
        packed = {"data": self.pack_data(data)} | {"weight": self.pack_weight(weight)}
        if self.raw:
            if self.input_zero_point or bias is not None:
                raise TemplateError(f"{self.name}: raw sums must have no bias and no input zero point, got one")
            return packed
        biases, factors = channel_parameters(self.out_channels, bias, multiplier)
        return packed | {"scale": pack_scales(biases - offset, factors, config.block_out)}

    def pack_data(self, data: Array) -> Array:
        """NCHW data in the program's layout; for patches, with every window of the kernel laid out."""
        config = self.config
        if self.packing == "channels":
            return pack_activations(data, config.batch, config.block_in)
        return pack_activations(self._patches(data), config.batch, config.block_in)

    def _patches(self, data: Array) -> Array:
        """[N, C, H, W] to [N, KH * KW * C, OH, OW]."""
        (ph, pw), (kh, kw), (dh, dw), (sh, sw) = self.padding, self.kernel, self.dilation, self.stride
        rows, cols = self.out_size
        full = np.pad(data, ((0, 0), (0, 0), (ph, ph), (pw, pw)), constant_values=self.input_zero_point)
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
        return unpack_activations(outputs["output"], (self.batch, self.out_channels, *self.out_size))


def finished(config: Config, sums: te.Tensor, options: Any) -> list[te.Tensor]:
    """[(scale,) padded sums' results and their copy in DRAM], for any operator whose sums are [n, c, ..., b, o]."""
    shape = sums.shape
    if options.raw:
        results = te.compute(shape, lambda *i: sums[i], "results")
        scale: list[te.Tensor] = []
    else:
        lanes = te.placeholder((shape[1], shape[-1]), "int64", "scale")
        low, high = result_bounds(config, options.zero_point, options.activation, options.ceiling)
        results = te.compute(
            shape,
            lambda *i: requantised(sums[i], lanes[i[1], i[-1]], options.zero_point, low, high, config.out_dtype),
            "results",
        )
        scale = [lanes]
    return [*scale, te.compute(shape, lambda *i: results[i], "output")]
