# SPDX-License-Identifier: Apache-2.0
"""Results that are inputs on the simulator: function, cycles, verifier and adversary."""

from dataclasses import replace

import numpy as np
import pytest
from helpers.extensions import lut
from helpers.hand_programs import UOPS, program
from helpers.naive_function import Naive
from helpers.naive_timing import Machine

import vdla
from vdla import te
from vdla.benchmarks.mutants import run as run_mutants
from vdla.compiler.extensions import Extension, ExtensionError, extension_intrinsic
from vdla.compiler.tensorize import IntrinsicError
from vdla.hardware import timing as contract
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import COUNTERS, UNITS, Emit, Gemm, IsaError, Load, MicroOp, PlugInField, Store, encode, isa_of
from vdla.hardware.program import STREAM, place
from vdla.simulator.function import Engine
from vdla.simulator.simulate import dram_image, simulate
from vdla.simulator.timing import time_program
from vdla.simulator.timing.vector_stalls import vector_stalls
from vdla.verification.adversary import Harm, attack
from vdla.verification.generated_tests.input_samples import handed, woven
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_programs import random_draft, random_verified_program

PLAIN = Config.preset("tiny")
DECLARED = (handed(2), woven(1))
TINY = vdla.extend(PLAIN, *DECLARED)
NARROW = replace(PLAIN, batch=2, block_in=8, inp_kib=2, acc_kib=2, inp_bits=4, wgt_bits=4)
HANDED, WOVEN = (isa_of(TINY).format_named(name).cls for name in ("handed", "woven"))

CHAIN = (
    Load(Buffer.UOP),
    Load(Buffer.WGT),
    Load(Buffer.SCL),
    Load(Buffer.INP, x_size=16, push_next=1),
    Gemm(loop0=16, acc0=1, src0=1, init=1, pop_prev=1),
    HANDED(loop0=16, acc=16, acc0=1, src0=1),
    Gemm(loop0=16, acc0=1, src=16, src0=1, init=1, emit=Emit.RAW, push_next=1),
    Store(x_size=64, pop_prev=1),
)
"""Two products with the sums of the first as inputs of the second: no store, no load between."""


def chain(*steps):
    return program(*(steps or CHAIN), config=TINY, beats={**BEATS, "out": 64})


BEATS = {"data": 64, "weight": 64, "scale": 64, "bias": 64, "out": 64, "tmp": 16}


# --- function and time ----------------------------------------------------------------------------


