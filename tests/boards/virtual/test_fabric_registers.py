# SPDX-License-Identifier: Apache-2.0
"""The register file of both fabrics, by the rules of docs/registers.md: one test for each."""

from __future__ import annotations

import time
from threading import Thread

import numpy as np
import pytest
from helpers.fabrics import BUSY, DONE, ERROR, MEMORY, open_bench
from helpers.small_programs import small_gemm

from vdla.boards.virtual import sim_fabric, stream_run
from vdla.boards.virtual.fabric import BusError, MemoryWindow
from vdla.boards.virtual.memory import BASE_ADDRESS
from vdla.hardware.config import Config
from vdla.hardware.generate.registers import ID, REGISTERS, VERSION, RegisterAccess
from vdla.hardware.isa import Store, Sync, Unit, encode
from vdla.hardware.program import STREAM

TINY = Config.preset("tiny")
PROGRAM, ARRAYS, EXPECTED = small_gemm(TINY)
ALL = [MemoryWindow(BASE_ADDRESS, MEMORY, 0)]


@pytest.fixture(scope="module", params=["sim", pytest.param("rtl", marks=pytest.mark.rtl)])
def shared(request):
    bench = open_bench(request.param, TINY)
    yield bench
    bench.fabric.close()


@pytest.fixture
def bench(shared):
    """An idle machine as after power-up, but for the set-up, that reaches all memory."""
    shared.reset()
    shared.write("INTERRUPT", 2)
    shared.fabric.map(ALL)
    return shared


def refused(function, *arguments) -> str:
    with pytest.raises(BusError) as error:
        function(*arguments)
    return str(error.value)


def put(bench, instructions) -> int:
    """The number of words written to the base of the memory."""
    words = encode(TINY, instructions)
    bench.memory[: words.size] = words.reshape(-1)
    return len(words)


# --- identity and set-up --------------------------------------------------------------------------


def test_the_machine_is_identified(bench):
    assert (bench.read("ID"), bench.read("VERSION")) == (ID, VERSION)
    assert f"{bench.read('FINGERPRINT_HI'):04x}{bench.read('FINGERPRINT_LO'):08x}" == TINY.fingerprint


def test_the_set_up_at_power_up():
    bench = open_bench("sim", TINY)
    assert {r.name: bench.read(r.name) for r in REGISTERS if r.access == RegisterAccess.RW} == {
        "STREAM_LO": 0, "STREAM_HI": 0, "COUNT": 0, "READ_LATENCY": 80, "READ_LIMIT": 8, "WRITE_LIMIT": 8,
    }  # fmt: skip


@pytest.mark.parametrize("register", [r for r in REGISTERS if r.access == RegisterAccess.RW], ids=lambda r: r.name)
def test_unused_bits_of_the_set_up_read_0(bench, register):
    value = 256 if register.limits else 0xFFFFFFFF
    bench.write(register.name, value)
    assert bench.read(register.name) == value & (1 << register.width) - 1


@pytest.mark.parametrize("register", [r for r in REGISTERS if r.limits], ids=lambda r: r.name)
@pytest.mark.parametrize("value", [0, 257, 0x10000001])
def test_values_beyond_the_limits_are_refused_without_effect(bench, register, value):
    bench.write(register.name, 5)
    assert refused(bench.write, register.name, value) == (
        f"fabric: write at {register.offset:#x} of the control port must be accepted, got SLVERR"
    )
    assert bench.read(register.name) == 5


@pytest.mark.parametrize("register", [r for r in REGISTERS if r.access == RegisterAccess.RO], ids=lambda r: r.name)
def test_a_register_for_reading_is_not_written(bench, register):
    assert "got SLVERR" in refused(bench.write, register.name, 0)


@pytest.mark.parametrize("offset", [0x3C, 0x88, 0xFC, 0x148, 0x2C8, 0x300, 0xFFC])
def test_beyond_the_registers_there_is_nothing(bench, offset):
    assert refused(bench.fabric.read_word, offset) == (
        f"fabric: read at {offset:#x} of the control port must be accepted, got SLVERR"
    )
    assert "got SLVERR" in refused(bench.fabric.write_word, offset, 0)


