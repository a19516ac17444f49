# SPDX-License-Identifier: Apache-2.0
"""Allocation: live tiles never overlap, and the space dead longest is reused first."""

from __future__ import annotations

import re
from itertools import combinations, pairwise

import numpy as np
import pytest
from helpers.work import lines_executed

from vdla.compiler.codegen.vdla.allocate import AllocationError, allocate, live_ranges
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Emit, Gemm, Load, MicroOp, Source, Vector, VectorOp

CONFIG = Config()  # 2048 inp, 1024 wgt, 64 scl, 2048 acc and 2048 out entries
KERNEL = (MicroOp(),)


def load(tile: BufferTile) -> MacroOp:
    return MacroOp(Load(tile.buffer, x_size=tile.entries), {"sram": (tile, 0)}, tensor="t")


def uses(*tiles: BufferTile) -> MacroOp:
    """An operation that uses these tiles; the fields do not matter here."""
    return MacroOp(Gemm(), {f"field{i}": (tile, 0) for i, tile in enumerate(tiles)}, KERNEL)


def inp(name: str, entries: int, ident: int = 0) -> BufferTile:
    return BufferTile(name, Buffer.INP, entries, ident)


def check(config: Config, ops: list[MacroOp]) -> dict[BufferTile, int]:
    addresses = allocate(config, ops)
    lives = live_ranges(config, ops)
    assert set(addresses) == {tile for op in ops for tile in op.tiles()}
    for life in lives:
        start = addresses[life.tile]
        assert start % life.align == 0
        assert 0 <= start <= config.depths[life.tile.buffer] - life.tile.entries
    for a, b in combinations(lives, 2):
        if a.tile.buffer == b.tile.buffer and a.first <= b.last and b.first <= a.last:
            low, high = sorted((a, b), key=lambda life: addresses[life.tile])
            assert addresses[low.tile] + low.tile.entries <= addresses[high.tile]
    return addresses


def test_live_ranges_span_first_to_last_use():
    a, b = inp("a", 4), inp("b", 4)
    ops = [load(a), load(b), uses(b), uses(a)]
    assert [(life.tile, life.first, life.last) for life in live_ranges(CONFIG, ops)] == [(a, 0, 3), (b, 1, 2)]


def test_each_buffer_has_its_own_addresses():
    tiles = [BufferTile("x", buffer, 4) for buffer in Buffer]
    assert set(check(CONFIG, [uses(*tiles)]).values()) == {0}


def test_space_rotates_before_it_is_reused():
    tiles = [inp("x", 600, i) for i in range(6)]
    addresses = check(CONFIG, [op for tile in tiles for op in (load(tile), uses(tile))])
    assert [addresses[tile] for tile in tiles] == [0, 600, 1200, 0, 600, 1200]


def test_the_space_dead_longest_is_reused_first():
    a, b, c = inp("a", 1000), inp("b", 1000), inp("c", 1000)
    addresses = check(CONFIG, [load(a), load(b), uses(b), uses(a), load(c)])
    assert addresses[c] == addresses[b]


def test_one_tile_filled_many_times_stays_where_it_is():
    a, b = inp("x", 1024), inp("x", 1024, 1)
    addresses = check(CONFIG, [load(a), load(b), uses(a), load(a), uses(b), load(b), uses(a), uses(b)])
    assert sorted(addresses.values()) == [0, 1024]


def test_a_full_buffer_is_used_to_the_last_entry():
    tiles = [inp("x", 512, i) for i in range(4)]
    check(CONFIG, [uses(*tiles)])


def test_packing_fits_tiles_that_rotation_fragments():
    """Rotation would place the small long-lived tile in the middle of the buffer."""
    small, other, large = inp("small", 600), inp("other", 600), inp("large", 1448)
    ops = [load(other), load(small), uses(other), uses(small), load(large), uses(large, small)]
    addresses = check(CONFIG, ops)
    assert addresses[large] in (0, 600)


def acc(name: str, entries: int, ident: int = 0) -> BufferTile:
    return BufferTile(name, Buffer.ACC, entries, ident)


def add(a: BufferTile, b: BufferTile) -> MacroOp:
    return MacroOp(Vector(VectorOp.ADD), {"acc": (a, 0), "src": (b, 0)}, KERNEL)


def test_operands_of_a_vector_lie_in_different_halves():
    pairs = [(acc("a", 400, i), acc("b", 400, i)) for i in range(2)]
    addresses = check(CONFIG, [add(a, b) for a, b in [*pairs, *pairs]])
    assert [(addresses[a], addresses[b]) for a, b in pairs] == [(0, 1024), (400, 1424)]


def test_operands_that_fit_only_one_half_share_it():
    a, b, c = acc("a", 900), acc("b", 900), acc("c", 248)
    assert sorted(check(CONFIG, [add(a, b), add(b, c), uses(a, b, c)]).values()) in ([0, 900, 1800], [0, 248, 1148])


