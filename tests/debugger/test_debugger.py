# SPDX-License-Identifier: Apache-2.0
"""The debugger: contents in every cycle, steps both ways, breakpoints, reasons, hangs."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from helpers.extensions import sad
from helpers.small_programs import small_gemm
from helpers.stateful import depthwise, running, table
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import vdla
from vdla.compiler.templates import conv2d
from vdla.debugger.checkpoints import LEAST_DISTANCE, Checkpoints
from vdla.debugger.debugger import Debugger
from vdla.debugger.errors import DebugError
from vdla.debugger.undo_log import UndoLog
from vdla.hardware.asm import assemble
from vdla.hardware.asm.disassembler import row_text
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, QUEUES, Buffer, Unit, columns
from vdla.hardware.program import Program
from vdla.hardware.program.program import ProgramError
from vdla.simulator.function import Buffers, Engine
from vdla.simulator.simulate import dram_image, simulate
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import time_program
from vdla.simulator.timing.layout import UNKNOWN
from vdla.simulator.verify import VerifyError
from vdla.simulator.verify.accesses import program_accesses
from vdla.verification.generated_tests.input_samples import handed, woven
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_programs import random_verified_program

TINY = Config.preset("tiny")
MACHINES = {
    "tiny": TINY,
    "int4": Config.preset("int4"),
    "batch4": Config.preset("batch4"),
    "pynq_z1": Config.preset("pynq_z1"),
    "sad": vdla.extend(TINY, sad),
    "state": vdla.extend(TINY, running),
    "line buffer": vdla.extend(TINY, depthwise),
    "stage": vdla.extend(TINY, table),
    "inputs": vdla.extend(TINY, handed(2), woven(1)),
    "inputs on lanes": vdla.extend(Config.preset("pynq_z1"), handed(2)),
}


@pytest.fixture
def gemm() -> Debugger:
    program, arrays, _ = small_gemm(TINY)
    return vdla.debug(program, arrays)


@pytest.fixture
def conv() -> Debugger:
    """A convolution with tokens in all four queues, and lines of a schedule."""
    program = conv2d(TINY, height=8, width=8, in_channels=16, out_channels=16, kernel=3, batch=1).program
    return vdla.debug(program, random_arrays(program, 0))


# --- contents -------------------------------------------------------------------------------------


def naive(program: Program, arrays: dict[str, Any], order: np.ndarray) -> Engine:
    """The state after some instructions, executed one by one from the beginning."""
    linked, dram = dram_image(program, arrays)
    engine = Engine(program.config, columns(program.config, linked), dram, portable=True)
    for k in order.tolist():
        engine.execute(k)
    return engine


@pytest.mark.sampled
@pytest.mark.parametrize("name", MACHINES)
def test_contents_in_any_cycle_are_those_of_the_instructions_that_ended(name: str) -> None:
    config = MACHINES[name]
    program = random_verified_program(config, 5, 3 * LEAST_DISTANCE)
    arrays, stats = random_arrays(program, 1), time_program(program)
    run = vdla.debug(program, arrays)
    for cycle in np.random.default_rng(0).integers(0, run.total_cycles + 1, 12).tolist():
        run.go_to_cycle(cycle)
        ended = np.flatnonzero(stats.ends < cycle)
        wanted = naive(program, arrays, ended[np.argsort(stats.ends[ended], kind="stable")]).buffers
        assert (run.value("acc") == wanted.acc.reshape(run.value("acc").shape)).all()
        assert (run.value("inp") == wanted.inp).all()
        assert (run.value("raw").reshape(-1) == wanted.raw.reshape(-1)).all()
        for tensor in (tensor for tensor in program.tensors if tensor.role == "output"):
            assert (run.value(f"dram.{tensor.name}") == output(program, wanted, tensor.name)).all()
        for state, rows in wanted.states.items():
            assert (run.value(state.label).reshape(-1) == rows.reshape(-1)).all()


def output(program: Program, buffers: Any, name: str) -> np.ndarray:
    from vdla.hardware.program import from_bytes, place

    tensor, (addresses, _) = program.tensor(name), place(program)
    return from_bytes(tensor, buffers.dram[addresses[name] :][: tensor.nbytes])


def test_the_end_has_the_outputs_of_the_simulator_and_the_start_nothing(gemm: Debugger) -> None:
    program, arrays, wanted = small_gemm(TINY)
    gemm.go_to_cycle(gemm.total_cycles)
    assert gemm.total_cycles == simulate(program, arrays).statistics.total_cycles
    assert (gemm.value("dram.out") == wanted).all()
    gemm.go_to_cycle(0)
    assert not gemm.value("dram.out").any() and not gemm.value("acc").any()


def test_values_have_the_elements_of_their_buffers(gemm: Debugger) -> None:
    _, arrays, _ = small_gemm(TINY)
    gemm.go_to_cycle(gemm.total_cycles)
    assert (gemm.value("dram.wgt[1, 0]") == arrays["wgt"][1, 0]).all()
    assert gemm.value("wgt[0:2]").shape == (2, TINY.block_out, TINY.block_in)
    assert gemm.value("uop[0]").shape == (5,)
    assert gemm.value("acc[3, 0, -1]").shape == ()
    bias, mult, shift = gemm.value("scl[0, 0]").tolist()
    lane = int(arrays["scl"].reshape(-1).view(np.uint64)[0])
    assert (bias & 0xFFFFFFFF, mult, shift) == (lane & 0xFFFFFFFF, lane >> 32 & 0xFFFFFF, lane >> 56 & 63)


@pytest.mark.sampled
@pytest.mark.parametrize("name", MACHINES)
@given(
    seed=st.integers(0, 1),
    counts=st.lists(st.integers(0, 3 * LEAST_DISTANCE), min_size=1, max_size=8),
    back=st.integers(1, 40),
    share=st.sampled_from([0.02, 1.5, 1000]),
)
@settings(max_examples=5, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_every_way_to_a_place_leads_to_the_state_of_a_fresh_run(
    name: str, seed: int, counts: list[int], back: int, share: float
) -> None:
    """Forwards to a place and back by steps, with much and little memory for what was there."""
    program = long_program(name, seed)
    arrays, order = random_arrays(program, seed), np.arange(len(program))
    copy_bytes = Checkpoints(program, arrays, order).copy_bytes
    states = Checkpoints(program, arrays, order, most_bytes=int(share * copy_bytes))
    for count in counts:
        last = min(count, len(program))
        for place in range(last, max(0, last - back) - 1, -1):
            got = states.at(place)
        assert_same(got, fresh(program, arrays, place))
    assert_same(states.at(len(program)), fresh(program, arrays, len(program)))


@cache
def long_program(name: str, seed: int) -> Program:
    return random_verified_program(MACHINES[name], seed, 2 * LEAST_DISTANCE + 50)


def fresh(program: Program, arrays: dict[str, Any], count: int) -> Buffers:
    linked, dram = dram_image(program, arrays)
    engine = Engine(program.config, columns(program.config, linked), dram)
    engine.run(np.arange(count))
    return engine.buffers


def assert_same(got: Buffers, wanted: Buffers) -> None:
    """All that is in buffers, private states and DRAM, and what is derived from it."""
    assert (got.dram == wanted.dram).all()
    contents = wanted.contents()
    assert all((array == contents[buffer]).all() for buffer, array in got.contents().items())
    assert all((got.states[state] == array).all() for state, array in wanted.states.items())
    for name in ("tiles", "offsets", "wide_inp") if wanted.tiled else ():
        assert (getattr(got, name) == getattr(wanted, name)).all(), name


def test_a_step_back_executes_nothing_that_was_executed_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_verified_program(TINY, 5, 4 * LEAST_DISTANCE)
    states = Checkpoints(program, random_arrays(program, 1), np.arange(len(program)))
    for count in range(len(program) + 1):
        states.at(count)
    monkeypatch.setattr(Engine, "run", lambda engine, order: pytest.fail("a step back executes"))
    for count in reversed(range(len(program))):
        states.at(count)


def test_a_step_back_behind_a_jump_executes_each_instruction_once(monkeypatch: pytest.MonkeyPatch) -> None:
    program = random_verified_program(TINY, 5, 4 * LEAST_DISTANCE)
    states = Checkpoints(program, random_arrays(program, 1), np.arange(len(program)))
    states.at(len(program))
    executed: list[int] = []
    plain = Engine.run
    monkeypatch.setattr(Engine, "run", lambda engine, order: (executed.append(len(order)), plain(engine, order)))
    for count in reversed(range(len(program))):
        states.at(count)
    assert sum(executed) < len(program) and states.distance == LEAST_DISTANCE


def test_copies_are_farther_apart_where_they_would_take_too_much_memory() -> None:
    program = random_verified_program(TINY, 5, 4 * LEAST_DISTANCE)
    arrays, order = random_arrays(program, 1), np.arange(len(program))
    few = Checkpoints(program, arrays, order, most_bytes=3 * Checkpoints(program, arrays, order).copy_bytes)
    assert few.distance == -(-2 * len(program) // 3)
    for count in (len(program), 7, 90, 0, len(program) - 1):
        assert (few.at(count).acc == naive(program, arrays, order[:count]).buffers.acc).all()


def test_the_log_forgets_the_oldest_instructions() -> None:
    entries = np.arange(1000)
    log = UndoLog(3 * (entries.nbytes + 512))
    for value in range(5):
        log.add([entries, entries[:0]])
        entries[:] = value
    assert len(log) == 3
    for value in (3, 2, 1):
        log.undo()
        assert (entries == value).all()
    log.add([entries])
    log.clear()
    assert len(log) == 0


# --- steps ----------------------------------------------------------------------------------------


def test_steps_follow_the_starts_and_back_is_the_same_way(conv: Debugger) -> None:
    starts = time_program(conv.program).starts
    wanted = sorted(range(len(starts)), key=lambda k: (starts[k], k))
    there = [(conv.step().instruction, conv.cycle) for _ in wanted]
    assert there == [(k, starts[k]) for k in wanted]
    assert conv.step().cycle == conv.total_cycles
    back = [(conv.back().instruction, conv.cycle) for _ in wanted]
    assert back == there[::-1]
    stop = conv.back()
    assert (stop.cycle, stop.instruction) == (0, None)


def test_back_from_the_middle_of_an_instruction_goes_to_its_start(conv: Debugger) -> None:
    conv.step(count=3)
    here = (conv.cycle, conv.instruction)
    conv.step("cycle")
    assert conv.instruction == here[1]
    conv.back()
    assert (conv.cycle, conv.instruction) == here


@pytest.mark.parametrize("kind", ["unit", "line", "token"])
def test_a_step_to_a_unit_a_line_or_a_token_is_the_next_of_all_steps(conv: Debugger, kind: str) -> None:
    columns_, source = conv.program.columns, conv.program.source_of

    def fits(before: int, k: int) -> bool:
        if kind == "unit":
            return bool(columns_[k, COL["unit"]] == columns_[before, COL["unit"]])
        if kind == "line":
            return bool(source[k] != source[before])
        unit = columns_[k, COL["unit"]]
        return any(unit == queue.consumer and columns_[k, COL[queue.pop]] for queue in QUEUES)

    order = [int(k) for k in conv.timeline.order]
    for at in range(0, len(order), 7):
        later = next((k for k in order[at + 1 :] if fits(order[at], k)), None)
        before = next((k for k in order[:at][::-1] if fits(order[at], k)), None)
        conv.go_to(order[at])
        conv.step(kind)
        assert conv.cycle == conv.total_cycles if later is None else conv.instruction == later
        conv.go_to(order[at])
        assert conv.back(kind).instruction == before


def test_cycles_end_at_both_ends_of_the_run(gemm: Debugger) -> None:
    assert gemm.step("cycle", 5).cycle == 5
    assert gemm.back("cycle", 9).cycle == 0
    assert gemm.step("cycle", 10**9).cycle == gemm.total_cycles


def test_finish_goes_behind_the_end_of_the_instruction(gemm: Debugger) -> None:
    ends = time_program(gemm.program).ends
    gemm.go_to(4)
    assert gemm.finish().cycle == ends[4] + 1


# --- breakpoints ----------------------------------------------------------------------------------


def stops(run: Debugger) -> list[int | None]:
    result = []
    while run.run().breakpoints:
        result.append(run.instruction)
    return result


def reverse_stops(run: Debugger) -> list[int | None]:
    result = []
    while run.reverse().breakpoints:
        result.append(run.instruction)
    return result


def by_start(run: Debugger, chosen: list[int]) -> list[int]:
    return [k for k in run.timeline.order.tolist() if k in set(chosen)]


def written_in(program: Program, buffer: Buffer, entry: int, writes: bool) -> list[int]:
    accesses = program_accesses(program).accesses
    return [
        k
        for k, of in enumerate(accesses)
        if any(one.buffer == buffer and one.writes == writes and entry in np.arange(4096)[one.where] for _, one in of)
    ]


def test_a_run_stops_at_every_breakpoint_in_order_and_back(conv: Debugger) -> None:
    program = conv.program
    table, line = program.columns, int(program.source_of[20])
    queue = QUEUES[0]
    wanted = {
        "12": [12],
        "gemm": [k for k in range(len(program)) if row_text(program, k).startswith("gemm ")],
        "load wgt": [k for k in range(len(program)) if row_text(program, k).startswith("load wgt")],
        f"line {line}": np.flatnonzero(program.source_of == line).tolist(),
        f"line {program.source_lines[line].strip()}": np.flatnonzero(
            [program.source_lines[line].strip() in program.source_lines[k] for k in program.source_of]
        ).tolist(),
        "token load->compute": np.flatnonzero(
            (table[:, COL["unit"]] == Unit.COMPUTE) & (table[:, COL[queue.pop]] > 0)
        ).tolist(),
        "write acc[2]": written_in(program, Buffer.ACC, 2, True),
        "read inp[1]": written_in(program, Buffer.INP, 1, False),
        "write dram.output": [k for k in range(len(program)) if row_text(program, k).startswith("store ")],
        "read dram.data": [k for k in range(len(program)) if row_text(program, k).startswith("load inp")],
    }
    for text, chosen in wanted.items():
        one = conv.break_at(text)
        assert chosen and stops(conv) == by_start(conv, chosen), text
        assert reverse_stops(conv) == by_start(conv, chosen)[::-1], text
        assert conv.cycle == 0
        conv.delete(one.number)
    assert conv.breakpoints == ()
    together = conv.break_at("12"), conv.break_at("gemm")
    assert stops(conv) == by_start(conv, [12, *wanted["gemm"]])
    assert [one.number for one in together] == [11, 12]


def test_a_token_of_a_number_and_a_cycle(conv: Debugger) -> None:
    conv.break_at("token compute_to_store 1")
    first = conv.run().instruction
    store = [k for k in range(len(conv.program)) if row_text(conv.program, k).startswith("store ")]
    assert first in store
    conv.go_to_cycle(0)
    conv.delete(1)
    conv.break_at("cycle 100")
    assert conv.run().cycle == 100
    assert str(conv.breakpoints[0]) == "breakpoint 2: cycle 100 (cycle 100)"


def test_private_states_are_watched_by_rows() -> None:
    program = random_verified_program(MACHINES["line buffer"], 5, 90)
    run = vdla.debug(program, random_arrays(program, 1))
    taps = [k for k in range(len(program)) if row_text(program, k).startswith("dw_taps ")]
    label = next(state.label for state in run._states_of(0)[1]._engine.buffers.states if state.label.endswith(".taps"))
    run.break_at(f"write {label}")
    assert stops(run) == by_start(run, taps) != []


# --- reasons, units -------------------------------------------------------------------------------


def test_an_instruction_starts_when_the_last_of_its_reasons_allows_it(conv: Debugger) -> None:
    starts = time_program(conv.program).starts
    for k in range(len(conv.program)):
        reasons = conv.reasons(k)
        assert reasons[0].ready == max(one.ready for one in reasons) <= starts[k]
        assert reasons[0].ready == starts[k] or "turn" in [one.text.split()[1] for one in reasons]
    assert sum(conv.waits(3).values()) > 0


def test_a_unit_waits_for_what_it_starts_after(conv: Debugger) -> None:
    """Before an instruction starts, the status names the reasons that are still open."""
    for k in range(1, len(conv.program)):
        late = conv.reasons(k)[0]
        if late.instruction is not None and late.text.startswith("a token") and late.ready == conv.timeline.starts[k]:
            conv.go_to_cycle(late.ready - 1)
            unit = Unit(int(conv.program.columns[k, COL["unit"]])).label
            line = next(line for line in conv.status().splitlines() if line.startswith(unit))
            if conv.timeline.dispatches[k] <= conv.cycle and "runs" not in line:
                assert line.endswith(f"{late.text}, there in cycle {late.ready}")
                return
    raise AssertionError("no instruction waits for a token")


def test_tokens_are_given_at_an_end_and_gone_at_a_start(conv: Debugger) -> None:
    stats, table = time_program(conv.program), conv.program.columns
    for cycle in range(0, conv.total_cycles, 37):
        for queue, count in zip(QUEUES, conv.timeline.tokens(cycle).values(), strict=True):
            given = (table[:, COL["unit"]] == queue.producer) & (table[:, COL[queue.push]] > 0) & (stats.ends < cycle)
            gone = (table[:, COL["unit"]] == queue.consumer) & (table[:, COL[queue.pop]] > 0) & (stats.starts <= cycle)
            assert count == given.sum() - gone.sum() >= 0


# --- programs that hang ---------------------------------------------------------------------------

STUCK = """
.program "stuck"
.config preset=tiny
.tensor x role=input dtype=int8 shape=8x4
load inp dram=x x_size=4 signal=compute
load inp sram=4 dram=x+4 x_size=4 wait=compute
sync compute wait=load,store signal=load
"""


def test_a_program_that_hangs_shows_who_waits_for_what() -> None:
    run = vdla.debug(assemble(STUCK), {"x": np.zeros((8, 4), np.int8)})
    assert run.hangs
    run.run()
    assert run.cycle == run.total_cycles
    assert run.status() == (
        "fetch: 3 of 3 instructions dispatched\n"
        "load: instruction 1 (LOAD) waits for a token of compute_to_load from instruction 2 (SYNC)\n"
        "compute: instruction 2 (SYNC) waits for a token of store_to_compute, which no instruction gives\n"
        "store: no instructions\n"
        "queues: load_to_compute 1, compute_to_load 0, compute_to_store 0, store_to_compute 0"
    )
    assert [(one.text, one.ready) for one in run.reasons(2) if one.ready == UNKNOWN] == [
        ("a token of store_to_compute, which no instruction gives", UNKNOWN)
    ]
    run.break_at("2")
    assert str(run.breakpoints[0]) == "breakpoint 1: 2 (never reached)"
    with pytest.raises(DebugError, match="instruction 2 must start in this run, got one that hangs before"):
        run.go_to(2)
    run.back("cycle", run.total_cycles)
    assert run.run().cycle == run.total_cycles


def test_a_queue_that_is_full_keeps_an_instruction_from_its_end() -> None:
    depth = TINY.token_depth
    text = STUCK.split("load", 1)[0] + "load inp dram=x x_size=1 signal=compute\n" * (depth + 1) + "sync compute\n"
    run = vdla.debug(assemble(text), {"x": np.arange(32, dtype=np.int8).reshape(8, 4)})
    run.go_to_cycle(run.total_cycles)
    assert run.hangs
    assert f"load: instruction {depth} (LOAD) waits for room in load_to_compute\n" in run.status()
    assert run.value("inp[0]").any()  # which the instruction that cannot end has loaded


# --- wrong requests -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("acc[", "a place must be written as acc, acc[3], acc[0:4] or out[0, 1], got 'acc['"),
        ("accu", "a place must be one of inp, wgt, scl, uop, acc, out, raw, a, got accu (did you mean acc?)"),
        ("acc[x]", "an index must be an integer or a range such as 0:4, got 'acc[x]'"),
        ("acc[]", "an index must be an integer or a range such as 0:4, got 'acc[]'"),
        (
            "acc[99999]",
            "an index of acc must be within [64, 1, 4], got index 99999 is out of bounds for axis 0 with size 64",
        ),
    ],
)
def test_wrong_places(place: str, message: str) -> None:
    program = assemble('.program "p"\n.config preset=tiny\n.tensor a role=input dtype=int8 shape=4\nsync load\n')
    run = vdla.debug(program, {"a": np.zeros(4, np.int8)})
    with pytest.raises(DebugError) as error:
        run.value(place)
    assert str(error.value) == f"debug: {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a breakpoint must be an instruction, a line, a cycle or a token, got nothing"),
        ("9999", "an instruction must be a number from 0 to {last}, got 9999"),
        ("cycle", "a cycle must be an integer from 0 to {total}, got nothing"),
        ("cycle 99999999", "a cycle must be an integer from 0 to {total}, got 99999999"),
        ("line nowhere", "a line must be a number below {lines} or a part of one, got nowhere"),
        ("line", "a line must be a number below {lines} or a part of one, got nothing"),
        (
            "token load->store",
            "a token must be of one of load_to_compute, compute_to_load, compute_to_store, store_to_compute, "
            "got load_to_store (did you mean load_to_compute?)",
        ),
        ("token load->compute 9999", "a token of load_to_compute must have a number below {tokens}, got 9999"),
        ("write acc[9999]", "an index of acc must be below 64, got 9999"),
        ("write dram.output[1]", "a tensor must be watched as a whole, got an index; write dram.output"),
        (":4", "a breakpoint :4 must be in assembly text (.s), got a program file"),
        (
            "gem",
            "a breakpoint must begin with one of load, store, gemm, vector, sync, cycle, line, token, read, write, "
            "a number or :LINE, got gem (did you mean gemm?)",
        ),
    ],
)
def test_wrong_breakpoints(conv: Debugger, text: str, message: str) -> None:
    table = conv.program.columns
    tokens = int(((table[:, COL["unit"]] == Unit.COMPUTE) & (table[:, COL["pop_prev"]] > 0)).sum())
    values = {"last": len(conv.program) - 1, "total": conv.total_cycles, "lines": len(conv.program.source_lines)}
    with pytest.raises(DebugError) as error:
        conv.break_at(text)
    assert str(error.value) == f"debug: {message.format(**values, tokens=tokens)}"
    assert conv.breakpoints == ()


def test_wrong_arguments(gemm: Debugger) -> None:
    calls = {
        "a step must be to one of instruction, unit, line, token, cycle, got lines (did you mean line?)": (
            lambda: gemm.step("lines")
        ),
        "a number of steps must be an integer from 1, got 0": lambda: gemm.back(count=0),
        f"a cycle must be an integer from 0 to {gemm.total_cycles}, got -1": lambda: gemm.go_to_cycle(-1),
        f"an instruction must be a number from 0 to {len(gemm.program) - 1}, got 'x'": lambda: gemm.go_to("x"),
        "a breakpoint must have one of the numbers none, got 3": lambda: gemm.delete(3),
    }
    for message, call in calls.items():
        with pytest.raises(DebugError) as error:
            call()
        assert str(error.value) == f"debug: {message}"


def test_what_cannot_be_debugged() -> None:
    program, arrays, _ = small_gemm(TINY)
    with pytest.raises(SimulationError, match=r"debug: program must be a Program, got the path x\.vdla"):
        vdla.debug("x.vdla")
    with pytest.raises(ProgramError, match="inputs must include inp"):
        vdla.debug(program)
    beyond = assemble(STUCK.split("load", 1)[0] + "load inp dram=x+100 x_size=4\n")
    with pytest.raises(VerifyError, match="bounds"):
        vdla.debug(beyond, {"x": np.zeros((8, 4), np.int8)})
    assert repr(vdla.debug(program, arrays)).startswith("<Debugger of ")
