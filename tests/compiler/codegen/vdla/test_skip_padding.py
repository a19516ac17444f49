# SPDX-License-Identifier: Apache-2.0
"""Computation on padding is left out where it changes no result, and only there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.lower import lower
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.macro_ops import MacroOps
from vdla.compiler.codegen.vdla.padding_pieces import PaddingCutter
from vdla.compiler.codegen.vdla.skip_padding import (
    _DATA,
    _loaded,
    _neutral,
    cut_at_padding,
    skip_padding,
)
from vdla.compiler.codegen.vdla.webs import split_tiles
from vdla.compiler.templates import Operator, conv2d, depthwise_conv2d, pool2d
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, Gemm, Load, MicroOp, Opcode, Source, Vector, VectorOp
from vdla.hardware.program import Program
from vdla.simulator.timing import time_program
from vdla.verification.programs.suite import NAMES

TINY = Config.preset("tiny")
INP, WGT, ACC = BufferTile("inp", Buffer.INP, 16), BufferTile("wgt", Buffer.WGT, 4), BufferTile("acc", Buffer.ACC, 16)
ROW = MacroOp(Load(Buffer.INP, x_size=3, x_before=1), {"sram": (INP, 0)}, tensor="x")
TAPS = (MicroOp(first=1), MicroOp(src=1, wgt=1, last=1))
PAIRS = MacroOp(
    Gemm(init=1, loop1=3, acc1=1, src1=1), {"acc": (ACC, 2), "src": (INP, 0), "wgt": (WGT, 0)}, TAPS
)  # a kernel of two taps over a row of one zero and three entries


def skipped(*ops: MacroOp, config: Config = TINY) -> list[MacroOp]:
    return list(skip_padding(config, MacroOps.of(ops)))


def test_an_operation_is_cut_where_its_micro_ops_read_padding() -> None:
    _, border, inner = skipped(ROW, PAIRS)
    assert border == MacroOp(
        replace(PAIRS.instruction, loop1=1),
        {"acc": (ACC, 2), "src": (INP, 1), "wgt": (WGT, 1)},
        (MicroOp(first=1, last=1),),
    )
    assert inner == replace(
        PAIRS,
        instruction=replace(PAIRS.instruction, loop1=2),
        bases={"acc": (ACC, 3), "src": (INP, 1), "wgt": (WGT, 0)},
    )


@pytest.mark.parametrize(
    "load",
    [
        replace(ROW, instruction=Load(Buffer.INP, x_size=4)),
        replace(ROW, instruction=replace(ROW.instruction, pad_value=3)),
    ],
    ids=["data", "a value that counts"],
)
def test_an_operation_on_entries_that_count_stays_whole(load: MacroOp) -> None:
    assert skipped(load, PAIRS) == [load, PAIRS]
    again = replace(ROW, instruction=Load(Buffer.INP, x_size=4))
    assert skipped(ROW, again, PAIRS) == [ROW, again, PAIRS]


def test_a_sum_of_padding_alone_keeps_one_micro_op_and_its_marks() -> None:
    zeros = replace(ROW, instruction=Load(Buffer.INP, x_size=0, x_before=4), tensor=None)
    _, only = skipped(zeros, PAIRS)
    assert only.uops == (MicroOp(first=1, last=1),)
    assert only.bases == PAIRS.bases


def test_an_operation_that_uses_an_entry_in_several_iterations_stays_whole() -> None:
    """Cutting it would change the order in which the entry is started and added to."""
    sliding = replace(PAIRS, instruction=replace(PAIRS.instruction, loop0=2, acc0=1))
    assert skipped(ROW, sliding) == [ROW, sliding]


@pytest.mark.parametrize(
    ("op", "fill", "cut"),
    [
        (VectorOp.MAX, -128, True),
        (VectorOp.MAX, 0, False),
        (VectorOp.ADD, 0, True),
        (VectorOp.MAC, 0, True),
        (VectorOp.MIN, -128, False),
    ],
)
def test_a_vector_is_cut_if_padding_is_neutral(op: VectorOp, fill: int, cut: bool) -> None:
    load = replace(ROW, instruction=replace(ROW.instruction, pad_value=fill))
    vector = MacroOp(
        Vector(init=1, op=op, source=Source.INP, loop1=3, acc1=1, src1=1),
        {"acc": (ACC, 0), "src": (INP, 0)},
        (MicroOp(first=1), MicroOp(src=1, last=1)),
    )
    assert (len(skipped(load, vector)) == 3) == cut


def iterations(program: Program, opcode: Opcode) -> int:
    """The iterations of all instructions of one kind."""
    table = program.columns[program.columns[:, COL["opcode"]] == opcode]
    kernels = table[:, COL["uop_end"]] - table[:, COL["uop_begin"]]
    return int((table[:, COL["loop0"]] * table[:, COL["loop1"]] * kernels).sum())


def inside(size: int, kernel: int, stride: int, before: int, after: int) -> int:
    """The reads of one row of an image by all results of a row."""
    outs = (size + before + after - kernel) // stride + 1
    at = np.arange(outs)[:, None] * stride + np.arange(kernel) - before
    return int(((at >= 0) & (at < size)).sum())


@pytest.mark.parametrize("seed", range(12))
def test_a_convolution_multiplies_entries_of_the_image_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    config = Config.preset(("pynq_z1", "tiny", "batch4", "int4")[seed % 4])
    height, width, kernel = (int(rng.integers(low, high)) for low, high in ((5, 12), (5, 12), (2, 4)))
    stride, pads = int(rng.integers(1, 3)), tuple(int(pad) for pad in rng.integers(0, kernel, 4))
    channels = config.block_in * int(rng.integers(1, 3)), config.block_out * int(rng.integers(1, 3))
    shape = {"batch": 1, "height": height, "width": width, "kernel": kernel, "strides": stride, "pads": pads}
    macs = inside(height, kernel, stride, pads[0], pads[2]) * inside(width, kernel, stride, pads[1], pads[3])
    blocks = (channels[0] // config.block_in) * (channels[1] // config.block_out)
    operator = conv2d(config, in_channels=channels[0], out_channels=channels[1], packing="channels", **shape)
    assert iterations(operator.program, Opcode.GEMM) == macs * blocks


@pytest.mark.parametrize(("kernel", "skips"), [(3, True), (5, False)])
def test_a_zero_point_is_skipped_where_a_few_lanes_tell_the_borders_apart(kernel: int, skips: bool) -> None:
    shape = {"batch": 1, "height": 7, "width": 7, "in_channels": 64, "out_channels": 64, "pads": kernel // 2}
    operator = conv2d(Config.preset("pynq_z1"), kernel=kernel, input_zero_point=-128, **shape)
    needed = (64 // 16 * inside(7, kernel, 1, kernel // 2, kernel // 2)) ** 2
    assert (iterations(operator.program, Opcode.GEMM) == needed) == skips
    assert (operator.layouts["scale"].name == "CHW16c") == skips


def test_a_zero_point_is_computed_where_a_border_costs_more_than_it_saves() -> None:
    shape = {"batch": 1, "height": 7, "width": 7, "in_channels": 16, "out_channels": 16, "pads": 1}
    operator = conv2d(Config.preset("pynq_z1"), kernel=3, input_zero_point=-128, **shape)
    assert iterations(operator.program, Opcode.GEMM) == 9 * 7 * 7
    assert time_program(operator.program).total_cycles == 1124  # 1,321 without the padding


def test_depthwise_convolution_and_maximum_read_entries_of_the_image_only() -> None:
    config = Config.preset("pynq_z1")
    shape = {"batch": 1, "height": 7, "width": 7, "channels": 16, "kernel": 3, "pads": 1}
    for operator in (depthwise_conv2d(config, **shape), pool2d(config, kind="max", **shape)):
        assert iterations(operator.program, Opcode.VECTOR) == 19 * 19


def one_by_one(config: Config, ops: Sequence[MacroOp]) -> list[list[MacroOp]]:
    """`skip_padding` as a walk: the contents of every tile after each LOAD."""
    cutter, contents, found = PaddingCutter(config), dict[BufferTile, NDArray[np.int64]](), list[list[MacroOp]]()
    for op in ops:
        found.append([op])
        if isinstance(op.instruction, Load) and op.instruction.buffer == Buffer.INP:
            tile = op.bases["sram"][0]
            contents[tile] = _loaded(contents.get(tile, np.full(tile.entries, _DATA)), op)
        neutral = _neutral(config, op.instruction) if isinstance(op.instruction, Gemm | Vector) else None
        if neutral is not None and op.bases["src"][0] in contents:
            padding = contents[op.bases["src"][0]] == neutral
            found[-1] = cutter.cut(op, padding) if padding.any() else [op]
    return found


@pytest.mark.parametrize("operator", NAMES[::2], indirect=True)
def test_all_operations_at_once_are_cut_as_one_by_one(operator: Operator) -> None:
    ops = lower(operator.config, operator.function)
    assert list(skip_padding(operator.config, ops)) == list(chain(*one_by_one(operator.config, ops)))


@pytest.mark.parametrize("operator", NAMES[::2], indirect=True)
def test_operations_on_webs_are_cut_as_one_by_one_and_parts_stay_together(operator: Operator) -> None:
    ops = split_tiles(operator.config, lower(operator.config, operator.function))
    whole, found = cut_at_padding(operator.config, ops)
    assert [ops.group[row] for row in whole] == found.group.tolist()
    assert [list(found[low:high]) for low, high in pairwise(found.starts.tolist())] == one_by_one(operator.config, ops)


def test_padding_that_changes_between_operations_is_followed_at_once_as_one_by_one() -> None:
    """Few forms at random places on two tiles, in random order."""
    cut = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        tiles = INP, replace(INP, ident=1)
        forms = [replace(ROW, bases={"sram": (tile, 0)}) for tile in tiles]
        forms += [replace(PAIRS, bases={**PAIRS.bases, "src": (tile, 0)}) for tile in tiles]
        forms += [replace(form, instruction=Load(Buffer.INP, x_size=2)) for form in forms[:2]]
        listed = MacroOps.of(forms)
        form = rng.integers(0, len(forms), 30)
        offsets = np.where(np.isin(form, (2, 3))[:, None], [0, 1, 0] * rng.integers(0, 9, (30, 3)), 0)
        offsets[np.isin(form, (0, 1, 4, 5)), 0] = rng.integers(0, 9)
        ops = MacroOps(listed.forms, form, offsets, rng.integers(0, 99, 30) * np.isin(form, (0, 1, 4, 5)))
        found = list(skip_padding(TINY, ops))
        assert found == list(chain(*one_by_one(TINY, ops))), f"seed {seed}"
        cut += len(found) > len(ops)
    assert cut > 20