def test_vector_views_align_their_tiles():
    config = Config(block_in=8, block_out=32)
    odd, wide = inp("odd", 3), inp("wide", 8)
    vector = MacroOp(Vector(VectorOp.MOV, source=Source.INP), {"src": (wide, 0)}, KERNEL)
    assert check(config, [load(odd), vector, uses(odd)])[wide] == 4


def test_raw_results_align_their_tiles():
    odd, raw = BufferTile("odd", Buffer.OUT, 1), BufferTile("raw", Buffer.OUT, 8)
    emits = MacroOp(Gemm(emit=Emit.RAW), {"out": (raw, 0)}, KERNEL)
    assert check(CONFIG, [uses(odd), emits, uses(odd)])[raw] == 4


def test_the_error_lists_the_live_tiles_and_the_one_to_shrink():
    a, b, c = inp("x", 900), inp("y", 1200), inp("z", 4)
    with pytest.raises(AllocationError) as caught:
        allocate(CONFIG, [load(c), load(a), uses(c), load(b), uses(a, b)])
    assert str(caught.value) == (
        "allocate: tiles live at operation 3 (LOAD) must fit the 2048 entries of the inp buffer, "
        "got 2100 (y 1200, x 900); make tile y smaller"
    )


def test_a_tile_larger_than_its_buffer_is_named():
    message = "allocate: tile w#3 must have 1 to 1024 entries to fit the wgt buffer, got 1025; make tile w smaller"
    with pytest.raises(AllocationError, match=f"^{re.escape(message)}$"):
        allocate(CONFIG, [load(BufferTile("w", Buffer.WGT, 1025, 3))])


def test_the_error_says_when_space_is_fragmented():
    """A tile of 8 entries needs an aligned address, and all free ranges are unaligned."""
    config = Config(out_kib=1, batch=1, block_out=64)  # 16 entries
    odd, raw = BufferTile("odd", Buffer.OUT, 7), BufferTile("raw", Buffer.OUT, 8)
    more = BufferTile("more", Buffer.OUT, 1)
    emits = MacroOp(Gemm(emit=Emit.RAW), {"out": (raw, 0)}, KERNEL)
    check(config, [emits, uses(odd, more, raw)])
    wide = [BufferTile("wide", Buffer.OUT, 5, i) for i in range(3)]
    raws = [MacroOp(Gemm(emit=Emit.RAW), {"out": (tile, 0)}, KERNEL) for tile in wide]
    with pytest.raises(AllocationError) as caught:
        allocate(config, [*raws, uses(*wide)])
    assert str(caught.value) == (
        "allocate: tiles live at operation 2 (GEMM) must fit the 16 entries of the out buffer, each contiguous, "
        "got 15 (wide 5, wide#1 5, wide#2 5); make tile wide smaller"
    )


def random_ops(seed: int, entries: int) -> list[MacroOp]:
    rng = np.random.default_rng(seed)
    tiles = [inp("x", int(rng.integers(1, entries)), i) for i in range(40)]
    ends = [min(39, i + int(rng.integers(0, 8))) for i in range(40)]
    return [uses(*(tile for j, tile in enumerate(tiles) if j <= i <= ends[j])) for i in range(40)]


def test_random_tile_lists_never_overlap():
    refused = 0
    for seed in range(60):
        print(f"seed {seed}")
        try:
            check(CONFIG, random_ops(seed, 480))
        except AllocationError:
            lives = live_ranges(CONFIG, random_ops(seed, 480))
            peak = max(sum(x.tile.entries for x in lives if x.first <= op <= x.last) for op in range(40))
            assert peak > 0.85 * CONFIG.inp_depth, "tiles that would fit with some room to spare are placed"
            refused += 1
    assert 0 < refused < 40


def test_the_work_of_allocating_is_linear():
    def work(count):
        tiles = [inp("x", 100 + i % 7 * 50, i) for i in range(count)]
        ops = [op for a, b in pairwise(tiles) for op in (load(a), uses(a, b))]
        return lines_executed(lambda: allocate(CONFIG, ops))

    assert work(1000) < 4.4 * work(250)


def test_the_work_of_packing_grows_little_faster_than_their_number():
    """A late tile with a long live range makes rotation fail, so all tiles are packed."""

    def work(count):
        tiles, large = [inp("x", 30 + i % 7 * 50, i) for i in range(count)], inp("large", 1300)
        ops = [op for a, b in pairwise(tiles) for op in (load(a), uses(a, b))]
        ops += [load(large), uses(large, tiles[-1])]
        assert len(allocate(CONFIG, ops)) == count + 1
        return lines_executed(lambda: allocate(CONFIG, ops))

    assert work(1000) < 5.5 * work(250)
