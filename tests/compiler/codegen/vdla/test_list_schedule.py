# SPDX-License-Identifier: Apache-2.0
"""Orders of chains keep every dependence, and webs keep every value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.chain_cases import chain_case
from helpers.webs_one_by_one import split_one_by_one

from vdla.compiler.codegen.vdla import dependences
from vdla.compiler.codegen.vdla.chain import _parts
from vdla.compiler.codegen.vdla.list_schedule import list_schedule
from vdla.compiler.codegen.vdla.lower import lower
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.macro_ops import NO_TILE, MacroOps
from vdla.compiler.codegen.vdla.program_tensors import Place
from vdla.compiler.codegen.vdla.schedule_steps import steps_of
from vdla.compiler.codegen.vdla.webs import split_tiles
from vdla.compiler.extensions import extend
from vdla.compiler.operators.vdla import Chain, ChainStep, Operator
from vdla.compiler.operators.vdla.chain import _link
from vdla.compiler.templates import conv2d
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Footprints, Gemm, Load, MicroOp, Operand, Source, Store, Unit, Vector, VectorOp
from vdla.simulator.timing import time_program
from vdla.verification.programs.suite import NAMES

TINY = Config.preset("tiny")
INP, WGT, ACC = BufferTile("inp", Buffer.INP, 8), BufferTile("wgt", Buffer.WGT, 8), BufferTile("acc", Buffer.ACC, 8)


def load(first: int, count: int = 2) -> MacroOp:
    return MacroOp(Load(Buffer.INP, x_size=count), {"sram": (INP, first)}, tensor="x")


def gemm(src: int, init: int = 1) -> MacroOp:
    bases = {"acc": (ACC, 0), "src": (INP, src), "wgt": (WGT, 3)}
    return MacroOp(Gemm(init=init), bases, (MicroOp(first=1, last=1),))


def tile(op: MacroOp, name: str = "sram") -> tuple[BufferTile, int]:
    found, offset = op.bases[name]
    return found, int(offset)


def test_each_fill_of_a_tile_gets_a_tile_of_its_own() -> None:
    first, one, second, two = split_tiles(TINY, MacroOps.of([load(4), gemm(5), load(4), gemm(5)]))
    assert tile(one, "src") == (tile(first)[0], 1)
    assert tile(two, "src") == (tile(second)[0], 1)
    assert tile(first)[0] != tile(second)[0]
    assert tile(first)[0].entries == 2
    assert tile(one, "wgt")[0].entries == 1


def test_fills_that_are_read_together_share_a_tile() -> None:
    wide = MacroOp(
        Gemm(init=1, loop1=4, src1=1, acc1=1),
        {"acc": (ACC, 0), "src": (INP, 2), "wgt": (WGT, 0)},
        (MicroOp(first=1, last=1),),
    )
    one, two, both = split_tiles(TINY, MacroOps.of([load(2), load(4), wide]))
    assert tile(one) == (tile(both, "src")[0], 0)
    assert tile(two) == (tile(both, "src")[0], 2)


def test_what_an_operation_writes_does_not_hide_what_it_reads_from_another_tile() -> None:
    """Its second iteration reads the entry of one tile that the first wrote of the other."""
    source = BufferTile("source", Buffer.ACC, 8)
    fills = [
        MacroOp(Vector(op=VectorOp.MOV, operand=Operand.IMM), {"acc": (source, at)}, (MicroOp(last=1),))
        for at in (0, 1)
    ]
    both = MacroOp(
        Vector(op=VectorOp.MOV, loop1=2, acc1=1, src1=1), {"acc": (ACC, 1), "src": (source, 0)}, (MicroOp(last=1),)
    )
    ops = MacroOps.of([*fills, both])
    one, two, copy = split_tiles(TINY, ops)
    assert tile(one, "acc") == (tile(copy, "src")[0], 0)
    assert tile(two, "acc") == (tile(copy, "src")[0], 1)
    assert webs(split_tiles(TINY, ops)) == webs(split_one_by_one(TINY, ops))


def test_a_sum_that_goes_on_keeps_its_tile() -> None:
    _, started, ended, fresh = split_tiles(TINY, MacroOps.of([load(0), gemm(0), gemm(1, init=0), gemm(0)]))
    assert tile(started, "acc") == tile(ended, "acc")
    assert tile(fresh, "acc")[0] != tile(ended, "acc")[0]


@pytest.mark.parametrize("seed", range(4))
def test_an_order_has_every_step_once_and_each_units_of_a_part_in_their_order(seed: int) -> None:
    parts = _parts(TINY, [_link(step) for step in chain_case(TINY, seed).chain.steps])
    steps, order = steps_of(TINY, parts), list_schedule(TINY, parts)
    assert order is not None
    assert sorted(order.steps.tolist()) == list(range(sum(part.ops.groups for part in parts)))
    for part in range(len(parts)):
        for unit in Unit:
            mine = order.steps[(steps.part[order.steps] == part) & (steps.unit[order.steps] == unit)]
            assert (np.diff(mine) > 0).all()


@pytest.mark.parametrize("seed", range(4))
def test_a_step_comes_after_all_that_it_waits_for(seed: int) -> None:
    parts = _parts(TINY, [_link(step) for step in chain_case(TINY, seed).chain.steps])
    steps, order = steps_of(TINY, parts), list_schedule(TINY, parts)
    assert order is not None
    at = np.argsort(order.steps)
    assert len(steps.waits)
    assert (at[steps.waits[:, 0]] > at[steps.waits[:, 1]]).all()


@pytest.mark.parametrize("seed", range(4))
def test_tiles_that_are_live_at_the_same_time_are_apart(seed: int) -> None:
    parts = _parts(TINY, [_link(step) for step in chain_case(TINY, seed).chain.steps])
    steps, order = steps_of(TINY, parts), list_schedule(TINY, parts)
    assert order is not None
    lives: dict[int, list[int]] = {}
    for at, step in enumerate(order.steps.tolist()):
        for used in steps.tiles[step][steps.tiles[step] != NO_TILE].tolist():
            lives.setdefault(used, []).append(at)
    owners = {buffer: np.full((len(order.steps), TINY.depths[buffer]), -1) for buffer in Buffer}
    for used, uses in lives.items():
        start, count = int(order.addresses[used]), int(steps.entries[used])
        area = owners[Buffer(steps.buffer[used])][uses[0] : uses[-1] + 1, start : start + count]
        assert area.shape[1] == count
        assert (area == -1).all()
        area[...] = used


@pytest.mark.parametrize("seed", range(4))
def test_steps_wait_for_the_last_uses_of_their_tiles_and_for_what_they_load(seed: int) -> None:
    parts = _parts(TINY, [_link(step) for step in chain_case(TINY, seed).chain.steps])
    steps, first = steps_of(TINY, parts), 0
    users: dict[tuple[int, BufferTile], dict[int, int]] = {}
    writers: dict[tuple[str, int], int] = {}
    expected: set[tuple[int, int]] = set()
    loads: list[tuple[int, str, list[int]]] = []
    for number, part in enumerate(parts):
        for op, group in zip(part.ops, (first + part.ops.group).tolist(), strict=True):
            unit = int(isa.unit_of(op.instruction))
            assert steps.unit[group] == unit
            for tile in op.tiles():
                last = users.setdefault((number, tile), {})
                expected |= {(group, other) for of, other in last.items() if of != unit and other != group}
                last[unit] = group
            if op.tensor is not None:
                where = Footprints(TINY).beats(isa.instruction_columns(TINY, [op.instruction])[0].tolist())
                beats = list(range(where.start, where.stop)) if isinstance(where, slice) else where.tolist()
                name = part.tensors[op.tensor]
                if isinstance(op.instruction, Store):
                    writers |= {(name, beat): group for beat in beats}
                else:
                    loads.append((group, name, beats))
        first += part.ops.groups
    for group, name, beats in loads:
        stores = [writers[name, beat] for beat in beats if (name, beat) in writers]
        expected |= {(group, max(stores))} if stores else set()
    assert set(map(tuple, steps.waits.tolist())) == expected


def test_a_load_waits_for_every_writer_of_what_it_reads() -> None:
    """Two functions write the parts of a tensor that the third one reads."""
    conv = conv2d(TINY, batch=1, height=4, width=4, in_channels=4, out_channels=4, kernel=1)
    read = conv2d(TINY, batch=1, height=4, width=4, in_channels=8, out_channels=4, kernel=1)
    chain = [ChainStep(name, conv, {"data": "x", "output": name}) for name in "ab"]
    chain.append(ChainStep("read", read, {"data": "ab", "output": "y"}))
    places = {"a": Place("ab", 0), "b": Place("ab", 64)}
    steps = steps_of(TINY, _parts(TINY, [_link(step) for step in chain], places))
    loads, stores = steps.part[steps.stores].T
    assert set(loads.tolist()) == {2}
    assert set(stores.tolist()) == {0, 1}


def test_webs_of_an_operator_are_smaller_than_its_tiles() -> None:
    operator = conv2d(TINY, batch=1, height=6, width=6, in_channels=8, out_channels=8, kernel=3, pads=1)
    ops = lower(TINY, operator.function)
    before = {used for op in ops for used in op.tiles() if used.buffer == Buffer.WGT}
    after = {used for op in split_tiles(TINY, ops) for used in op.tiles() if used.buffer == Buffer.WGT}
    assert len(after) > len(before)
    assert max(used.entries for used in after) <= max(used.entries for used in before)


def webs(ops: Sequence[MacroOp]) -> list[list[tuple[int, int, int]]]:
    """The bases of each operation: tiles numbered by first use, their entries, and offsets."""
    numbers: dict[BufferTile, int] = {}
    return [[(numbers.setdefault(t, len(numbers)), t.entries, int(at)) for t, at in op.bases.values()] for op in ops]


@pytest.mark.parametrize("operator", NAMES[::3], indirect=True)
def test_webs_of_all_operations_at_once_are_those_found_one_by_one(operator: Operator) -> None:
    ops = lower(operator.config, operator.function)
    assert webs(split_tiles(operator.config, ops)) == webs(split_one_by_one(operator.config, ops))


def test_webs_of_random_operations_are_those_found_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fills and reads of parts of few tiles in random order, some before any fill.

    A vector of results is two entries of inputs here, and few pairs are in memory at once.
    """
    monkeypatch.setattr(dependences, "_MOST_PAIRS", 20)
    config = replace(TINY, block_out=2 * TINY.block_in)
    for seed in range(80):
        rng = np.random.default_rng(seed)
        tiles = replace(INP, entries=24), replace(INP, entries=24, ident=1)
        forms = [replace(load(0, count), bases={"sram": (t, 0)}) for t in tiles for count in (1, 3)]
        for t in tiles:
            wide = Gemm(init=int(rng.integers(2)), loop1=3, src1=2, acc1=int(rng.integers(2)))
            bases = {"acc": (ACC, 0), "src": (t, 0), "wgt": (WGT, 0)}
            forms += [replace(gemm(0), bases=bases), MacroOp(wide, bases, (MicroOp(first=1, last=1),))]
            add = Vector(op=VectorOp.ADD, source=Source.INP)
            forms.append(MacroOp(add, {"acc": (ACC, 0), "src": (t, 0)}, (MicroOp(first=1, last=1),)))
        forms.append(
            MacroOp(
                Vector(op=VectorOp.MOV, loop1=2, acc1=1, src1=1), {"acc": (ACC, 0), "src": (ACC, 0)}, (MicroOp(last=1),)
            )
        )
        listed, form = MacroOps.of(forms), rng.integers(0, len(forms), 25)
        offsets = rng.integers(0, 4, (25, 3)) * (form[:, None] >= 4)
        offsets[form < 4, 0] = rng.integers(0, 6, int((form < 4).sum()))
        offsets[np.isin(form, (6, 9)), 2] = 0
        ops = MacroOps(listed.forms, form, offsets, np.zeros(25, np.int64))
        assert webs(split_tiles(config, ops)) == webs(split_one_by_one(config, ops)), f"seed {seed}"


def test_functions_whose_results_are_looked_up_do_not_take_turns() -> None:
    """Each turn would load the other table, for 278 cycles."""
    config = extend(Config.preset("pynq_z1"), "lut")
    sizes: dict[str, Any] = {"batch": 1, "height": 56, "width": 56, "kernel": 1, "table": True, "chained": True}
    wide = conv2d(config, in_channels=32, out_channels=128, **sizes)
    narrow = conv2d(config, in_channels=128, out_channels=32, **sizes)
    steps = [ChainStep("a", wide, {"data": "x", "output": "y"}), ChainStep("b", narrow, {"data": "y", "output": "z"})]
    program = Chain(config, "two", steps, ("z",)).program
    names = [isa.mnemonic_of(type(instruction)) for instruction in isa.decode(config, program.words)]
    assert names.count("lut_load") == 2
    assert time_program(program).total_cycles < 103_000
