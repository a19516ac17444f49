# SPDX-License-Identifier: Apache-2.0
"""Folding of DMA against a plain copy loop, on random nests with strides and padding."""

from types import SimpleNamespace

import numpy as np
import pytest

from vdla.compiler.codegen.vdla.fold_dma import DmaFields, fold_dma
from vdla.compiler.codegen.vdla.macro_op import BufferTile
from vdla.compiler.codegen.vdla.nest import EntryAccess, Loop, TensorizedNest
from vdla.hardware import isa
from vdla.hardware.config import Buffer, Config

CONFIG = Config.preset("tiny")
PAD = -1


def random_nest(rng: np.random.Generator) -> TensorizedNest:
    """Loops dense on the chip, with any strides in DRAM; up to two of them are padded."""
    extents = [int(rng.integers(1, 5)) for _ in range(int(rng.integers(1, 5)))]
    loops = tuple(Loop(f"l{d}", n) for d, n in enumerate(extents))
    chip, dram, dense, gap = {}, {}, 1, 1
    for loop in reversed(loops):
        chip[loop.var], dram[loop.var] = dense, gap
        dense *= loop.extent
        gap = gap * loop.extent if rng.random() < 0.5 else gap * loop.extent + int(rng.integers(0, 4))
    valid = {}
    for loop in rng.permutation(np.array(loops, object))[: int(rng.integers(0, 3))]:
        low = int(rng.integers(0, loop.extent + 1))
        valid[loop.var] = (low, int(rng.integers(low, loop.extent + 1)))
    valid = {var: bounds for var, bounds in valid.items() if bounds != (0, extents[int(var[1:])])}
    order = tuple(loops[d] for d in rng.permutation(len(loops))) if rng.random() < 0.3 else loops
    tile = BufferTile("t", Buffer.INP, dense)
    access = {"chip": EntryAccess(tile, 0, chip), "data": EntryAccess("data", 7, dram)}
    return TensorizedNest(config=CONFIG, match=SimpleNamespace(), loops=order, access=access, valid=valid)  # type: ignore[arg-type]


def copied(nest: TensorizedNest, size: int) -> np.ndarray:
    """The buffer after the nest, one entry at a time."""
    found = np.full(size, -9)
    for point in np.ndindex(*(loop.extent for loop in nest.loops)):
        values = {loop.var: p for loop, p in zip(nest.loops, point, strict=True)}
        inside = all(low <= values[v] < end for v, (low, end) in nest.valid.items())
        source = int(nest.access["data"].at(values)) if inside else PAD
        found[int(nest.access["chip"].at(values))] = source
    return found


def loaded(ops: list, size: int) -> np.ndarray:
    """The buffer after the LOADs; each DRAM entry holds its own index."""
    found = np.full(size, -9)
    for op in ops:
        load, at = op.instruction, op.bases["sram"][1]
        for z in range(load.z_size):
            for y in range(-load.y_before, load.y_size + load.y_after):
                for x in range(-load.x_before, load.x_size + load.x_after):
                    data = 0 <= y < load.y_size and 0 <= x < load.x_size
                    found[at] = load.dram + z * load.z_stride + y * load.y_stride + x if data else PAD
                    at += 1
    return found


@pytest.mark.parametrize("seed", range(300))
def test_folded_loads_copy_the_elements_of_the_nest(seed):
    nest = random_nest(np.random.default_rng(seed))
    size = nest.access["chip"].place.entries
    ops = list(fold_dma(nest, DmaFields("chip", "data", 1, 1), lambda fields: isa.Load(Buffer.INP, **fields)))
    np.testing.assert_array_equal(loaded(ops, size), copied(nest, size), err_msg=f"seed {seed}")


def test_contiguous_loops_become_one_row_of_one_load():
    loops = (Loop("a", 3), Loop("b", 4), Loop("c", 5))
    steps = {"a": 20, "b": 5, "c": 1}
    access = {"chip": EntryAccess(BufferTile("t", Buffer.INP, 60), 0, steps), "data": EntryAccess("data", 0, steps)}
    nest = TensorizedNest(config=CONFIG, match=SimpleNamespace(), loops=loops, access=access)  # type: ignore[arg-type]
    (op,) = fold_dma(nest, DmaFields("chip", "data", 1, 1), lambda fields: isa.Load(Buffer.INP, **fields))
    assert (op.instruction.x_size, op.instruction.y_size, op.instruction.z_size) == (60, 1, 1)
