# SPDX-License-Identifier: Apache-2.0
"""The verifier on hand-written programs: encoding, bounds and uninitialised data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers.hand_programs import DATA, PIPELINE, PRODUCT, RESULT, SCALE, TINY, UOPS, WEIGHT, changed, messages, program

from vdla.compiler.templates import dense
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Emit, Load, MicroOp, Operand, Vector, VectorOp
from vdla.hardware.program import Program
from vdla.simulator.verify import Kind, Range, verify
from vdla.verification.adversary import Harm, attack


def test_the_pipeline_is_verified():
    verdict = verify(program(*PIPELINE))
    assert verdict.ok
    assert verdict.warnings == ()
    assert str(verdict) == "program hand: verified, 6 instructions"
    verdict.raise_if_bad()
    assert attack(program(*PIPELINE)).harm == Harm.NONE


def test_an_empty_program_is_verified():
    empty = verify(program())
    assert empty.ok
    assert str(empty.warnings[0].message) == "output out must be written completely, got 0 of 16 beats"


# --- configuration and encoding -------------------------------------------------------------------


def test_verify_refuses_a_program_for_another_machine():
    verdict = verify(program(*PIPELINE), replace(TINY, acc_kib=2))
    assert messages(verdict) == ["configuration: program was compiled for acc_kib=1, device has 2"]


def test_queue_depths_dram_and_clock_do_not_matter():
    other = replace(TINY, name="other", command_depth=64, token_depth=32, dram=Config().dram, clock_mhz=7)
    assert verify(program(*PIPELINE), other).ok


def test_invalid_words_of_a_long_program_are_named_by_their_places():
    """Words are checked in blocks."""
    long = dense(TINY, rows=128, in_features=256, out_features=128).program
    words, places = long.words.copy(), (0, 1023, 1024, 3000, len(long) - 1)
    words[list(places), 0] &= 0xF8
    verdict = verify(replace(long, words=words, tensor_of=np.full(len(long), -1, np.int32)))
    assert [finding.instructions for finding in verdict.findings] == [(place,) for place in places]
    assert all(f"instruction {place}: opcode must be" in str(verdict) for place in places)


def test_every_invalid_word_is_named():
    good = program(*PIPELINE)
    words = good.words.copy()
    words[1, 0] &= 0xF8
    words[4, -1] = 0x80
    bad = Program(
        config=TINY,
        name="hand",
        words=words,
        tensors=good.tensors,
        tensor_of=np.full(6, -1, np.int32),
        source_lines=(),
        source_of=good.source_of,
    )
    verdict = verify(bad)
    choices = "1 (LOAD), 2 (STORE), 3 (GEMM), 4 (VECTOR), 5 (SYNC)"
    assert messages(verdict) == [
        f"encoding: instruction 1: opcode must be one of {choices}, got 0",
        f"encoding: instruction 4: bit {8 * words.shape[1] - 1} must be 0, got 1",
    ]
    assert [finding.instructions for finding in verdict.findings] == [(1,), (4,)]


def test_micro_ops_with_stray_bits_are_refused():
    good = program(*PIPELINE)
    uops = good.tensor("uops")
    data = uops.data[:-1] + b"\x80"
    bad = replace(good, tensors=tuple(replace(t, data=data) if t is uops else t for t in good.tensors))
    assert messages(verify(bad))[0] == (
        "encoding: instruction 0 (LOAD uop in compute): micro-ops of tensor uops: "
        f"micro-op 0: bits that no field has must be 0, got {data.hex()}"
    )


# --- bounds ---------------------------------------------------------------------------------------


LOAD3, GEMM4, STORE5 = (
    "bounds: instruction 3 (LOAD inp in load): ",
    "bounds: instruction 4 (GEMM in compute): ",
    "bounds: instruction 5 (STORE in store): ",
)


@pytest.mark.parametrize(
    ("at", "fields", "text"),
    [
        (3, {"sram": 250}, LOAD3 + "x_size must keep inp entries below 256, got 265"),
        (3, {"y_before": 16}, LOAD3 + "y_size must keep inp entries below 256, got 271"),
        (3, {"z_size": 17}, LOAD3 + "z_size must keep inp entries below 256, got 271"),
        (3, {"dram": 64}, LOAD3 + "dram must keep beats of tensor data below 64, got 79"),
        (3, {"dram": 49}, LOAD3 + "x_size must keep beats of tensor data below 64, got 64"),
        (
            3,
            {"y_size": 2, "y_stride": 49},
            LOAD3 + "y_size and y_stride must keep beats of tensor data below 64, got 64",
        ),
        (
            3,
            {"z_size": 2, "z_stride": 49},
            LOAD3 + "z_size and z_stride must keep beats of tensor data below 64, got 64",
        ),
        (4, {"uop_end": 129}, GEMM4 + "uop_end must keep uop entries below 128, got 128"),
        (4, {"acc": 49}, GEMM4 + "loop0 and acc0 must keep acc entries below 64, got 64"),
        (4, {"acc0": 5}, GEMM4 + "loop0 and acc0 must keep acc entries below 64, got 75"),
        (4, {"loop0": 65}, GEMM4 + "loop0 and acc0 must keep acc entries below 64, got 64"),
        (4, {"loop1": 2, "acc1": 49}, GEMM4 + "loop1 and acc1 must keep acc entries below 64, got 64"),
        (4, {"src": 241}, GEMM4 + "loop0 and src0 must keep inp entries below 256, got 256"),
        (4, {"loop1": 2, "src1": 241}, GEMM4 + "loop1 and src1 must keep inp entries below 256, got 256"),
        (4, {"wgt": 60, "wgt0": 1}, GEMM4 + "loop0 and wgt0 must keep wgt entries below 64, got 75"),
        (4, {"loop1": 2, "wgt": 60, "wgt1": 4}, GEMM4 + "loop1 and wgt1 must keep wgt entries below 64, got 64"),
        (4, {"scl": 20, "scl0": 1}, GEMM4 + "loop0 and scl0 must keep scl entries below 32, got 35"),
        (4, {"loop1": 3, "scl1": 16}, GEMM4 + "loop1 and scl1 must keep scl entries below 32, got 32"),
        (4, {"out": 241}, GEMM4 + "loop0 and acc0 must keep out entries below 256, got 256"),
        (4, {"emit": Emit.RAW, "out": 49}, GEMM4 + "loop0 and acc0 must keep out slots below 64, got 64"),
        (5, {"sram": 241}, STORE5 + "x_size must keep out entries below 256, got 256"),
        (5, {"dram": 1}, STORE5 + "x_size must keep beats of tensor out below 16, got 16"),
        (5, {"dram": 16}, STORE5 + "dram must keep beats of tensor out below 16, got 31"),
    ],
)
def test_each_field_out_of_bounds_is_named(at, fields, text):
    bad = changed(at, **fields)
    verdict = verify(bad)
    bounds = [text for text in messages(verdict) if text.startswith("bounds")]
    assert bounds == [text]
    assert verdict.findings[0].instructions == (at,)
    assert attack(bad).harm in (Harm.BOUNDS, Harm.TIMING)


def test_micro_ops_out_of_bounds_are_named():
    bad = program(*PIPELINE, uops=(MicroOp(acc=60, first=1, last=1),))
    assert messages(verify(bad))[0] == GEMM4 + "micro-op must keep acc entries below 64, got 75"
    assert attack(bad).harm == Harm.BOUNDS


def test_vector_operands_are_indexed_in_vectors():
    read = Vector(VectorOp.MOV, Operand.WGT, wgt=63, init=1, pop_prev=1)
    steps = (UOPS, replace(WEIGHT, x_size=16, push_next=1), read)
    assert verify(program(*steps)).ok  # vector 63 of 256 lies in entry 15
    assert not verify(program(UOPS, replace(WEIGHT, x_size=15, push_next=1), read)).ok


@pytest.mark.parametrize("name", ["data", "weight", "uops"])
def test_only_outputs_and_scratch_are_written(name):
    steps = (*PIPELINE[:5], (replace(RESULT, x_size=1), name))
    roles = {"data": "input", "weight": "weight", "uops": "constant"}
    assert messages(verify(program(*steps))) == [
        f"{STORE5}tensor must have role output, scratch, resident or part to be written, got {roles[name]} {name}"
    ]
    assert attack(program(*steps)).harm == Harm.BOUNDS


def test_a_load_of_data_needs_a_tensor():
    bad = program(*PIPELINE[:3], (DATA, None), *PIPELINE[4:])
    assert LOAD3 + "dram must be relative to a tensor, got none" in messages(verify(bad))
    assert attack(bad).harm == Harm.BOUNDS


def test_padding_alone_needs_no_tensor():
    fill = Load(Buffer.INP, x_size=0, x_after=16, pad_value=3, push_next=1)
    assert verify(program(*PIPELINE[:3], fill, *PIPELINE[4:])).ok


def test_micro_ops_must_come_from_a_constant_tensor():
    bad = program((UOPS, "data"), *PIPELINE[1:])
    assert messages(verify(bad)) == [
        "bounds: instruction 0 (LOAD uop in compute): micro-ops must come from a constant, got input data",
        "uninitialised: instruction 4 (GEMM in compute): micro-op 0 must be loaded before it is used, got nothing",
        "uninitialised: instruction 5 (STORE in store): out[0..15] must be written before it is read, got nothing",
    ]
    assert attack(bad).harmful


def test_micro_ops_that_a_refused_load_overwrites_are_unknown():
    again = program(UOPS, (UOPS, "data"), *PIPELINE[1:])
    assert Kind.UNINITIALISED in verify(again).kinds()
    outside = program(UOPS, replace(UOPS, dram=2), *PIPELINE[1:])
    assert [finding.kind for finding in verify(outside).findings][:2] == [Kind.BOUNDS, Kind.UNINITIALISED]


def test_the_latest_load_of_micro_ops_counts():
    table = (MicroOp(first=1, last=1), MicroOp(acc=60, first=1, last=1))
    second = replace(UOPS, dram=2)  # a micro-op is two beats
    for loads, ok in (((UOPS,), True), ((second, UOPS), True), ((UOPS, second), False)):
        assert verify(program(*loads, *PIPELINE[1:], uops=table)).ok == ok
    between = (PRODUCT, RESULT, second, replace(PRODUCT, pop_prev=0, push_next=0))
    twice = verify(program(*PIPELINE[:4], *between, uops=table))
    assert [finding.instructions for finding in twice.findings if finding.kind == Kind.BOUNDS] == [(7,)]


def test_strided_micro_op_loads_gather_their_entries():
    table = (MicroOp(first=1, last=1), MicroOp(acc=63), MicroOp(first=1, last=1))
    gather = replace(UOPS, y_size=2, y_stride=4)
    product = replace(PRODUCT, uop_end=2)
    assert verify(program(gather, *PIPELINE[1:4], product, RESULT, uops=table)).ok
    assert not verify(program(replace(UOPS, x_size=2), *PIPELINE[1:4], product, RESULT, uops=table)).ok


# --- uninitialised data ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "instruction", "place"),
    [
        ((UOPS, SCALE, DATA, PRODUCT, RESULT), 3, Range("wgt", 0, 0)),
        ((UOPS, WEIGHT, DATA, PRODUCT, RESULT), 3, Range("scl", 0, 0)),
        ((UOPS, WEIGHT, SCALE, replace(DATA, sram=1), PRODUCT, RESULT), 4, Range("inp", 0, 0)),
        ((UOPS, WEIGHT, SCALE, replace(DATA, x_size=12), PRODUCT, RESULT), 4, Range("inp", 12, 15)),
        ((UOPS, WEIGHT, SCALE, DATA, replace(PRODUCT, init=0), RESULT), 4, Range("acc", 0, 15)),
        ((UOPS, WEIGHT, SCALE, DATA, PRODUCT, replace(RESULT, sram=3)), 5, Range("out", 16, 18)),
        (((Load(Buffer.INP, x_size=16), "tmp"),), 0, Range("tmp", 0, 15)),
    ],
)
def test_reads_of_unwritten_data_are_refused(steps, instruction, place):
    verdict = verify(program(*steps))
    finding = verdict.findings[0]
    assert (finding.kind, finding.instructions, finding.ranges) == (Kind.UNINITIALISED, (instruction,), (place,))
    assert finding.message.endswith(f": {place} must be written before it is read, got nothing")
    if len(steps) > 1:
        assert attack(program(*steps)).harm == Harm.TIMING


def test_a_kernel_that_starts_its_sums_reads_no_old_data():
    pair = (MicroOp(first=1), MicroOp(src=1, last=1))
    two = program(UOPS_2, WEIGHT, SCALE, replace(DATA, x_size=17), replace(PRODUCT, uop_end=2), RESULT, uops=pair)
    assert verify(two).ok
    swapped = program(
        UOPS_2, WEIGHT, SCALE, replace(DATA, x_size=17), replace(PRODUCT, uop_end=2), RESULT, uops=pair[::-1]
    )
    assert verify(swapped).findings[0].ranges == (Range("acc", 0, 15),)


UOPS_2 = replace(UOPS, x_size=2)


def test_an_output_that_is_not_written_completely_is_a_warning():
    verdict = verify(program(*PIPELINE[:5], replace(RESULT, x_size=10)))
    assert verdict.ok
    assert str(verdict) == (
        "program hand: verified, 6 instructions\n  warning: output out must be written completely, got 10 of 16 beats"
    )
