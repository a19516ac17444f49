# SPDX-License-Identifier: Apache-2.0
"""Touches of whole forms against those of each operation, and dependences against a plain loop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.codegen.vdla import dependences as module
from vdla.compiler.codegen.vdla.assemble import assemble
from vdla.compiler.codegen.vdla.check_macro_ops import MacroOpChecker, form_touches
from vdla.compiler.codegen.vdla.dependences import NEVER, SpaceTouches, Touch, UnitOp, by_space, dependences
from vdla.compiler.codegen.vdla.macro_op import BufferTile, BuildError, MacroOp
from vdla.compiler.codegen.vdla.macro_ops import MacroOps
from vdla.compiler.codegen.vdla.placed import NO_OP, Placed, form_table, place
from vdla.compiler.codegen.vdla.uops import plan_uops
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import (
    Emit,
    Gemm,
    Load,
    MicroOp,
    Operand,
    Source,
    Store,
    Unit,
    Vector,
    VectorOp,
    instruction_columns,
)
from vdla.hardware.program import ProgramTensor

CONFIGS = [Config(), Config.preset("int4"), Config.preset("batch4"), Config(block_in=8, block_out=32, scl_kib=16)]
TENSOR = ProgramTensor(name="t", role="scratch", shape=(1 << 20,), dtype="int8", layout="", nbytes=1 << 20)


def random_form(config: Config, rng: np.random.Generator) -> MacroOp:
    """An instruction on tiles that fill their buffers."""

    def some(high: int) -> int:
        return int(rng.integers(high))

    def base(buffer: Buffer) -> tuple[BufferTile, int]:
        return BufferTile(buffer.name, buffer, config.depths[buffer]), 0

    if some(3) == 0:
        sizes = {"z_size": 2, "y_size": 1 + some(3), "x_size": 1 + some(3), "z_stride": 40, "y_stride": some(20)}
        if some(2):
            return MacroOp(Store(**sizes), {"sram": base(Buffer.OUT)}, tensor="t")
        buffer = Buffer([Buffer.INP, Buffer.WGT, Buffer.ACC][some(3)])
        return MacroOp(Load(buffer, **sizes), {"sram": base(buffer)}, tensor="t")
    emit = Emit(some(3))
    steps = {f"{name}{loop}": some(4) for name in ("acc", "src") for loop in (0, 1)}
    fields = {"loop0": 1 + some(3), "loop1": 1 + some(3), "init": some(2), "emit": emit, **steps}
    kernel = tuple(MicroOp(*map(int, rng.integers(0, (4, 4, 1, 2, 2)))) for _ in range(1 + some(3)))
    bases = {"acc": base(Buffer.ACC), "src": base(Buffer.INP), "wgt": base(Buffer.WGT)}
    bases |= {} if emit == Emit.NONE else {"out": base(Buffer.OUT)}
    bases |= {"scl": base(Buffer.SCL)} if emit == Emit.REQUANT else {}
    match some(3):
        case 0:
            return MacroOp(Gemm(**fields), bases, kernel)
        case 1:
            return MacroOp(Vector(VectorOp.MAC, Operand.WGT, Source.INP, **fields), bases, kernel)
        case _:
            accumulators = {name: pair for name, pair in bases.items() if name != "wgt"} | {"src": base(Buffer.ACC)}
            return MacroOp(Vector(VectorOp.MAX, Operand.SRC, Source.ACC, **fields), accumulators, kernel)


def random_placed(config: Config, rng: np.random.Generator, rows: int) -> tuple[MacroOps, Placed]:
    """Operations of few forms at many positions; all tiles begin at 0."""
    forms = tuple(random_form(config, rng) for _ in range(5))
    offsets = rng.integers(0, 12, (rows, 5))
    for column in range(5):
        offsets[:, column] = rng.permutation(offsets[:, column])
    ops = MacroOps(forms, rng.integers(0, 5, rows), offsets, rng.integers(0, 50, rows))
    plan = plan_uops(config.uop_depth, [form.uops for form in forms], ops.form)
    return ops, place(config, ops, dict.fromkeys({tile for form in forms for tile in form.tiles()}, 0), plan)


def one_by_one(config: Config, ops: MacroOps, placed: Placed) -> list[UnitOp]:
    """The operations with the touches of a checker that looks at each."""
    addresses = dict.fromkeys({tile for form in ops.forms for tile in form.tiles()}, 0)
    checker = MacroOpChecker(config, ops.forms, addresses, (TENSOR,))
    rows = instruction_columns(config, [placed.instruction(index) for index in range(len(placed))]).tolist()
    return [
        UnitOp(Unit.LOAD, () if op == NO_OP else checker.touches(op, ops[op], row))
        for row, op in zip(rows, placed.op.tolist(), strict=True)
    ]


def sets(spaces: Iterable[SpaceTouches]) -> list[set[tuple[int, int, bool]]]:
    """The entries that each operation touches, space by space in a fixed order."""
    entries = np.arange(1 << 18)
    return sorted(
        (
            {
                (op, int(entry), writes)
                for op, place, writes in zip(
                    space.op.tolist(), space.place.tolist(), space.writes.tolist(), strict=True
                )
                for entry in entries[space.places[place]]
            }
            for space in spaces
        ),
        key=lambda touched: sorted(touched),
    )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.name}-{config.block_in}x{config.block_out}")
@pytest.mark.parametrize("seed", range(8))
def test_touches_by_form_are_those_of_each_operation(config, seed):
    ops, placed = random_placed(config, np.random.default_rng(seed), 40)
    addresses = dict.fromkeys({tile for form in ops.forms for tile in form.tiles()}, 0)
    found = form_touches(config, placed, form_table(config, placed), addresses, (TENSOR,))
    assert found is not None
    assert sets(found) == sets(by_space(one_by_one(config, ops, placed)))


@pytest.mark.parametrize("seed", range(20))
def test_a_form_with_an_operation_outside_of_its_tile_is_noticed(seed):
    """One operation of many reaches one entry too far; the checker refuses just that one."""
    config, rng = CONFIGS[0], np.random.default_rng(seed)
    tile = BufferTile("a", Buffer.ACC, 40)
    add = MacroOp(Vector(VectorOp.ADD, Operand.IMM, loop0=4, acc0=3), {"acc": (tile, 0)}, (MicroOp(acc=1),))
    offsets = rng.integers(0, 30, (50, 1))
    ops = MacroOps((add,), np.zeros(50, np.int64), offsets, np.zeros(50, np.int64))
    plan = plan_uops(config.uop_depth, [add.uops], ops.form)

    def touches(ops: MacroOps) -> object:
        placed = place(config, ops, {tile: 7}, plan)
        return form_touches(config, placed, form_table(config, placed), {tile: 7}, ())

    assert touches(ops) is not None
    offsets[int(rng.integers(50))] = rng.choice([30, -2])
    assert touches(replace(ops, offsets=offsets)) is None


def naive(steps: list[UnitOp]) -> list[list[int]]:
    """The last conflicting operation of each other unit, entry by entry."""
    last: dict[tuple[object, int, Unit, bool], int] = {}
    found = []
    for index, step in enumerate(steps):
        row = [NEVER] * len(Unit)
        pairs = [(touch, int(entry)) for touch in step.touches for entry in np.arange(64)[touch.where]]
        for touch, entry in pairs:
            for unit in Unit:
                for wrote in (True, False) if touch.writes else (True,):
                    if unit != step.unit:
                        row[unit] = max(row[unit], last.get((touch.space, entry, unit, wrote), NEVER))
        for touch, entry in pairs:
            last[touch.space, entry, step.unit, touch.writes] = index
        found.append(row)
    return found


@pytest.mark.parametrize(("most_pairs", "window", "most_rows"), [(1, 9, 64), (7, 50, 64), (9, 9, 0), (99, 5, 64)])
@pytest.mark.parametrize("seed", range(10))
def test_dependences_are_the_last_conflicts_of_every_entry(seed, most_pairs, window, most_rows, monkeypatch):
    """However the touches are cut into windows and chunks."""
    monkeypatch.setattr(module, "_MOST_PAIRS", most_pairs)
    monkeypatch.setattr(module, "_WINDOW", window)
    monkeypatch.setattr(module, "_MOST_ROWS", most_rows)
    rng = np.random.default_rng(seed)

    def touch() -> Touch:
        first, size = int(rng.integers(60)), int(rng.integers(0, 6))
        every = np.flatnonzero(rng.random(64) < 0.1)
        where = slice(first, min(first + size, 64)) if rng.integers(2) else every
        return Touch("ab"[rng.integers(2)], where, bool(rng.integers(2)))

    steps = [UnitOp(Unit(int(rng.integers(3))), tuple(touch() for _ in range(rng.integers(3)))) for _ in range(50)]
    assert dependences(steps).tolist() == naive(steps)


def test_an_operation_outside_of_its_tile_is_refused_by_number():
    config, tile = CONFIGS[0], BufferTile("a", Buffer.ACC, 40)
    add = MacroOp(Vector(VectorOp.ADD, Operand.IMM), {"acc": (tile, 0)}, (MicroOp(),))
    ops = MacroOps((add,), np.zeros(3, np.int64), np.array([[0], [40], [50]]), np.zeros(3, np.int64))
    with pytest.raises(BuildError) as error:
        assemble(config, "test", ops, ())
    assert str(error.value) == "operation 1 (VECTOR): acc in tile a must touch 0 to 39, got 40 to 40"
