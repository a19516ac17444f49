"""The verifier on programs written by hand: one finding of every kind, with its text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hand_programs import DATA, ONE, PIPELINE, PRODUCT, RESULT, SCALE, TINY, UOPS, WEIGHT, changed, program

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Emit, Gemm, Load, MicroOp, Operand, Sync, Unit, Vector, VectorOp
from vdla.hardware.program import Program
from vdla.simulator.adversary import Harm, attack
from vdla.simulator.verify import Kind, Range, VerifyError, verify


def messages(verdict):
    return [f"{finding.kind.value}: {finding.message}" for finding in verdict.findings]


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


# --- configuration and encoding --------------------------------------------------------------------------------------


def test_a_program_for_another_machine_is_refused():
    verdict = verify(program(*PIPELINE), replace(TINY, acc_kib=2))
    assert messages(verdict) == ["configuration: program was compiled for acc_kib=1, device has 2"]


def test_queue_depths_dram_and_clock_do_not_matter():
    other = replace(TINY, name="other", command_depth=64, token_depth=32, dram=Config().dram, clock_mhz=7)
    assert verify(program(*PIPELINE), other).ok


def test_every_invalid_word_is_named():
    good = program(*PIPELINE)
    words = good.words.copy()
    words[1, 0] &= 0xF8
    words[4, -1] = 0x80
    bad = Program(TINY, "hand", words, good.tensors, np.full(6, -1, np.int32), (), good.source_of)
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


# --- bounds ----------------------------------------------------------------------------------------------------------

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
def test_each_field_that_leads_out_is_named(at, fields, text):
    bad = changed(at, **fields)
    verdict = verify(bad)
    bounds = [text for text in messages(verdict) if text.startswith("bounds")]
    assert bounds == [text]
    assert verdict.findings[0].instructions == (at,)
    assert attack(bad).harm in (Harm.BOUNDS, Harm.TIMING)


def test_micro_ops_that_lead_out_are_named():
    bad = program(*PIPELINE, uops=(MicroOp(acc=60, first=1, last=1),))
    assert messages(verify(bad))[0] == GEMM4 + "loop0 and acc0 must keep acc entries below 64, got 75" or messages(
        verify(bad)
    )[0] == (GEMM4 + "micro-op must keep acc entries below 64, got 75")
    assert attack(bad).harm == Harm.BOUNDS


def test_vectors_are_indices_of_their_own():
    read = Vector(VectorOp.MOV, Operand.WGT, wgt=63, init=1, pop_prev=1)
    steps = (UOPS, replace(WEIGHT, x_size=16, push_next=1), read)
    assert verify(program(*steps)).ok  # vector 63 of 256 lies in entry 15
    assert not verify(program(UOPS, replace(WEIGHT, x_size=15, push_next=1), read)).ok


@pytest.mark.parametrize("name", ["data", "weight", "uops"])
def test_only_outputs_and_scratch_are_written(name):
    steps = (*PIPELINE[:5], (replace(RESULT, x_size=1), name))
    roles = {"data": "input", "weight": "weight", "uops": "constant"}
    assert messages(verify(program(*steps))) == [
        f"{STORE5}tensor must have role output or scratch to be written, got {roles[name]} {name}"
    ]
    assert attack(program(*steps)).harm == Harm.BOUNDS


def test_data_come_from_a_tensor():
    bad = program(*PIPELINE[:3], (DATA, None), *PIPELINE[4:])
    assert LOAD3 + "dram must be relative to a tensor, got none" in messages(verify(bad))
    assert attack(bad).harm == Harm.BOUNDS


def test_padding_alone_needs_no_tensor():
    fill = Load(Buffer.INP, x_size=0, x_after=16, pad_value=3, push_next=1)
    assert verify(program(*PIPELINE[:3], fill, *PIPELINE[4:])).ok


def test_micro_ops_come_from_constants():
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


def test_the_micro_ops_that_count_are_those_of_the_latest_load():
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


# --- uninitialised data ----------------------------------------------------------------------------------------------


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
def test_what_nobody_wrote_is_not_read(steps, instruction, place):
    verdict = verify(program(*steps))
    finding = verdict.findings[0]
    assert (finding.kind, finding.instructions, finding.ranges) == (Kind.UNINITIALISED, (instruction,), (place,))
    assert finding.message.endswith(f": {place} must be written before it is read, got nothing")
    if len(steps) > 1:
        assert attack(program(*steps)).harm == Harm.TIMING


def test_a_kernel_that_starts_its_own_sums_reads_nothing_old():
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


# --- deadlock --------------------------------------------------------------------------------------------------------


def test_two_units_that_wait_for_each_other():
    bad = program(UOPS, WEIGHT, SCALE, replace(DATA, pop_next=1), replace(PRODUCT, push_prev=1), RESULT)
    finding = next(finding for finding in verify(bad).findings if finding.kind == Kind.DEADLOCK)
    assert finding.message == (
        "nothing moves after 3 of 6 instructions; "
        "instruction 3 (LOAD inp in load) waits to pop from compute_to_load, which is empty; "
        "instruction 4 (GEMM in compute) waits to pop from load_to_compute, which is empty; "
        "instruction 5 (STORE in store) waits to pop from compute_to_store, which is empty; "
        "circle of waits: load -> compute -> load"
    )
    assert finding.instructions == (3, 4, 5)
    assert finding.units == ("load", "compute", "store")
    assert finding.queues == ("compute_to_load", "load_to_compute", "compute_to_store")
    assert attack(bad).harm == Harm.HANG


def test_a_token_that_never_comes():
    bad = program(UOPS, WEIGHT, SCALE, replace(DATA, push_next=0), PRODUCT, RESULT)
    assert messages(verify(bad)) == [
        "deadlock: nothing moves after 4 of 6 instructions; "
        "instruction 4 (GEMM in compute) waits to pop from load_to_compute, which is empty; "
        "instruction 5 (STORE in store) waits to pop from compute_to_store, which is empty; "
        "compute waits for load, which has no more instructions"
    ]
    assert attack(bad).harm == Harm.HANG


def pushes(count):
    """`count` tokens pushed before the first is popped."""
    return [Sync(Unit.LOAD, push_next=1)] * count + [Sync(Unit.COMPUTE, pop_prev=1)] * count


def test_a_full_queue_blocks_fetch():
    assert verify(program(*pushes(13))).ok  # 8 tokens, one that waits for room, 4 commands
    bad = program(*pushes(14))
    assert messages(verify(bad)) == [
        "deadlock: nothing moves after 8 of 28 instructions; "
        "instruction 8 (SYNC in load) waits to push to load_to_compute, which is full with 8 tokens; "
        "fetch waits at instruction 13 (SYNC in load) for room in the command queue of load; "
        "circle of waits: load -> compute -> fetch -> load"
    ]
    assert verify(bad).findings[0].instructions == (8, 13)
    assert attack(bad).harm == Harm.HANG


def test_tokens_left_over_are_refused():
    bad = program(*PIPELINE[:4], replace(PRODUCT, push_prev=1), RESULT)
    assert messages(verify(bad)) == [
        "unbalanced: compute_to_load must be empty at the end, got 1 token that load never pops, "
        "the last from instruction 4 (GEMM in compute)"
    ]


# --- races -----------------------------------------------------------------------------------------------------------

# A second tile into the same places, without the tokens that keep it from the first.
AGAIN = (replace(DATA, dram=16), replace(PRODUCT), RESULT)
LATER = {
    Buffer.INP: replace(DATA, dram=16, push_next=0),
    Buffer.WGT: replace(WEIGHT, dram=4),
    Buffer.SCL: replace(SCALE, dram=8),
}


@pytest.mark.parametrize("buffer", LATER)
def test_write_after_read_of_what_load_writes(buffer):
    bad = program(*PIPELINE, LATER[buffer])
    verdict = verify(bad)
    name = buffer.name.lower()
    place = {Buffer.INP: "inp[0..15]", Buffer.WGT: "wgt[0]", Buffer.SCL: "scl[0]"}[buffer]
    assert messages(verdict) == [
        f"race: instruction 4 (GEMM in compute) reads {place} and instruction 6 (LOAD {name} in load) writes it; "
        "no token orders them (write after read)"
    ]
    assert verdict.findings[0].instructions == (4, 6)
    assert verdict.findings[0].units == ("compute", "load")
    assert attack(bad).harm == Harm.TIMING
    ordered = (*PIPELINE[:4], replace(PRODUCT, push_prev=1), RESULT, replace(LATER[buffer], pop_next=1))
    assert verify(program(*ordered)).ok


@pytest.mark.parametrize("buffer", LATER)
def test_read_after_write_of_what_load_writes(buffer):
    """The token comes from an earlier instruction than the one that writes."""
    late = {Buffer.INP: DATA, Buffer.WGT: WEIGHT, Buffer.SCL: SCALE}[buffer]
    others = [load for load in (WEIGHT, SCALE, DATA) if load.buffer != buffer]
    steps = [UOPS, *(replace(load, push_next=int(load is others[-1])) for load in others), replace(late, push_next=0)]
    bad = program(*steps, PRODUCT, RESULT)
    name = buffer.name.lower()
    place = "inp[0..15]" if buffer == Buffer.INP else f"{name}[0]"
    assert messages(verify(bad)) == [
        f"race: instruction 3 (LOAD {name} in load) writes {place} and instruction 4 (GEMM in compute) reads it; "
        "no token orders them (read after write)"
    ]
    assert attack(bad).harm == Harm.TIMING


def test_read_after_write_of_results():
    early = replace(PRODUCT, emit=Emit.NONE, push_next=1)
    bad = program(*PIPELINE[:4], early, replace(PRODUCT, pop_prev=0, push_next=0), RESULT)
    assert messages(verify(bad)) == [
        "race: instruction 5 (GEMM in compute) writes out[0..15] and instruction 6 (STORE in store) reads it; "
        "no token orders them (read after write)"
    ]
    assert attack(bad).harm == Harm.TIMING


def test_write_after_read_of_results():
    second = (replace(DATA, sram=16, dram=16), replace(PRODUCT, src=16), (RESULT, "tmp"))
    bad = program(*PIPELINE, *second)
    assert messages(verify(bad)) == [
        "race: instruction 5 (STORE in store) reads out[0..15] and instruction 7 (GEMM in compute) writes it; "
        "no token orders them (write after read)"
    ]
    assert attack(bad).harm == Harm.TIMING
    good = program(*PIPELINE[:5], replace(RESULT, push_prev=1), second[0], replace(second[1], pop_next=1), second[2])
    assert verify(good).ok
    assert attack(good).harm == Harm.NONE


def test_races_in_dram_between_store_and_load():
    spill = (replace(RESULT, push_prev=0), "tmp")
    back = (replace(DATA, sram=16), "tmp")
    rest = (replace(PRODUCT, src=16, out=16), replace(RESULT, sram=16))
    bad = program(*PIPELINE[:5], spill, back, *rest)
    assert messages(verify(bad)) == [
        "race: instruction 5 (STORE in store) writes tmp[0..15] and instruction 6 (LOAD inp in load) reads it; "
        "no token orders them (read after write)"
    ]
    assert attack(bad).harm == Harm.TIMING
    relay = Sync(Unit.COMPUTE, pop_next=1, push_prev=1)
    ordered = ((replace(RESULT, push_prev=1), "tmp"), relay, (replace(back[0], pop_next=1), "tmp"))
    good = program(*PIPELINE[:5], *ordered, *rest)
    assert verify(good).ok
    assert attack(good).harm == Harm.NONE


def test_write_after_read_in_dram():
    spill = (replace(RESULT, push_prev=1), "tmp")
    relay = Sync(Unit.COMPUTE, pop_next=1, push_prev=1)
    back = (replace(DATA, sram=16, pop_next=1), "tmp")
    again = (replace(PRODUCT, out=16, pop_prev=0), (replace(RESULT, sram=16), "tmp"))
    tail = (replace(PRODUCT, src=16, out=32), replace(RESULT, sram=32))
    bad = program(*PIPELINE[:5], spill, relay, back, *again, *tail)
    assert messages(verify(bad)) == [
        "race: instruction 7 (LOAD inp in load) reads tmp[0..15] and instruction 9 (STORE in store) writes it; "
        "no token orders them (write after read)"
    ]
    good = (replace(tail[0]), replace(tail[1]), *again)
    assert verify(program(*PIPELINE[:5], spill, relay, back, *good)).ok


def test_writes_of_one_unit_are_in_order():
    twice = program(*PIPELINE[:5], replace(RESULT, pop_prev=1), replace(RESULT, pop_prev=0))
    assert verify(twice).ok
    assert attack(twice).harm == Harm.NONE


def test_back_pressure_is_no_order():
    """A push that waits for room is ordered after a pop on this machine, but not on one with deeper queues."""
    fill = [Sync(Unit.LOAD, push_next=1)] * 7
    steps = (UOPS, WEIGHT, SCALE, DATA, *fill, Sync(Unit.LOAD, push_next=1), replace(DATA, dram=16, push_next=0))
    drain = [Sync(Unit.COMPUTE, pop_prev=1)] * 8
    bad = program(*steps, PRODUCT, RESULT, *drain)
    assert Kind.RACE in verify(bad).kinds()
    assert attack(bad).harm == Harm.TIMING


# --- texts -----------------------------------------------------------------------------------------------------------


def test_the_text_names_the_schedule_lines():
    lines = ["load the micro-ops", "load the weights", "load the scales", "load the data", "multiply", "store"]
    bad = program(UOPS, WEIGHT, SCALE, replace(DATA, push_next=0), replace(PRODUCT, pop_prev=0), RESULT, lines=lines)
    verdict = verify(bad)
    assert str(verdict) == (
        "program hand: refused, 3 findings in 6 instructions\n"
        "  race: instruction 1 (LOAD wgt in load) writes wgt[0] and instruction 4 (GEMM in compute) reads it; "
        "no token orders them (read after write)\n"
        "    schedule: load the weights\n"
        "    schedule: multiply\n"
        "  race: instruction 2 (LOAD scl in load) writes scl[0] and instruction 4 (GEMM in compute) reads it; "
        "no token orders them (read after write)\n"
        "    schedule: load the scales\n"
        "    schedule: multiply\n"
        "  race: instruction 3 (LOAD inp in load) writes inp[0..15] and instruction 4 (GEMM in compute) reads it; "
        "no token orders them (read after write)\n"
        "    schedule: load the data\n"
        "    schedule: multiply"
    )
    with pytest.raises(VerifyError) as caught:
        verdict.raise_if_bad()
    assert str(caught.value) == str(verdict)
    assert caught.value.verdict is verdict


def test_the_text_shortens_long_schedule_lines():
    line = "for " + "x" * 200
    verdict = verify(program(replace(DATA, dram=99), lines=[line]))
    assert verdict.findings[0].schedule == (line,)
    assert str(verdict).split("\n")[2] == f"    schedule: {line[:92]} ..."


def test_many_findings_are_counted_not_listed():
    bad = program(UOPS, *[replace(DATA, dram=64, push_next=0)] * 20)
    verdict = verify(bad)
    assert len(verdict.findings) == 8
    assert verdict.more == 12
    assert str(verdict).startswith("program hand: refused, 20 findings in 21 instructions\n")
    assert str(verdict).endswith("\n  and 12 findings more")


def test_a_huge_tensor_costs_only_what_is_touched():
    beats = {"tmp": 1 << 33, "data": 64, "weight": 64, "scale": 64, "bias": 64, "out": 16}
    far = replace(RESULT, dram=(1 << 32) - 16)
    good = program(*PIPELINE[:5], (replace(far, push_prev=1), "tmp"), Sync(Unit.COMPUTE, pop_next=1), beats=beats)
    assert verify(good).ok
    back = (replace(DATA, sram=16, dram=(1 << 32) - 15, x_size=4, push_next=0), "tmp")
    bad = program(*PIPELINE[:5], (far, "tmp"), back, beats=beats)
    assert verify(bad).findings[0].ranges == (Range("tmp", (1 << 32) - 15, (1 << 32) - 12),)


def test_a_hostile_loop_count_is_verified_at_once():
    many = Gemm(loop0=256, loop1=511, init=1, pop_prev=1, uop_end=128)
    steps = (replace(UOPS, x_size=128), WEIGHT, SCALE, DATA, many)
    assert verify(program(*steps, uops=ONE * 128)).ok
