# SPDX-License-Identifier: Apache-2.0
"""Strips: parts of a computation between the parts of its transfers; the same results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.macro_ops import MacroOps
from vdla.compiler.codegen.vdla.strip_pieces import strips_of
from vdla.compiler.codegen.vdla.strips import StripRequest, cut
from vdla.compiler.operators.vdla.tile_timeline import estimate
from vdla.compiler.templates import Operator, Tiling, conv2d, depthwise_conv2d, pool2d
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COL, Emit, Gemm, Load, MicroOp, Opcode, Store
from vdla.hardware.program import Program
from vdla.simulator.simulate import Mode, simulate

TINY, PYNQ = Config.preset("tiny"), Config.preset("pynq_z1")
INP, WGT, SCL = BufferTile("inp", Buffer.INP, 72), BufferTile("wgt", Buffer.WGT, 9), BufferTile("scl", Buffer.SCL, 1)
ACC, OUT = BufferTile("acc", Buffer.ACC, 16), BufferTile("out", Buffer.OUT, 16)

# A 3x3 kernel over 4x4 pixels with a border of padding; an entry is one beat.
WINDOW = MacroOp(
    Load(Buffer.INP, dram=100, y_size=4, y_stride=8, y_before=1, y_after=1, x_size=4, x_before=1, x_after=1),
    {"sram": (INP, 0)},
    tensor="x",
)
TAPS = tuple(MicroOp(0, 6 * y + x, 3 * y + x, int(y + x == 0), int(y + x == 4)) for y in range(3) for x in range(3))
SUMS = MacroOp(
    Gemm(init=1, emit=Emit.REQUANT, loop0=4, loop1=4, acc0=4, acc1=1, src0=6, src1=1),
    {"acc": (ACC, 0), "src": (INP, 0), "wgt": (WGT, 0), "out": (OUT, 0), "scl": (SCL, 0)},
    TAPS,
)
RESULTS = MacroOp(Store(dram=50, y_size=4, x_size=4, y_stride=16), {"sram": (OUT, 0)}, tensor="y")


def rows_of(op: MacroOp) -> tuple[int, int, int, int, int]:
    """Rows of padding, data and padding of a transfer, its `dram` and its first entry."""
    fields = op.instruction
    assert isinstance(fields, Load | Store)
    before, after = (fields.y_before, fields.y_after) if isinstance(fields, Load) else (0, 0)
    offset = op.bases["sram"][1]
    assert isinstance(offset, int)
    return before, fields.y_size, after, fields.dram, offset


def test_a_strip_has_the_rows_that_it_needs_first_and_the_results_that_it_completes() -> None:
    first, second = strips_of(TINY, 2, SUMS, WINDOW, RESULTS)
    assert first.compute == replace(SUMS, instruction=replace(SUMS.instruction, loop0=2))
    moved = {"acc": (ACC, 8), "src": (INP, 12), "wgt": (WGT, 0), "out": (OUT, 8), "scl": (SCL, 0)}
    assert second.compute == replace(first.compute, bases=moved)
    assert [rows_of(op) for op in first.loads] == [(1, 3, 0, 100, 0)]  # results 0 and 1 read rows 0 to 3
    assert [rows_of(op) for op in second.loads] == [(0, 1, 1, 124, 24)]
    assert [rows_of(op) for strip in (first, second) for op in strip.stores] == [(0, 2, 0, 50, 0), (0, 2, 0, 82, 8)]


def test_padding_comes_with_the_data_beside_it() -> None:
    """A row of results of its own would begin with a LOAD of padding alone, or end with one."""
    one = replace(SUMS, uops=tuple(MicroOp(0, x, x, int(x == 0), int(x == 2)) for x in range(3)))
    high = replace(WINDOW, instruction=replace(WINDOW.instruction, y_size=2, y_before=2, y_after=2))
    strips = strips_of(TINY, 4, one, high, None)
    assert [[rows_of(op) for op in strip.loads] for strip in strips] == [
        [(2, 1, 0, 100, 0)], [], [], [(0, 1, 2, 108, 18)],
    ]  # fmt: skip


def test_the_value_of_padding_is_given_where_there_is_some() -> None:
    lowest = replace(WINDOW.instruction, pad_value=-128, x_before=0, x_after=0, x_size=6)
    _, inner, last, _ = strips_of(TINY, 4, SUMS, replace(WINDOW, instruction=lowest), None)
    assert [op.instruction.pad_value for op in (*inner.loads, *last.loads)] == [0, -128]


def test_a_transfer_of_a_single_row_is_cut_between_entries() -> None:
    line = MacroOp(Load(Buffer.INP, dram=7, x_size=8), {"sram": (INP, 3)}, tensor="x")
    sums = MacroOp(Gemm(loop0=8, acc0=1, src0=1), {"acc": (ACC, 0), "src": (INP, 3), "wgt": (WGT, 0)}, (MicroOp(),))
    strips = strips_of(TINY, 3, sums, line, None)
    found = [(op.instruction.x_size, op.instruction.dram, op.bases["sram"][1]) for s in strips for op in s.loads]
    assert found == [(3, 7, 3), (3, 10, 6), (2, 13, 9)]


def test_each_block_of_a_window_is_cut_and_a_later_block_comes_last() -> None:
    both = replace(WINDOW, instruction=replace(WINDOW.instruction, z_size=2, z_stride=64))
    twice = replace(SUMS, uops=(*TAPS, *(replace(uop, src=uop.src + 36) for uop in TAPS)))
    loads = [[rows_of(op) for op in strip.loads] for strip in strips_of(TINY, 2, twice, both, None)]
    assert loads == [[(1, 3, 0, 100, 0), (1, 3, 0, 164, 36)], [(0, 1, 1, 124, 24), (0, 1, 1, 188, 60)]]
    loads = [[rows_of(op) for op in strip.loads] for strip in strips_of(TINY, 2, SUMS, both, None)]
    assert loads == [[(1, 3, 0, 100, 0)], [(0, 1, 1, 124, 24), (1, 4, 1, 164, 36)]]


LINE = 5  # of the schedule
TILES = [replace(op, source=LINE) for op in (WINDOW, SUMS, RESULTS)]


def opcodes(ops: list[MacroOp], *, ends: bool) -> list[str]:
    cut_ops = cut(TINY, MacroOps.of(ops), StripRequest(LINE, 2, ends))
    return [type(op.instruction).__name__ for op in cut_ops]


def test_the_first_part_of_a_window_and_the_last_results_stay_where_the_whole_was() -> None:
    load, sums, store = TILES
    lane = MacroOp(Load(Buffer.SCL), {"sram": (SCL, 0)}, tensor="s")
    found = opcodes([load, lane, sums, lane, store], ends=False)
    assert found == ["Load", "Load", "Gemm", "Store", "Load", "Gemm", "Load", "Store"]


def test_with_virtual_threads_only_the_first_window_and_the_last_results_are_cut() -> None:
    middle = ["Load", "Gemm", "Store"]
    begin, end = ["Load", "Gemm", "Load", "Gemm", "Store"], ["Load", "Gemm", "Store", "Gemm", "Store"]
    assert opcodes(TILES * 3, ends=True) == [*begin, *middle, *end]


def test_a_tensor_that_is_loaded_and_stored_stays_whole() -> None:
    """Its parts would be moved across each other."""
    load, sums, store = TILES
    assert opcodes([load, sums, replace(store, tensor="x")], ends=False) == ["Load", "Gemm", "Store"]


def test_padding_alone_stays_whole() -> None:
    padding = replace(WINDOW, instruction=Load(Buffer.INP, x_size=0, x_before=36), tensor=None)
    assert opcodes([padding, TILES[1]], ends=False) == ["Load", "Gemm"]


def test_a_window_of_two_loads_and_other_blocks_stay_whole() -> None:
    load, sums, _ = TILES
    assert len(opcodes([load, load, sums], ends=False)) == 3
    assert len(opcodes([load, replace(sums, source=LINE + 1)], ends=False)) == 2


# --- programs -------------------------------------------------------------------------------------

Make = Callable[..., Operator]
SHAPE: dict[str, Any] = {"batch": 1, "height": 9, "width": 7, "kernel": 3, "pads": 1}
TILE = Tiling(rows=4, cols=4, out_blocks=1, in_blocks=1, keep_weights=False, threads=1, threads_over="rows")
OPERATORS: dict[str, Make] = {
    "convolution": lambda **tiles: conv2d(
        TINY, in_channels=8, out_channels=8, packing="channels", strides=2, **SHAPE, **tiles
    ),
    "raw": lambda **tiles: conv2d(
        TINY, in_channels=12, out_channels=4, packing="channels", raw=True, **SHAPE, **tiles
    ),
    "depthwise": lambda **tiles: depthwise_conv2d(TINY, channels=8, **SHAPE, **tiles),
    "pooling": lambda **tiles: pool2d(TINY, kind="max", channels=8, strides=2, **SHAPE, **tiles),
}  # fmt: skip


def outputs(program: Program) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    inputs = {}
    for tensor in (each for each in program.tensors if each.role in ("input", "weight")):
        limits = np.iinfo(tensor.dtype)
        inputs[tensor.name] = rng.integers(limits.min, limits.max, tensor.shape, endpoint=True).astype(tensor.dtype)
    return list(simulate(program, inputs, mode=Mode.FUNCTION).outputs.values())


def instructions(program: Program, opcode: Opcode) -> int:
    return int((program.columns[:, COL["opcode"]] == opcode).sum())


@pytest.mark.parametrize("make", OPERATORS.values(), ids=OPERATORS)
@pytest.mark.parametrize("threads", [1, 2])
def test_results_are_those_of_whole_tiles(make: Make, threads: int) -> None:
    whole, cut = (make(tiling=replace(TILE, threads=threads, strips=count)).program for count in (1, 2))
    np.testing.assert_array_equal(outputs(cut), outputs(whole))
    more = instructions(cut, Opcode.STORE) - instructions(whole, Opcode.STORE)
    assert more == 1 if threads == 2 else more > 1, "with virtual threads, only the last results"


def test_one_thread_loads_and_stores_while_it_computes() -> None:
    options: dict[str, Any] = {"batch": 1, "height": 28, "width": 14, "channels": 64, "kernel": 3}
    tiling = Tiling(rows=26, cols=12, out_blocks=1, in_blocks=1, keep_weights=True, threads=1, threads_over="groups")
    cycles = []
    for count in (1, 4):
        operator = depthwise_conv2d(PYNQ, **options, tiling=replace(tiling, strips=count))
        cycles.append(simulate(operator.program, mode=Mode.TIMING).statistics.total_cycles)
        assert operator.problem is not None
        expected = estimate(PYNQ, operator.problem, replace(tiling, strips=count))
        assert expected == pytest.approx(cycles[-1], rel=0.03)
    assert cycles[1] < 0.8 * cycles[0]