# --- runs -----------------------------------------------------------------------------------------


def test_an_empty_stream_is_done_at_once(bench):
    found = bench.run(0, 0)
    assert (found["STATUS"], found["CYCLES_LO"], found["INTERRUPT"], found["CONTROL"]) == (DONE, 0, 3, 0)


def test_the_interrupt_follows_enable_and_pending(bench):
    assert not bench.fabric.interrupt
    bench.run(0, 0)
    assert bench.fabric.interrupt
    bench.write("INTERRUPT", 0)
    assert (bench.fabric.interrupt, bench.read("INTERRUPT")) == (False, 2)
    bench.write("INTERRUPT", 3)
    assert (bench.fabric.interrupt, bench.read("INTERRUPT")) == (False, 1)


def test_a_stream_runs_though_the_interrupt_of_another_is_pending(bench):
    addresses = bench.upload(PROGRAM, ARRAYS)
    bench.run(addresses[STREAM], 0)
    for name, value in (("COUNT", len(PROGRAM)), ("CONTROL", 1)):
        bench.write(name, value)
    assert bench.wait() == DONE
    assert (bench.read("DISPATCHED"), bench.read("INTERRUPT")) == (len(PROGRAM), 3)


def test_results_stay_until_the_next_start(bench):
    addresses = bench.upload(PROGRAM, ARRAYS)
    first = bench.run(addresses[STREAM], len(PROGRAM))
    assert bench.registers() == first
    window = bench.windows["out"]
    out = bench.memory[window.offset :][: EXPECTED.nbytes].view(EXPECTED.dtype).reshape(EXPECTED.shape)
    assert (out == EXPECTED).all()
    assert bench.run(0, 0)["DISPATCHED"] == 0


def test_a_reset_clears_results_and_keeps_the_set_up(bench):
    count = put(bench, [Sync(Unit.LOAD)] * 3)
    bench.run(BASE_ADDRESS, count)
    bench.reset()
    found = bench.registers()
    assert (found["STATUS"], found["DISPATCHED"], found["CYCLES_LO"]) == (0, 0, 0)
    assert (found["COUNT"], found["STREAM_LO"], found["INTERRUPT"]) == (3, BASE_ADDRESS, 3)


def test_bits_within_a_beat_of_the_address_are_ignored(bench):
    count = put(bench, [Sync(Unit.LOAD)] * 3)
    assert bench.run(BASE_ADDRESS + TINY.axi_bytes - 1, count)["STATUS"] == DONE
    assert bench.read("STREAM_LO") == BASE_ADDRESS + TINY.axi_bytes - 1


# --- a machine that hangs -------------------------------------------------------------------------


@pytest.fixture
def hanging(bench):
    bench.start(BASE_ADDRESS, put(bench, [Sync(Unit.LOAD), Store(pop_prev=1)]))
    assert bench.wait(while_busy=0.2) & BUSY
    return bench


def test_a_busy_machine_shows_its_progress_and_takes_nothing(hanging):
    assert [hanging.read(name) for name in ("DISPATCHED", "LOAD_ENDED", "STORE_STARTED", "STORE_COMMANDS")] == [
        2,
        1,
        0,
        1,
    ]
    for name, value in (("STREAM_LO", 0), ("COUNT", 1), ("READ_LIMIT", 8), ("CONTROL", 1)):
        assert "got SLVERR" in refused(hanging.write, name, value)
    hanging.write("INTERRUPT", 1)
    assert (hanging.read("COUNT"), hanging.read("INTERRUPT")) == (2, 1)


def test_a_reset_ends_a_hang_and_the_next_stream_runs(hanging):
    hanging.write("CONTROL", 3)  # a reset goes before a start
    assert not hanging.wait() & (BUSY | DONE | ERROR)
    assert hanging.read("INTERRUPT") == 1
    assert hanging.run(BASE_ADDRESS, 1)["STATUS"] == DONE


# --- errors ---------------------------------------------------------------------------------------


