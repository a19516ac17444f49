"""Grouped convolutions as one program: sections of groups, one convolution after the other.

A section is as many groups as fill blocks best. Its weights are dense over its blocks, with zeros
between its groups, so groups of few channels share the multipliers that a block has in any case.
Where sections are whole blocks, channels lie as in any other activation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics.gemm import gemm
from vdla.compiler.operators.vdla.layouts import Layout, activation_layout, result_layout, scale_layout, weight_layout
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, TemplateError
from vdla.compiler.operators.vdla.packing import (
    blocks,
    check_array,
    check_output,
    pack_activations,
    pack_weights,
    unpack_activations,
)
from vdla.compiler.operators.vdla.roles import DATA, OUTPUT, SCALE, SUMS, WEIGHT, Role
from vdla.compiler.operators.vdla.schedule import schedule_tiles
from vdla.compiler.operators.vdla.sliding_window import PaddedImage, SlidingWindow
from vdla.compiler.operators.vdla.tiling import choose_tiling
from vdla.compiler.operators.vdla.tiling_problem import Tiling, TilingProblem


def grouped_conv2d(window: SlidingWindow, groups: int, threads: int, tiling: Tiling | None) -> Operator:
    """The operator of a checked window, whose channels `groups` must divide."""
    for what, channels in (("in_channels", window.in_channels), ("out_channels", window.out_channels)):
        if channels % groups:
            raise TemplateError(f"{window.name}: groups must divide {what} = {channels}, got {groups}")
    conv = _best_sections(window, groups)
    problem = conv.problem
    chosen = choose_tiling(conv.config, problem, threads, tiling, conv.name)
    return Operator(
        name=conv.name,
        config=conv.config,
        function=schedule_tiles(conv.config, conv.expression(), problem, chosen, gemm(conv.config), conv.name),
        macs=conv.macs,
        pack=conv.pack,
        pack_inputs=conv.pack_inputs,
        pack_constants=conv.pack_constants,
        unpack=conv.unpack,
        layouts=conv.layouts,
        problem=problem,
        description=f"sections of {conv.merged} of {groups} groups: {chosen}",
    )


def _best_sections(window: SlidingWindow, groups: int) -> GroupedConv2d:
    """The sections with the fewest steps; of these, whole blocks."""
    inherited = {name: getattr(window, name) for name in SlidingWindow.__dataclass_fields__}
    most = min(groups, max(window.config.block_in, window.config.block_out))
    forms = [GroupedConv2d(**inherited, groups=groups, merged=merged) for merged in range(1, most + 1)]
    return min(forms, key=lambda conv: (conv.sections * conv.in_blocks * conv.out_blocks, conv.has_gaps))


@dataclass(frozen=True)
class GroupedConv2d(SlidingWindow):
    """A convolution of `groups`, of which `merged` are a section."""

    groups: int = 1
    merged: int = 1

    @property
    def sections(self) -> int:
        """Sections, the last of which may have fewer groups."""
        return blocks(self.groups, self.merged)

    @property
    def section_channels(self) -> tuple[int, int]:
        """Input and output channels of a whole section."""
        return self.in_channels // self.groups * self.merged, self.out_channels // self.groups * self.merged

    @property
    def in_blocks(self) -> int:
        """Input blocks of a section."""
        return blocks(self.section_channels[0], self.config.block_in)

    @property
    def out_blocks(self) -> int:
        """Output blocks of a section."""
        return blocks(self.section_channels[1], self.config.block_out)

    @property
    def has_gaps(self) -> bool:
        """Whether channels have padding between sections."""
        gaps = [n % block for n, block in zip(self.section_channels, self._blocks, strict=True)]
        return self.sections > 1 and any(gaps)

    @property
    def _blocks(self) -> tuple[int, int]:
        return self.config.block_in, self.config.block_out

    @property
    def macs(self) -> int:
        """Multiply-accumulates, without padding and the zeros between groups."""
        rows, cols = self.out_size
        return self.batch * rows * cols * self.out_channels * (self.in_channels // self.groups) * self.taps

    @property
    def problem(self) -> TilingProblem:
        """One section as the tile search sees it; all of them, if each is one block."""
        separate = self.in_blocks == self.out_blocks == 1
        kept, cuts = (1.0, (0, 0)) if self.input_zero_point else self.padding()
        return TilingProblem(
            batches=blocks(self.batch, self.config.batch),
            out_blocks=self.sections if separate else self.out_blocks,
            in_blocks=self.in_blocks,
            rows=self.out_size[0],
            cols=self.out_size[1],
            taps=self.taps,
            row_step=self.strides[0],
            row_span=self.span[0],
            col_step=self.strides[1],
            col_span=self.span[1],
            weights=self.taps,
            raw=self.results.raw,
            separate=separate,
            sections=1 if separate else self.sections,
            kept=kept,
            cuts=cuts,
        )

    def expression(self) -> list[te.Tensor]:
        """[data, weight, (scale,) output] as tensor expressions."""
        config, problem, sections = self.config, self.problem, self.sections
        (kh, kw), (sh, sw), (dh, dw) = self.kernel, self.strides, self.dilations
        entry = (config.batch, config.block_in)
        shape = (problem.batches, sections * self.in_blocks, self.height, self.width, *entry)
        data = te.placeholder(shape, config.inp_dtype, DATA)
        weight = te.placeholder(self.weight_shape, config.wgt_dtype, self.factor)
        window = PaddedImage(self.pads_before, problem.window_size, self.input_zero_point).stage(data, config.inp_dtype)
        ci, ky, kx = te.reduce_axis(self.in_blocks, "ci"), te.reduce_axis(kh, "ky"), te.reduce_axis(kw, "kx")
        i = te.reduce_axis(config.block_in, "i")

        def total(n: te.Value, co: te.Value, y: te.Value, x: te.Value, b: te.Value, o: te.Value) -> te.Value:
            block = co if problem.separate else co // self.out_blocks * self.in_blocks + ci
            value = te.cast("int32", window[n, block, y * sh + ky * dh, x * sw + kx * dw, b, i])
            factor = te.cast("int32", weight[(*self.weight_entry(co, ci, ky, kx), o, i)])
            return te.sum(value * factor, axis=[ci, ky, kx, i])

        results = (problem.batches, sections * self.out_blocks, *self.out_size, config.batch, config.block_out)
        return [data, weight, *self.results.tensors(te.compute(results, total, SUMS))]

    @property
    def factor(self) -> Role:
        """The parameter that the GEMM reads as weights."""
        return WEIGHT

    @property
    def weight_shape(self) -> tuple[int, ...]:
        """Shape of the packed weights in DRAM."""
        config = self.config
        blocked = (self.sections * self.out_blocks, self.in_blocks)
        return (*blocked, *self.kernel, config.block_out, config.block_in)

    def weight_entry(self, co: te.Value, *tap: te.ReduceAxis) -> tuple[te.Value | te.ReduceAxis, ...]:
        """The entry of an output block and a tap: input block of the section, row, column."""
        return co, *tap

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        return {
            DATA: activation_layout(self.config),
            WEIGHT: weight_layout(self.config),
            SCALE: scale_layout(self.config, "CO"),
            OUTPUT: result_layout(self.config),
        }

    def pack(
        self, data: Array, weight: Array, bias: Array | None = None, multiplier: Factors = None
    ) -> dict[str, Array]:
        """The program's arrays from NCHW data, weights, int32 biases and real multipliers."""
        return self.pack_inputs(data) | self.pack_constants(weight, bias, multiplier)

    def pack_inputs(self, data: Array) -> dict[str, Array]:
        """The program's array from NCHW data."""
        config, shape = self.config, (self.batch, self.in_channels, self.height, self.width)
        spread = self._spread(check_array("data", data, shape, config.inp_dtype), 1, 0)
        return {"data": pack_activations(spread, config.batch, config.block_in)}

    def pack_constants(self, weight: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from [O, C / groups, KH, KW] weights, biases and multipliers."""
        shape = (self.out_channels, self.in_channels // self.groups, *self.kernel)
        weight = check_array("weight", weight, shape, self.config.wgt_dtype)
        offset = -self.input_zero_point * weight.reshape(self.out_channels, -1).sum(axis=1, dtype=np.int64)
        return {"weight": self._pack_weight(weight)} | self.pack_results(bias, multiplier, offset)

    def _pack_weight(self, weight: Array) -> Array:
        config, (outputs, inputs) = self.config, (n // self.groups for n in (self.out_channels, self.in_channels))
        shape = (self.sections, self.out_blocks * config.block_out, self.in_blocks * config.block_in, *self.kernel)
        dense = np.zeros(shape, np.int8)
        for group in range(self.groups):
            section, at = divmod(group, self.merged)
            rows, columns = (slice(at * n, (at + 1) * n) for n in (outputs, inputs))
            dense[section, rows, columns] = weight[group * outputs : (group + 1) * outputs]
        return pack_weights(dense.reshape(-1, *shape[2:]), config.block_out, config.block_in)

    def pack_results(self, bias: Array | None, multiplier: Factors, offset: Array) -> dict[str, Array]:
        """The scale tensor, with gaps between sections."""
        packed = self.results.pack(self.out_channels, bias, multiplier, offset)
        lanes = {name: array.reshape(-1)[: self.out_channels] for name, array in packed.items()}
        return {name: self._spread(array, 0, 1).reshape(-1, self.config.block_out) for name, array in lanes.items()}

    def _spread(self, array: Array, axis: int, side: int) -> Array:
        """`array` with its channels, of the input or the output `side`, padded to whole blocks in
        each section.
        """
        channels, block = self.section_channels[side], self._blocks[side]
        moved = np.moveaxis(array, axis, 0)
        whole = np.zeros((self.sections * channels, *moved.shape[1:]), array.dtype)
        whole[: len(moved)] = moved
        padded = np.zeros((self.sections, blocks(channels, block) * block, *moved.shape[1:]), array.dtype)
        padded[:, :channels] = whole.reshape(self.sections, channels, *moved.shape[1:])
        return np.moveaxis(padded.reshape(-1, *moved.shape[1:]), 0, axis)

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """NCHW results from the program's outputs."""
        channels, block = self.section_channels[1], self.out_blocks * self.config.block_out
        shape = (self.batch, self.sections * block, *self.out_size)
        full = unpack_activations(check_output(outputs, 6), shape)
        kept = full.reshape(self.batch, self.sections, block, *self.out_size)[:, :, :channels]
        whole = kept.reshape(self.batch, self.sections * channels, *self.out_size)
        return np.ascontiguousarray(whole[:, : self.out_channels])
