# SPDX-License-Identifier: Apache-2.0
"""Footprints against plain loops, on random instructions of random configurations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import (
    Emit,
    Excess,
    Footprints,
    Gemm,
    Load,
    MicroOp,
    Operand,
    Source,
    Store,
    Sync,
    Unit,
    UopOffsets,
    Vector,
    VectorOp,
    index_set,
    instruction_columns,
)
from vdla.hardware.isa.footprint import dma_entries

TINY = Config.preset("tiny")
CONFIGS = [
    TINY,
    replace(TINY, name="wide", block_out=8),
    replace(TINY, name="tall", block_in=8),
    replace(TINY, name="nibbles", block_in=8, block_out=8, inp_bits=4, wgt_bits=2),
    replace(TINY, name="batched", batch=2, block_in=8),
]

# --- sets -----------------------------------------------------------------------------------------


@given(st.sets(st.integers(0, 40)), st.sets(st.integers(0, 40)), st.integers(1, 12), st.integers(0, 9))
def test_repeat_in_order_equals_a_loop(written, exposed, count, step):
    exposed &= written
    total, read = set(), set()
    for i in range(count):
        read |= {index + i * step for index in exposed} - total
        total |= {index + i * step for index in written}
    bits = index_set.repeat_in_order(_bits(written), _bits(exposed), count, step)
    assert bits == (_bits(total), _bits(read))
    assert index_set.repeat(_bits(written), count, step) == _bits(total)


def _bits(members):
    return sum(1 << index for index in members)


@given(st.sets(st.integers(0, 300)))
def test_a_set_becomes_its_indices_in_order(members):
    bits = index_set.of_values(np.array(sorted(members), np.int64))
    assert bits == _bits(members)
    assert index_set.indices(bits).tolist() == sorted(members)
    place = index_set.compact(index_set.indices(bits))
    assert _listed(place) == sorted(members)
    assert _listed(index_set.shift(place, 7)) == [index + 7 for index in sorted(members)]
    assert index_set.end(place) == max(members, default=-1) + 1


def _listed(place):
    return list(range(place.start, place.stop)) if isinstance(place, slice) else place.tolist()


# --- random instructions --------------------------------------------------------------------------

small = st.integers(0, 5)
loops = st.integers(1, 4)
bit = st.integers(0, 1)
micro_ops = st.lists(st.builds(MicroOp, acc=small, src=small, wgt=small, first=bit, last=bit), min_size=1, max_size=5)
looped = {
    "loop0": loops,
    "loop1": loops,
    "init": bit,
    "acc": small,
    "src": small,
    "wgt": small,
    "out": st.integers(0, 1),
    **{f"{name}{loop}": st.integers(0, 2) for name in ("acc", "src", "wgt", "scl") for loop in (0, 1)},
    "scl": small,
    "emit": st.sampled_from(Emit),
}
gemms = st.builds(Gemm, **looped)
vectors = st.builds(
    Vector,
    op=st.sampled_from(VectorOp),
    operand=st.sampled_from(Operand),
    source=st.sampled_from(Source),
    **looped,
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(CONFIGS), st.one_of(gemms, vectors), micro_ops)
def test_footprints_of_looped_instructions_equal_plain_loops(config, instruction, kernel):
    instruction = replace(instruction, uop_begin=2, uop_end=2 + len(kernel))
    reads, writes = naive(config, instruction, kernel)
    row = _row(config, instruction)
    found = Footprints(config).accesses(row, _kernel(kernel))
    assert _as_sets(found, False) == reads
    assert _as_sets(found, True) == writes


def _row(config, instruction):
    return instruction_columns(config, [instruction])[0].tolist()


def _kernel(kernel):
    return UopOffsets(np.array([(u.acc, u.src, u.wgt, u.first, u.last) for u in kernel], np.int64))


def _as_sets(accesses, writes):
    found = {}
    for access in accesses:
        if access.writes == writes:
            found.setdefault(access.buffer, set()).update(_listed(access.where))
            assert len(set(_listed(access.where))) == len(_listed(access.where)), "an entry is listed twice"
    return {buffer: entries for buffer, entries in found.items() if entries}


def naive(config, op, kernel):
    """The entries read before the instruction writes them, and the entries it writes."""
    reads, writes = {}, {}

    def read(buffer, entries):
        reads.setdefault(buffer, set()).update(set(entries) - writes.get(buffer, set()))

    read(Buffer.UOP, range(op.uop_begin, op.uop_end))
    for i in range(op.loop0):
        for j in range(op.loop1):
            for uop in kernel:
                offset = uop.acc + i * op.acc0 + j * op.acc1
                a, s = op.acc + offset, op.src + uop.src + i * op.src0 + j * op.src1
                w = op.wgt + uop.wgt + i * op.wgt0 + j * op.wgt1
                starts = op.init and uop.first
                for buffer, entries in _operands(config, op, s, w):
                    read(buffer, entries)
                if not starts and getattr(op, "op", None) != VectorOp.MOV:
                    read(Buffer.ACC, [a])
                writes.setdefault(Buffer.ACC, set()).add(a)
                if op.emit and uop.last:
                    width = 1 if op.emit == Emit.REQUANT else 32 // config.out_bits
                    to = (op.out + offset) * width
                    writes.setdefault(Buffer.OUT, set()).update(range(to, to + width))
                    if op.emit == Emit.REQUANT:
                        read(Buffer.SCL, [op.scl + i * op.scl0 + j * op.scl1])
    return {buffer: entries for buffer, entries in reads.items() if entries}, writes


def _operands(config, op, s, w):
    if isinstance(op, Gemm):
        yield Buffer.INP, [s]
        yield Buffer.WGT, [w]
        return
    if op.operand == Operand.SRC or op.op == VectorOp.MAC:
        if op.source == Source.ACC:
            yield Buffer.ACC, [s]
        else:
            yield Buffer.INP, _covering(s * config.block_out, config.block_out, config.block_in)
    if op.operand == Operand.WGT:
        yield Buffer.WGT, [w // config.block_in]


def _covering(first, count, size):
    return range(first // size, (first + count - 1) // size + 1)


def test_a_vector_on_its_own_results_reads_only_initial_entries():
    running_sum = Vector(VectorOp.ADD, loop0=8, acc=1, acc0=1, src=0, src0=1)
    found = Footprints(TINY).accesses(_row(TINY, running_sum), _kernel([MicroOp()]))
    source = next(access for access in found if access.field == "src")
    assert source.where.tolist() == [0]


def test_a_vector_with_too_many_iterations_counts_all_sources_as_read():
    many = Vector(VectorOp.ADD, loop0=2048, loop1=2047, acc0=1, src1=1)
    row = _row(Config.preset("pynq_z1"), many)
    found = Footprints(Config.preset("pynq_z1")).accesses(row, _kernel([MicroOp()] * 2))
    assert next(access for access in found if access.field == "src").where == slice(0, 2047)


# --- DMA ------------------------------------------------------------------------------------------

sizes = {
    "z_size": loops,
    "y_size": loops,
    "x_size": loops,
    "z_stride": st.integers(0, 60),
    "y_stride": st.integers(0, 20),
}


@given(st.sampled_from(CONFIGS), st.sampled_from([Buffer.INP, Buffer.WGT, Buffer.ACC]), st.builds(Store, **sizes), bit)
def test_dma_touches_the_rows_of_its_planes(config, buffer, store, widen):
    fields = {name: getattr(store, name) for name in sizes}
    load = Load(buffer, sram=3, dram=5, x_before=0, widen=int(widen and buffer == Buffer.ACC), **fields)
    beats = config.entry_bytes[Buffer.OUT if load.widen else buffer] // config.axi_bytes
    rows = [
        5 + z * load.z_stride + y * load.y_stride + beat
        for z in range(load.z_size)
        for y in range(load.y_size)
        for beat in range(load.x_size * beats)
    ]
    assert _listed(Footprints(config).beats(_row(config, load))) == sorted(set(rows))
    assert dma_entries(_row(config, load)) == load.z_size * load.y_size * load.x_size


def test_padding_is_written_but_not_read_from_dram():
    load = Load(Buffer.INP, sram=2, z_size=2, y_size=3, x_size=4, y_before=1, x_after=2)
    row = _row(TINY, load)
    (written,) = Footprints(TINY).accesses(row, None)
    assert written.where == slice(2, 2 + 2 * 4 * 6)
    fill = _row(TINY, Load(Buffer.INP, y_size=0, x_size=4, y_before=2))
    assert _listed(Footprints(TINY).beats(fill)) == []
    assert Footprints(TINY).dram_excess(fill, 0, "none") is None


def test_sync_touches_nothing():
    row = _row(TINY, Sync(Unit.COMPUTE))
    assert Footprints(TINY).accesses(row, None) == [] == Footprints(TINY).excess(row, None)


# --- bounds ---------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(CONFIGS), st.one_of(gemms, vectors), micro_ops, st.integers(0, 70), st.integers(0, 70))
def test_excess_is_found_exactly_where_an_index_leaves_its_buffer(config, instruction, kernel, acc, src):
    instruction = replace(instruction, acc=min(acc, config.acc_depth - 1), src=src, uop_end=len(kernel))
    reads, writes = naive(config, instruction, kernel)
    outside = {
        buffer
        for buffer, entries in [*reads.items(), *writes.items()]
        if max(entries, default=0) >= config.depths[buffer]
    }
    found = Footprints(config).excess(_row(config, instruction), _kernel(kernel))
    assert {excess.things.split()[0] for excess in found} == {buffer.name.lower() for buffer in outside}


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (Gemm(loop0=9, acc0=8), "loop0 and acc0 must keep acc entries below 64, got 64"),
        (Gemm(loop0=8, acc0=8, loop1=9, acc1=1), "loop1 and acc1 must keep acc entries below 64, got 64"),
        (Gemm(loop1=17, wgt1=4), "loop1 and wgt1 must keep wgt entries below 64, got 64"),
        (Gemm(emit=Emit.REQUANT, scl=31, loop0=2, scl0=1), "loop0 and scl0 must keep scl entries below 32, got 32"),
        (Gemm(emit=Emit.RAW, out=64), "out must keep out slots below 64, got 64"),
        (Load(Buffer.WGT, sram=64), "sram must keep wgt entries below 64, got 64"),
        (Load(Buffer.WGT, sram=60, x_size=5), "x_size must keep wgt entries below 64, got 64"),
        (Load(Buffer.WGT, sram=60, x_size=2, y_size=3), "y_size must keep wgt entries below 64, got 65"),
        (Store(sram=250, x_size=2, z_size=4), "z_size must keep out entries below 256, got 257"),
    ],
)
def test_excess_names_the_field_that_exceeds_a_buffer(instruction, text):
    kernel = _kernel([MicroOp(last=1)]) if isinstance(instruction, Gemm) else None
    assert [str(excess) for excess in Footprints(TINY).excess(_row(TINY, instruction), kernel)] == [text]


def test_a_base_that_its_field_can_hold_may_still_lie_outside():
    tall = CONFIGS[
        2
    ]  # the field is wide enough for the vectors of the input buffer, which are smaller than its entries
    (found,) = Footprints(tall).excess(_row(tall, Gemm(src=128)), _kernel([MicroOp()]))
    assert str(found) == "src must keep inp entries below 128, got 128"
    vector = _row(tall, Vector(VectorOp.MOV, source=Source.INP, src=128))
    assert Footprints(tall).excess(vector, _kernel([MicroOp()])) == []


def test_excess_names_the_micro_ops():
    row = _row(TINY, Gemm(acc=60, uop_end=2))
    (found,) = Footprints(TINY).excess(row, _kernel([MicroOp(), MicroOp(acc=4)]))
    assert found == Excess(("micro-op",), "acc entries", 64, 64)
    assert str(found) == "micro-op must keep acc entries below 64, got 64"


def test_excess_of_the_micro_op_buffer():
    found = Footprints(TINY).kernel_excess(_row(TINY, Gemm(uop_begin=100, uop_end=129)))
    assert str(found) == "uop_end must keep uop entries below 128, got 128"
    assert Footprints(TINY).kernel_excess(_row(TINY, Gemm(uop_begin=100, uop_end=128))) is None


@pytest.mark.parametrize(
    ("load", "text"),
    [
        (Load(Buffer.INP, dram=100), "dram must keep beats of tensor t below 100, got 100"),
        (Load(Buffer.WGT, dram=97), "x_size must keep beats of tensor t below 100, got 100"),
        (
            Load(Buffer.INP, y_size=11, y_stride=10),
            "y_size and y_stride must keep beats of tensor t below 100, got 100",
        ),
        (
            Load(Buffer.INP, z_size=2, z_stride=100),
            "z_size and z_stride must keep beats of tensor t below 100, got 100",
        ),
        (Load(Buffer.INP, dram=90, x_size=10), "None"),
    ],
)
def test_dram_excess_names_the_field(load, text):
    assert str(Footprints(TINY).dram_excess(_row(TINY, load), 100, "t")) == text


def test_a_hostile_loop_count_costs_nothing():
    row = _row(TINY, Gemm(loop0=200, loop1=200, acc1=0, src0=1, uop_end=128))
    found = Footprints(TINY).accesses(row, _kernel([MicroOp()] * 128))
    assert next(access for access in found if access.field == "src").where == slice(0, 200)