def test_an_invalid_word_stops_the_machine_at_its_index(bench):
    put(bench, [Sync(Unit.LOAD)] * 8)
    bench.memory[5 * encode(TINY, [Sync(Unit.LOAD)]).size] |= 7
    found = bench.run(BASE_ADDRESS, 8)
    assert [found[name] for name in ("STATUS", "ERROR", "ERROR_INDEX", "DISPATCHED", "INTERRUPT")] == [
        ERROR,
        1,
        5,
        5,
        3,
    ]


@pytest.mark.parametrize("address", [0, BASE_ADDRESS - 4096, BASE_ADDRESS + MEMORY, 0xFFFFFFF000])
def test_a_stream_that_is_not_in_memory_is_an_error_of_fetch(bench, address):
    found = bench.run(address, 1)
    assert [found[name] for name in ("STATUS", "ERROR", "ERROR_INDEX", "DISPATCHED")] == [ERROR, 2, 0, 0]


def test_a_machine_that_reaches_nothing_finds_no_stream(bench):
    bench.fabric.map([])
    assert bench.run(BASE_ADDRESS, 1)["ERROR"] == 2


def test_no_count_is_too_large(bench):
    bench.memory[:] = 0
    count = put(bench, [Sync(Unit.LOAD)] * 4)
    assert bench.run(BASE_ADDRESS, 0xFFFFFFFF)["ERROR"] == 1
    assert bench.read("ERROR_INDEX") == count


@pytest.mark.parametrize("limit", ["MOST_WORK", "MOST_INSTRUCTIONS"])
def test_a_stream_too_long_for_the_simulator_is_busy_until_it_is_reset(monkeypatch, limit):
    monkeypatch.setattr(stream_run, limit, len(PROGRAM) - 1)
    bench = open_bench("sim", TINY)
    addresses = bench.upload(PROGRAM, ARRAYS)
    before = bench.memory.copy()
    bench.start(addresses[STREAM], len(PROGRAM))
    assert bench.wait(while_busy=0.3) == BUSY
    assert np.array_equal(bench.memory, before)
    bench.reset()
    bench.fabric.close()


def test_a_simulator_that_fails_leaves_a_busy_machine(monkeypatch, caplog):
    def fail(*arguments: object) -> None:
        raise ArithmeticError("a defect")

    monkeypatch.setattr(sim_fabric, "run_stream", fail)
    bench = open_bench("sim", TINY)
    bench.start(0, 1)
    assert bench.wait(while_busy=0.2) == BUSY
    assert "the simulator failed; the machine stays busy" in caplog.text
    bench.reset()
    assert bench.read("STATUS") == 0


# --- the threads of a fabric ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sim", pytest.param("rtl", marks=pytest.mark.rtl)])
def test_a_slow_fabric_is_busy_for_longer_and_counts_the_same(kind):
    bench = open_bench(kind, TINY, pause_s=0.3)
    try:
        addresses = bench.upload(PROGRAM, ARRAYS)
        begin = time.monotonic()
        found = bench.run(addresses[STREAM], len(PROGRAM))
        assert time.monotonic() - begin >= 0.3
        assert found["DISPATCHED"] == len(PROGRAM)
    finally:
        bench.fabric.close()


@pytest.mark.parametrize("kind", ["sim", pytest.param("rtl", marks=pytest.mark.rtl)])
def test_a_slow_fabric_is_closed_without_waiting_for_its_stream(kind):
    bench = open_bench(kind, TINY, pause_s=3600)
    addresses = bench.upload(PROGRAM, ARRAYS)
    bench.start(addresses[STREAM], len(PROGRAM))
    closing = Thread(target=bench.fabric.close, daemon=True)
    closing.start()
    closing.join(timeout=60)
    assert not closing.is_alive()


def test_memory_beyond_the_windows_is_never_written(bench):
    addresses = bench.upload(PROGRAM, ARRAYS)
    bench.fabric.map([window for name, window in bench.windows.items() if name != "out"])
    before = bench.memory.copy()
    assert bench.run(addresses[STREAM], len(PROGRAM))["ERROR"] == 5
    assert np.array_equal(bench.memory, before)
