"""Orders of chains keep every dependence, and webs keep every value."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.chain_cases import chain_case

from vdla.compiler.codegen.vdla.chain import _parts
from vdla.compiler.codegen.vdla.list_schedule import list_schedule
from vdla.compiler.codegen.vdla.lower import lower
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.macro_ops import MacroOps
from vdla.compiler.codegen.vdla.webs import split_tiles
from vdla.compiler.operators.vdla import conv2d
from vdla.compiler.operators.vdla.chain import _link
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Gemm, Load, MicroOp, Unit

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


def test_a_sum_that_goes_on_keeps_its_tile() -> None:
    _, started, ended, fresh = split_tiles(TINY, MacroOps.of([load(0), gemm(0), gemm(1, init=0), gemm(0)]))
    assert tile(started, "acc") == tile(ended, "acc")
    assert tile(fresh, "acc")[0] != tile(ended, "acc")[0]


@pytest.mark.parametrize("seed", range(4))
def test_an_order_has_every_operation_once_and_each_units_in_their_order(seed: int) -> None:
    chain = chain_case(TINY, seed).chain
    parts = _parts(TINY, [_link(step) for step in chain.steps])
    order = list_schedule(TINY, parts)
    assert order is not None
    for number, part in enumerate(parts):
        found = [group for which, group in order.groups if which == number]
        for unit in Unit:
            mine = [id(g) for g in found if isa.unit_of(g[0].instruction) == unit]
            assert mine == [id(g) for g in part.groups if isa.unit_of(g[0].instruction) == unit]


@pytest.mark.parametrize("seed", range(4))
def test_tiles_that_are_live_at_the_same_time_are_apart(seed: int) -> None:
    chain = chain_case(TINY, seed).chain
    order = list_schedule(TINY, _parts(TINY, [_link(step) for step in chain.steps]))
    assert order is not None
    lives: dict[tuple[int, BufferTile], list[int]] = {}
    for at, (part, group) in enumerate(order.groups):
        for op in group:
            for used in op.tiles():
                lives.setdefault((part, used), []).append(at)
    owners = {buffer: np.full((len(order.groups), TINY.depths[buffer]), -1) for buffer in Buffer}
    for number, ((part, used), uses) in enumerate(lives.items()):
        start = order.addresses[part, used]
        area = owners[used.buffer][uses[0] : uses[-1] + 1, start : start + used.entries]
        assert (area == -1).all()
        area[...] = number


def test_webs_of_an_operator_are_smaller_than_its_tiles() -> None:
    operator = conv2d(TINY, batch=1, height=6, width=6, in_channels=8, out_channels=8, kernel=3, pads=1)
    ops = lower(TINY, operator.function)
    before = {used for op in ops for used in op.tiles() if used.buffer == Buffer.WGT}
    after = {used for op in split_tiles(TINY, ops) for used in op.tiles() if used.buffer == Buffer.WGT}
    assert len(after) > len(before)
    assert max(used.entries for used in after) <= max(used.entries for used in before)
