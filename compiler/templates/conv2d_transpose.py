"""Transposed convolution: for each of the stride x stride phases of the output, an ordinary convolution with its taps.

Row y * stride + p of the output sums the kernel rows k with (p + padding - k) divisible by the stride, so no multiplier
works on inserted zeros. Kernels that are no multiple of the stride are padded with zero taps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.compiler import te
from vdla.compiler.intrinsics.gemm import gemm
from vdla.compiler.templates.conv2d import Pair, _pair, finished
from vdla.compiler.templates.operator import Array, Operator, TemplateError
from vdla.compiler.templates.packing import (
    blocks,
    channel_parameters,
    check_array,
    check_range,
    pack_activations,
    pack_scales,
    padded,
    result_bounds,
)
from vdla.compiler.templates.schedule import schedule_tiles
from vdla.compiler.templates.tiling import Problem, Tiling, choose
from vdla.hardware.config import Config


def conv2d_transpose(
    config: Config, *, batch: int, height: int, width: int, in_channels: int, out_channels: int, kernel: int | Pair,
    stride: int | Pair = 1, padding: int | Pair = 0, output_padding: int | Pair = 0, activation: str = "none",
    ceiling: int | None = None, zero_point: int = 0, input_zero_point: int = 0, raw: bool = False, virtual_threads: int = 2,
    tiling: Tiling | None = None, name: str = "conv2d_transpose",
) -> Operator:  # fmt: skip
    """Transposed convolution of [batch, in_channels, height, width] with [in_channels, out_channels, kh, kw].

    Results have (height - 1) * stride - 2 * padding + kernel + output_padding rows, columns alike; options as for `conv2d`.

    Raises:
        TemplateError: an extent, option or zero point that is out of range, or a shape that fits no buffer.
    """
    op = Transposed(
        config, batch, height, width, in_channels, out_channels, _pair("kernel", kernel, 1), _pair("stride", stride, 1),
        _pair("padding", padding, 0), _pair("output_padding", output_padding, 0), activation, ceiling, zero_point,
        input_zero_point, raw, name,
    )  # fmt: skip
    op.check()
    problem = op.problem
    chosen = tiling or choose(config, problem, virtual_threads)
    fn = schedule_tiles(config, op.expression(), problem, chosen, gemm(config), name)
    return Operator(name, config, fn, op.macs, op.pack, op.unpack, op.layouts, ("weight", "scale"), str(chosen))


@dataclass(frozen=True)
class Transposed:
    """One transposed convolution: its shape, its tensor expression, its layouts."""

    config: Config
    batch: int
    height: int
    width: int
    in_channels: int
    out_channels: int
    kernel: Pair
    stride: Pair
    padding: Pair
    output_padding: Pair
    activation: str
    ceiling: int | None
    zero_point: int
    input_zero_point: int
    raw: bool
    name: str

    def check(self) -> None:
        """Refuse a shape without results and options out of range."""
        for what in ("batch", "height", "width", "in_channels", "out_channels"):
            value = getattr(self, what)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise TemplateError(f"{self.name}: {what} must be a positive integer, got {value!r}")
        if any(extra >= step for extra, step in zip(self.output_padding, self.stride, strict=True)):
            raise TemplateError(f"{self.name}: output_padding must be less than the stride, got {self.output_padding} for {self.stride}")
        if min(self.out_size) < 1:
            raise TemplateError(f"{self.name}: padding must leave results, got {self.padding} for an output of {self.out_size}")
        result_bounds(self.config, self.zero_point, self.activation, self.ceiling)
        check_range("input_zero_point", self.input_zero_point, self.config.inp_dtype)

    @property
    def out_size(self) -> Pair:
        """Rows and columns of results."""
        sizes = zip((self.height, self.width), self.stride, self.padding, self.kernel, self.output_padding, strict=True)
        return tuple((n - 1) * s - 2 * p + k + extra for n, s, p, k, extra in sizes)  # type: ignore[return-value]

    @property
    def taps(self) -> Pair:
        """Kernel rows and columns of one phase."""
        return tuple(blocks(k, s) for k, s in zip(self.kernel, self.stride, strict=True))  # type: ignore[return-value]

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the definition: every input with every tap."""
        return self.batch * self.height * self.width * self.in_channels * self.out_channels * self.kernel[0] * self.kernel[1]

    @property
    def _tiles(self) -> Pair:
        """Positions at which all phases are computed; rows and columns beyond the output are dropped by `unpack`."""
        return tuple(blocks(n, s) for n, s in zip(self.out_size, self.stride, strict=True))  # type: ignore[return-value]

    @property
    def _spans(self) -> Pair:
        """Padded input rows and columns seen from one position by all phases."""
        spans = zip(self.stride, self.padding, self.taps, strict=True)
        return tuple((s - 1 + p) // s - p // s + t for s, p, t in spans)  # type: ignore[return-value]

    @property
    def problem(self) -> Problem:
        """What the tile search sees."""
        config, (ty, tx), (sh, sw) = self.config, self.taps, self.stride
        return Problem(
            blocks(self.batch, config.batch), blocks(self.out_channels, config.block_out),
            blocks(self.in_channels, config.block_in), *self._tiles, ty * tx, 1, self._spans[0], 1, self._spans[1],
            ty * tx * sh * sw, self.raw, phases=sh * sw,
        )  # fmt: skip

    def expression(self) -> list[te.Tensor]:
        """[data, weight, (scale,) output] as tensor expressions; outputs are [n, c, y, phase, x, phase, b, o]."""
        config, problem, (ty, tx), (sh, sw), (ph, pw) = self.config, self.problem, self.taps, self.stride, self.padding
        data = te.placeholder(
            (problem.batches, problem.in_blocks, self.height, self.width, config.batch, config.block_in), config.inp_dtype, "data"
        )
        weight = te.placeholder(
            (problem.out_blocks, problem.in_blocks, sh, sw, ty, tx, config.block_out, config.block_in), config.wgt_dtype, "weight"
        )
        window = self._padded(data)
        ci, ky, kx = te.reduce_axis(problem.in_blocks, "ci"), te.reduce_axis(ty, "ky"), te.reduce_axis(tx, "kx")
        i = te.reduce_axis(config.block_in, "i")

        def total(
            n: te.Value, co: te.Value, y: te.Value, py: te.Value, x: te.Value, px: te.Value, b: te.Value, o: te.Value
        ) -> te.Value:
            row = y + (py + ph) // sh + ky if sh > 1 else y + ph + ky
            col = x + (px + pw) // sw + kx if sw > 1 else x + pw + kx
            factor = te.cast("int32", weight[co, ci, py, px, ky, kx, o, i])
            return te.sum(te.cast("int32", window[n, ci, row, col, b, i]) * factor, axis=[ci, ky, kx, i])

        shape = (problem.batches, problem.out_blocks, self._tiles[0], sh, self._tiles[1], sw, config.batch, config.block_out)
        return [data, weight, *finished(config, te.compute(shape, total, "sums"), self)]

    def _padded(self, data: te.Tensor) -> te.Tensor:
        """The input with taps - 1 rows and columns before it, and what the last positions need after it."""
        (ty, tx), (sh, sw), (ph, pw) = self.taps, self.stride, self.padding
        rows = self._tiles[0] - 1 + (sh - 1 + ph) // sh + ty
        cols = self._tiles[1] - 1 + (sw - 1 + pw) // sw + tx
        zero = te.const(self.input_zero_point, self.config.inp_dtype)

        def value(pn: te.Value, pc: te.Value, py: te.Value, px: te.Value, pb: te.Value, pi: te.Value) -> te.Value:
            y, x = (py - (ty - 1) if ty > 1 else py), (px - (tx - 1) if tx > 1 else px)
            inside = ([y >= 0] if ty > 1 else []) + ([y < self.height] if rows - ty + 1 > self.height else [])
            inside += ([x >= 0] if tx > 1 else []) + ([x < self.width] if cols - tx + 1 > self.width else [])
            element = data[pn, pc, y, x, pb, pi]
            return te.select(te.all_of(*inside), element, zero) if inside else element

        return te.compute((*data.shape[:2], rows, cols, *data.shape[4:]), value, "padded")

    @property
    def layouts(self) -> dict[str, str]:
        """Dimensions of the program's tensors."""
        return {
            "data": "N/batch, C/block_in, H, W, batch, block_in",
            "weight": "CO/block_out, C/block_in, SH, SW, KH/SH, KW/SW, block_out, block_in",
            "scale": "CO/block_out, block_out: bias, multiplier, shift",
            "output": "N/batch, CO/block_out, H/SH, SH, W/SW, SW, batch, block_out",
        }

    def pack(self, data: Array, weight: Array, bias: Array | None = None, multiplier: Any = 1.0) -> dict[str, Array]:
        """The program's arrays from NCHW data, IOHW weights, int32 biases and real multipliers."""
        config = self.config
        data = check_array("data", data, (self.batch, self.in_channels, self.height, self.width), config.inp_dtype)
        weight = check_array("weight", weight, (self.in_channels, self.out_channels, *self.kernel), config.wgt_dtype)
        packed = {"data": pack_activations(data, config.batch, config.block_in), "weight": self._pack_weight(weight)}
        if self.raw:
            return packed
        if self.input_zero_point:
            raise TemplateError(
                f"{self.name}: input_zero_point must be 0, as the taps of a result depend on its place, got {self.input_zero_point}"
            )
        biases, factors = channel_parameters(self.out_channels, bias, multiplier)
        return packed | {"scale": pack_scales(biases, factors, config.block_out)}

    def _pack_weight(self, weight: Array) -> Array:
        """The taps of each phase, last first, as a convolution wants them."""
        config, (ty, tx), (sh, sw), (ph, pw) = self.config, self.taps, self.stride, self.padding
        ib, ob = blocks(self.in_channels, config.block_in), blocks(self.out_channels, config.block_out)
        full = padded(weight, (ib * config.block_in, ob * config.block_out, ty * sh, tx * sw))
        rows = np.array([[(p + ph) % sh + sh * (ty - 1 - t) for t in range(ty)] for p in range(sh)])
        cols = np.array([[(p + pw) % sw + sw * (tx - 1 - t) for t in range(tx)] for p in range(sw)])
        taps = full[:, :, rows[:, None, :, None], cols[None, :, None, :]]  # [I, O, SH, SW, TY, TX]
        split = taps.reshape(ib, config.block_in, ob, config.block_out, sh, sw, ty, tx)
        return np.ascontiguousarray(split.transpose(2, 0, 4, 5, 6, 7, 3, 1), np.int8)

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """NCHW results from the program's outputs."""
        out = outputs["output"]
        nb, cb, ty, sh, tx, sw, batch, block = out.shape
        full = out.transpose(0, 6, 1, 7, 2, 3, 4, 5).reshape(nb * batch, cb * block, ty * sh, tx * sw)
        return np.ascontiguousarray(full[: self.batch, : self.out_channels, : self.out_size[0], : self.out_size[1]])