@pytest.mark.parametrize("plain", [PLAIN, NARROW], ids=["tiny", "narrow"])
def test_data_and_times_are_those_of_the_naive_models(plain):
    for seed in range(3):
        drawn = random_verified_program(vdla.extend(plain, *DECLARED), seed, 40, longest=8)
        _, dram = dram_image(drawn, random_arrays(drawn, 1))
        addresses, _ = place(drawn)
        columns = drawn.linked_columns(addresses)
        engine = Engine(drawn.config, columns, dram.copy(), portable=True)
        naive = Naive(drawn.config, columns, dram.copy(), [declare(plain) for declare in DECLARED])
        for k in range(len(columns)):
            engine.execute(k)
            naive.execute(k)
        assert (engine.buffers.out == naive.buffers[Buffer.OUT]).all()
        assert (engine.buffers.dram == naive.dram).all()
        timing = time_program(drawn, drawn.config)
        machine = Machine(drawn.config, columns, addresses[STREAM] // plain.axi_bytes, vector_stalls(drawn))
        assert timing.total_cycles == machine.run()
        assert timing.ends.tolist() == [i.E for i in machine.program]
        for unit in UNITS:
            assert timing.counters[unit] == {name: machine.counts[unit][name] for name in COUNTERS}


def test_the_fast_kernels_see_what_steps_write():
    """A machine whose products run on operands that the simulator lays out for them."""
    config = vdla.extend(Config.preset("pynq_z1"), handed(0))
    cls = isa_of(config).format_named("handed").cls
    product = Gemm(loop0=4, acc0=1, src0=1, init=1)
    steps = (
        *CHAIN[:3],
        Load(Buffer.INP, x_size=4, push_next=1),
        replace(product, pop_prev=1),
        cls(k=3, loop0=4, acc=4, acc0=1, src0=1),
        replace(product, src=4, emit=Emit.RAW, push_next=1),
        Store(x_size=16, pop_prev=1),
    )
    work = program(*steps, config=config, beats=dict.fromkeys(BEATS, 64))
    arrays = random_arrays(work, 5)
    columns = work.linked_columns(place(work)[0])
    images = [dram_image(work, arrays)[1] for _ in range(2)]
    for dram, portable in zip(images, (True, False), strict=True):
        Engine(config, columns, dram, portable).run(np.arange(len(columns)))
    assert (images[0] == images[1]).all()


def test_a_chain_is_computed_by_hand():
    work = chain()
    arrays = random_arrays(work, 3)
    x = arrays["data"].view(np.int8)[:64].reshape(16, 4).astype(np.int64)
    w = arrays["weight"].view(np.int8)[:16].reshape(4, 4).astype(np.int64)
    first = (x @ w.T).astype(np.int8).astype(np.int64)
    wanted = (first @ w.T).astype(np.int32)
    result = simulate(work, arrays)
    assert (result.outputs["out"].view(np.int32).reshape(16, 4) == wanted).all()


@pytest.mark.parametrize(
    ("steps", "cycles"),
    [
        (HANDED(loop0=4, acc0=1, src0=1), 4 * 1 + 2 + 3),  # sums are not written: a step a cycle
        (WOVEN(loop0=4, acc0=1, src0=1), 4 * (1 + 5) + 1 + 3),  # a result is read five cycles later
    ],
)
def test_instructions_take_the_cycles_of_the_contract(steps, cycles):
    work = program(Load(Buffer.UOP), Load(Buffer.ACC, x_size=8), steps, config=TINY)
    found = time_program(work, TINY)
    assert found.ends[2] - found.starts[2] == cycles + contract.compute_depth(TINY)


# --- verification ---------------------------------------------------------------------------------


def test_a_safe_chain_is_verified_and_not_harmed():
    assert vdla.verify(chain()).ok
    assert attack(chain()).harm is Harm.NONE


def test_a_load_into_what_a_step_writes_is_a_race():
    work = chain(*CHAIN[:6], Load(Buffer.INP, sram=16, x_size=16), *CHAIN[6:])
    (finding,) = [each for each in vdla.verify(work).findings if each.instructions[0] == 5]
    assert finding.message == (
        "instruction 5 (HANDED in compute) writes inp[16..31] and instruction 6 (LOAD inp in load) writes it; "
        "no token orders them (write after write)"
    )
    assert attack(work).harm is Harm.TIMING


def test_entries_must_be_written_and_lie_in_the_buffer():
    unwritten = chain(*CHAIN[:5], replace(CHAIN[5], loop0=15), *CHAIN[6:])
    assert vdla.verify(unwritten).findings[0].message == (
        "instruction 6 (GEMM in compute): inp[31] must be written before it is read, got nothing"
    )
    outside = chain(*CHAIN[:5], replace(CHAIN[5], acc=TINY.acc_depth - 8), *CHAIN[6:])
    assert vdla.verify(outside).findings[0].message == (
        f"instruction 5 (HANDED in compute): loop0 and acc0 must keep inp entries below {TINY.acc_depth}, "
        f"got {TINY.acc_depth + 7}"
    )


def test_a_step_may_read_what_a_step_before_wrote():
    def reads(micro_ops, **fields):
        two = Load(Buffer.INP, x_size=2, push_next=1)
        step = WOVEN(uop_end=len(micro_ops), pop_prev=1, **fields)
        work = program(replace(UOPS, x_size=len(micro_ops)), CHAIN[1], two, step, uops=micro_ops, config=TINY)
        return [finding.message for finding in vdla.verify(work).findings]

    inner = [MicroOp(acc=2), MicroOp(acc=3), MicroOp(acc=4, src=1)]  # two results make the next pair
    assert reads(inner) == []
    assert reads(inner[1:]) == [
        "instruction 3 (WOVEN in compute): inp[2] must be written before it is read, got nothing"
    ]


def test_the_verifier_refuses_every_mutant_that_the_adversary_harms():
    drafts = [random_draft(TINY, seed, 30, longest=8) for seed in range(4)]
    programs = [draft.program(draft.needed_tokens) for draft in drafts]
    figures = run_mutants(count=60, programs=programs).figures
    assert figures["harmful"] > 10
    assert (figures["missed"], figures["false_alarms"], figures["harmful_unchanged"]) == (0, 0, 0)


# --- refusals -------------------------------------------------------------------------------------


def test_such_an_instruction_sends_nothing_and_begins_no_sum():
    for fields, text in (
        ({"emit": Emit.RAW}, "emit must be NONE in handed, which computes no sums, got RAW"),
        ({"init": 1}, "init must be 0 in handed, got 1"),
    ):
        with pytest.raises(IsaError) as error:
            encode(TINY, [HANDED(**fields)])
        assert str(error.value) == f"instruction 0 (HANDED): {text}"


def test_only_the_accumulator_continues_results():
    x, i = te.placeholder((1, 4), "int8", "x"), te.reduce_axis(4, "i")
    output = te.compute((1, 4), lambda b, o: te.sum(x[b, i], axis=i), "y")
    with pytest.raises(ExtensionError) as error:
        Extension(name="own", doc="Own.", output=output, scopes={"x": "inp", "y": "inp"}).plug_in(PLAIN)
    assert str(error.value).partition(": ")[2] == (
        "extension own: an output in inp must not depend on the entry before, as only sums in acc continue, "
        "got a reduction; write it to acc"
    )


def test_an_entry_is_one_of_the_input_buffer():
    x = te.placeholder((1, 4), "int32", "x")
    output = te.compute((1, 4), lambda b, o: x[b, o], "y")
    with pytest.raises(ExtensionError) as error:
        Extension(name="own", doc="Own.", output=output, scopes={"x": "acc", "y": "inp"}).plug_in(PLAIN)
    assert str(error.value).partition(": ")[2] == "extension own: y must be int8[1, 4] in scope inp, got int32[1, 4]"


def test_the_mapper_has_no_use_for_it():
    with pytest.raises(IntrinsicError) as error:
        extension_intrinsic(handed(0)(PLAIN), PLAIN)
    assert str(error.value) == (
        "extension handed: an intrinsic must compute sums, got results in inp; write programs for layers, with program="
    )


def test_digests_are_those_of_before():
    assert lut(PLAIN).plug_in(PLAIN).digest == "8b47c1edc96a"
    declared = handed(0)(PLAIN).plug_in(PLAIN)
    assert declared.digest != replace(declared, writes_inputs=False).digest


# --- index maps -----------------------------------------------------------------------------------


MAPS = {
    "every other element": ({"x": ("inp", (1, 8), "int8")}, lambda x, i, n: x["x"][0, 2 * i]),
    "a window": ({"x": ("inp", (1, 8), "int8")}, lambda x, i, n: x["x"][0, n + i]),
    "a column": ({"w": ("wgt", (4, 4), "int8")}, lambda x, i, n: x["w"][i, n]),
    "narrow elements": ({"w": ("wgt", (4, 16), "int2")}, lambda x, i, n: te.cast("int8", x["w"][n, i])),
    "a gather": (
        {"x": ("inp", (1, 4), "int8"), "w": ("wgt", (4, 4), "int8")},
        lambda x, i, n: x["x"][0, te.clip(te.cast("int32", x["w"][0, i]), 0, 3)],
    ),
}


@pytest.mark.parametrize("name", MAPS)
def test_the_maps_of_the_page_are_instructions(name):
    """Each gives the elements that its expression names, also as numbers by hand."""
    operands, element = MAPS[name]

    def declare(config):
        tensors = {key: te.placeholder(shape, dtype, key) for key, (_, shape, dtype) in operands.items()}
        n = te.placeholder((1,), "int32", "n")
        output = te.compute((1, 4), lambda b, i: element(tensors, i, n[0] if used else 0), "y")
        scopes = {key: scope for key, (scope, _, _) in operands.items()} | ({"n": "immediate"} if "n" in used else {})
        fields = [PlugInField("n", 2, "Which.")] if "n" in used else []
        return Extension(name="own", doc="Own.", output=output, scopes={**scopes, "y": "inp"}, fields=fields)

    used = {"n"} if name in ("a window", "a column", "narrow elements") else set()
    config = vdla.extend(PLAIN, declare)
    cls = isa_of(config).format_named("own").cls
    step = cls(acc=8, pop_prev=1, **({"n": 2} if used else {}))
    identity = Gemm(src=8, init=1, emit=Emit.RAW, wgt=1, push_next=1)
    loads = (Load(Buffer.UOP), Load(Buffer.WGT, x_size=2), Load(Buffer.INP, x_size=2, push_next=1))
    work = program(*loads, step, identity, Store(x_size=4, pop_prev=1), config=config, beats=dict.fromkeys(BEATS, 64))
    assert vdla.verify(work).ok
    arrays = random_arrays(work, 7)
    weights = arrays["weight"].view(np.int8)
    weights[16:32] = np.eye(4, dtype=np.int8).ravel()
    x, w = arrays["data"].view(np.int8)[:8], weights[:16].reshape(4, 4)
    narrow = ((weights[:16, None].view(np.uint8) >> np.array([0, 2, 4, 6]) & 3) ^ 2).astype(int) - 2
    wanted = {
        "every other element": x[::2],
        "a window": x[2:6],
        "a column": w[:, 2],
        "narrow elements": narrow.reshape(4, 16)[2, :4],
        "a gather": x[np.clip(w[0], 0, 3)],
    }[name]
    out = simulate(work, arrays).outputs["out"].view(np.int32)[:4]
    assert out.tolist() == wanted.tolist()
