# SPDX-License-Identifier: Apache-2.0
"""The RTL device beyond the common protocol: errors, resets, back-pressure, waveforms."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest

from vdla.hardware.config import Config
from vdla.hardware.generate.registers import OFFSETS
from vdla.hardware.isa import Buffer, Load, Store, Sync, Unit, columns, encode
from vdla.hardware.numerics import pack_scale
from vdla.hardware.program import STREAM, Program
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.device import Stoppable
from vdla.runtime.devices.driver import Driver
from vdla.runtime.devices.rtl import Injection, RtlDevice
from vdla.runtime.devices.run import run, upload
from vdla.simulator.simulate import simulate
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import time_columns
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_programs import random_verified_program

pytestmark = pytest.mark.rtl

TINY = Config.preset("tiny")
MEMORY = 1 << 20
PROGRAM = gemm_program(GemmTiling(TINY, 6, 8, 8, 2, 1))


def arrays(seed: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    scales = pack_scale(rng.integers(-9, 9, 8), rng.integers(1, 999, 8), 16)
    return {
        "inp": rng.integers(-128, 128, (6, 2, 1, 4)).astype(np.int8),
        "wgt": rng.integers(-128, 128, (2, 2, 4, 4)).astype(np.int8),
        "scl": scales.view(np.int64).reshape(2, 4),
    }


def same_as_the_simulator(device: RtlDevice, times: bool = True) -> None:
    """Checks that a whole run is exact, whatever happened to the machine before."""
    expected, got = simulate(PROGRAM, arrays()), run(PROGRAM, arrays(), device)
    assert (got.outputs["out"] == expected.outputs["out"]).all()
    if times:
        assert got.statistics.differences(expected.statistics) == []


@pytest.fixture(scope="module")
def shared() -> Iterator[RtlDevice]:
    with RtlDevice(TINY, MEMORY, assertions=True) as device:
        yield device


@pytest.fixture
def device(shared: RtlDevice) -> Iterator[RtlDevice]:
    """A device shared by the tests, whose failures must not affect later runs."""
    yield shared
    shared.injection, shared.timeout_cycles = None, None
    same_as_the_simulator(shared)


def fails(device: RtlDevice) -> str:
    with pytest.raises(DeviceError) as error:
        run(PROGRAM, arrays(), device)
    return str(error.value)


# --- bad streams ----------------------------------------------------------------------------------


def run_words(device: RtlDevice, program: Program, words: np.ndarray, count: int) -> None:
    """Runs the given words instead of the program's."""
    with ExitStack() as stack:
        addresses = upload(program, arrays(), device, stack)
        device.write(addresses[STREAM], words)
        device.execute(addresses[STREAM], count)


@pytest.mark.parametrize("index", [0, 1, 7, 21])
def test_an_invalid_instruction_stops_the_machine_at_its_index(device: RtlDevice, index: int) -> None:
    with ExitStack() as stack:
        addresses = upload(PROGRAM, arrays(), device, stack)
        words = PROGRAM.link(addresses).copy()
        words[index, 0] |= 7  # no opcode
        device.write(addresses[STREAM], words)
        with pytest.raises(DeviceError) as error:
            device.execute(addresses[STREAM], len(words))
    assert str(error.value) == (f"device rtl: instruction {index} must be valid, got a word that the machine rejects")


def test_a_truncated_stream_stops_at_the_first_missing_word(device: RtlDevice) -> None:
    words = np.zeros_like(PROGRAM.words[:2])
    with pytest.raises(DeviceError, match="instruction 0 must be valid"):
        run_words(device, PROGRAM, words, 2)


def test_a_stream_outside_of_memory_is_an_error_of_fetch(device: RtlDevice) -> None:
    with pytest.raises(DeviceError) as error:
        device.execute(MEMORY, 1)
    assert str(error.value) == (
        "device rtl: AXI read error at instruction 0 of the stream; check its address and length"
    )


def test_an_empty_stream_takes_no_time_on_the_rtl(device: RtlDevice) -> None:
    device.execute(0, 0)
    assert device.driver.read_wide("CYCLES") == 0


# --- AXI errors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("burst", range(0, 40, 3))
@pytest.mark.parametrize("response", [2, 3])
def test_an_error_of_any_read_burst_is_reported(device: RtlDevice, burst: int, response: int) -> None:
    device.injection = Injection(write=False, burst=burst, response=response)
    assert fails(device).startswith("device rtl: AXI read error ")


def test_an_error_at_the_last_beat_of_a_burst_is_reported(device: RtlDevice) -> None:
    device.injection = Injection(write=False, burst=0, beat=TINY.burst_beats - 1)
    assert fails(device).startswith("device rtl: AXI read error at instruction ")


@pytest.mark.parametrize("burst", [0, 1, 5])
def test_an_error_of_a_write_is_reported(device: RtlDevice, burst: int) -> None:
    device.injection = Injection(write=True, burst=burst)
    assert fails(device).startswith("device rtl: AXI write error of store after ")


# --- time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cycles", [1, 20, 57, 130, 210, 300, 460])
def test_a_timeout_shows_the_state_and_a_soft_reset_follows(device: RtlDevice, cycles: int) -> None:
    device.timeout_cycles = cycles
    lines = fails(device).splitlines()
    text = f"device rtl: the program has not ended after {cycles} cycles (cycle {cycles + 1})"
    assert lines[0] == text
    assert [line.split(":")[0] for line in lines[1:]] == ["  fetch", "  load", "  compute", "  store", "  queues"]
    assert " of 22 instructions dispatched" in lines[1]
    assert not any("commands waiting" in line for line in lines)


def test_a_hang_is_found_without_a_timeout(device: RtlDevice) -> None:
    """A program that waits for a token that is never pushed; run as words, unverified."""
    with ExitStack() as stack:
        addresses = upload(PROGRAM, arrays(), device, stack)
        address = addresses[STREAM] + 6 * PROGRAM.words.shape[1]  # the first STORE, which waits for compute
        with pytest.raises(DeviceError) as error:
            device.execute(address, 1, quiet_cycles=500)
    lines = str(error.value).splitlines()
    assert lines[0].startswith("device rtl: the program hangs: no event for ")
    assert " cycles (cycle " in lines[0]
    assert lines[1:] == [
        "  fetch: 1 of 1 instructions dispatched",
        "  load: all 0 instructions ended",
        "  compute: all 0 instructions ended",
        "  store: instruction 0 (STORE) waits for a token of compute_to_store",
        "  queues: load_to_compute 0/8, compute_to_load 0/8, compute_to_store 0/8, store_to_compute 0/8",
    ]


def test_a_run_is_stopped_from_another_thread(device: RtlDevice) -> None:
    assert isinstance(device, Stoppable)
    words = encode(TINY, [Load(Buffer.INP, pop_next=1)])
    address = device.allocate(words.nbytes)
    device.write(address, words)
    timer = Timer(0.1, device.stop)
    timer.start()
    with pytest.raises(DeviceError) as error:
        device.execute(address, 1, quiet_cycles=1 << 40)
    timer.join()
    device.free(address)
    assert str(error.value).startswith("device rtl: the program was stopped (cycle ")


def test_a_hang_is_reported_as_by_the_simulator(device: RtlDevice) -> None:
    """One deadlock on both devices gives the same lines."""
    stuck = [Load(Buffer.INP, pop_next=1), Sync(Unit.COMPUTE, pop_prev=1, pop_next=1), Store(pop_prev=1)]
    words = encode(TINY, stuck)
    with pytest.raises(SimulationError) as simulated:
        time_columns(TINY, columns(TINY, words), 0)
    address = device.allocate(words.nbytes)
    device.write(address, words)
    with pytest.raises(DeviceError) as error:
        device.execute(address, len(words), quiet_cycles=500)
    device.free(address)
    assert str(error.value).splitlines()[1:] == str(simulated.value).splitlines()[1:]


def test_full_queues_of_a_hang_are_named(device: RtlDevice) -> None:
    words = encode(TINY, [Sync(Unit.LOAD, push_next=1)] * 20)
    address = device.allocate(words.nbytes)
    device.write(address, words)
    with pytest.raises(DeviceError) as error:
        device.execute(address, len(words), quiet_cycles=500)
    device.free(address)
    text = str(error.value)
    assert "fetch: 16 of 20 instructions dispatched, the command queue of load is full at instruction 16 (SYNC)" in text
    assert "load: instruction 8 (SYNC) runs or waits for room in load_to_compute" in text
    assert "queues: load_to_compute 8/8" in text


def test_the_cycles_of_the_trace_are_those_of_the_register(device: RtlDevice) -> None:
    stats = run(PROGRAM, arrays(), device).statistics
    assert device._machine.running_cycles == stats.total_cycles
    for counters in stats.counters.values():
        assert sum(counters.values()) == stats.total_cycles


@pytest.mark.parametrize("cycles", [0, True, "9", 2.0])
def test_a_wrong_timeout_is_refused(cycles: object) -> None:
    with pytest.raises(DeviceError) as error:
        RtlDevice(TINY, MEMORY, cycles)  # type: ignore[arg-type]
    assert str(error.value) == f"device rtl: timeout in cycles must be an integer from 1, got {cycles!r}"


# --- memory timing --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_results_are_the_same_under_random_back_pressure(seed: int) -> None:
    with RtlDevice(TINY, MEMORY, assertions=True, stalls=seed) as device:
        same_as_the_simulator(device, times=False)


@pytest.mark.parametrize("seed", range(3))
def test_errors_under_back_pressure_leave_a_machine_that_runs(seed: int) -> None:
    with RtlDevice(TINY, MEMORY, assertions=True, stalls=seed) as device:
        for write, burst in ((False, 2), (False, 9), (True, 1), (False, 17)):
            device.injection = Injection(write, burst)
            fails(device)
            device.injection = None
            same_as_the_simulator(device, times=False)
            device.timeout_cycles = 40 + 7 * burst
            fails(device)
            device.timeout_cycles = None
            same_as_the_simulator(device, times=False)


@pytest.mark.parametrize(
    "changes",
    [
        {"read_latency": 1, "write_latency": 1},
        {"read_latency": 300, "outstanding_reads": 1, "outstanding_writes": 1},
        {"beat_cycles": 3, "burst_gap": 2, "outstanding_reads": 2},
        {"bus_bytes": 3, "banks": 2, "page_bytes": 512, "page_miss": 9, "refresh_interval": 97, "refresh_cycles": 11},
        {"bus_bytes": 5, "banks": 3, "page_bytes": 4096, "page_miss": 2, "turnaround": 6},
    ],
)
def test_times_equal_the_simulators_under_any_memory(changes: dict[str, int]) -> None:
    config = replace(TINY, dram=replace(TINY.dram, **changes))
    with RtlDevice(config, MEMORY, assertions=True) as device:
        stats = run(PROGRAM, arrays(), device).statistics
    expected = simulate(PROGRAM, arrays(), config).statistics
    assert stats.differences(expected) == []


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.parametrize("part", [None, "ddr4-2400-x64"])
def test_four_ports_of_128_bits_run_as_simulated(part: str | None) -> None:
    """The widest beat, as wide as an entry of inputs, weights, results and as an instruction."""
    config = replace(Config.preset("kv260"), name="widest", batch=8, block_in=8, block_out=8, axi_bits=512, axi_ports=4)
    dram = config.dram if part is None else config.dram.with_part(part, config.clock_mhz)
    with RtlDevice(replace(config, dram=dram)) as device:
        for seed in range(20):
            program = random_verified_program(config, seed, 1 + 3 * seed)
            values = random_arrays(program, seed)
            here, there = run(program, values, device), simulate(program, values, device.config)
            assert here.statistics.differences(there.statistics) == [], seed
            assert all(np.array_equal(here.outputs[name], there.outputs[name]) for name in there.outputs), seed


def test_a_reset_recovers_with_the_slowest_memory() -> None:
    """Outstanding bursts end quickly, since the memory responds at once after a failure."""
    slow = replace(TINY.dram, read_latency=65536, write_latency=65536, outstanding_reads=256, beat_cycles=256)
    with RtlDevice(replace(TINY, dram=slow), MEMORY, assertions=True, timeout_cycles=300) as device:
        machine = device._machine
        fails(device)
        assert device._machine is machine
        device.timeout_cycles = None
        expected = simulate(PROGRAM, arrays(), device.config).statistics
        assert run(PROGRAM, arrays(), device).statistics.differences(expected) == []


# --- misuse ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "count", "expected"),
    [
        (-4, 1, "address of the stream must be an integer from 0 to 1099511627775, got -4"),
        (1 << 40, 1, "address of the stream must be an integer from 0 to 1099511627775, got 1099511627776"),
        ("a", 1, "address of the stream must be an integer from 0 to 1099511627775, got 'a'"),
        (2, 1, "address of the stream must be a multiple of 4, got 2"),
        (0, -1, "number of instructions must be an integer from 0 to 4294967295, got -1"),
        (0, 1.0, "number of instructions must be an integer from 0 to 4294967295, got 1.0"),
    ],
)
def test_stream_addresses_and_counts_out_of_range_are_refused(
    device: RtlDevice, address: Any, count: Any, expected: str
) -> None:
    with pytest.raises(DeviceError) as error:
        device.execute(address, count)
    assert str(error.value) == f"device rtl: {expected}"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"burst": -1}, "injected burst must be an integer from 0 to 4294967295, got -1"),
        ({"burst": 0, "beat": 256}, "injected beat must be an integer from 0 to 255, got 256"),
        ({"burst": 0, "response": 1}, "injected response must be an integer from 2 to 3, got 1"),
    ],
)
def test_injections_out_of_range_are_refused(fields: dict[str, int], expected: str) -> None:
    with pytest.raises(DeviceError) as error:
        Injection(False, **fields)
    assert str(error.value) == f"device rtl: {expected}"


@pytest.mark.parametrize("seed", [-1, 1 << 32, "x", True])
def test_a_wrong_seed_is_refused(seed: Any) -> None:
    with pytest.raises(DeviceError) as error:
        RtlDevice(TINY, MEMORY, stalls=seed)
    assert str(error.value) == f"device rtl: seed of stalls must be an integer from 0 to 4294967295, got {seed!r}"


def test_a_closed_rtl_machine_refuses_calls() -> None:
    with RtlDevice(TINY, MEMORY, assertions=True) as closed:
        pass
    uses = (lambda: closed.execute(0, 0), lambda: closed.times(PROGRAM), lambda: closed.driver.read("STATUS"))
    for use in uses:
        with pytest.raises(DeviceError) as error:
            use()
        assert str(error.value) == "device rtl: device must be open, got a call after close"


def test_a_second_thread_is_refused(device: RtlDevice) -> None:
    with ThreadPoolExecutor(1) as pool, device._alone():
        for use in (lambda: device.execute(0, 0), device.close):
            with pytest.raises(DeviceError) as error:
                pool.submit(use).result()
            expected = "device rtl: device must be used by one thread at a time, got a call from another"
            assert str(error.value) == expected


def test_a_forked_process_can_run_and_close_its_copy(device: RtlDevice) -> None:
    child = os.fork()
    if not child:
        status = 1
        try:
            device.execute(0, 0)
            device.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


# --- identity, registers, waveforms ---------------------------------------------------------------


def test_a_machine_of_another_configuration_is_refused(device: RtlDevice) -> None:
    other = replace(TINY, inp_kib=2)
    with pytest.raises(DeviceError) as error:
        device.driver.identify(other)
    assert str(error.value) == (
        f"device rtl: fingerprint must be {other.fingerprint} (tiny), got {TINY.fingerprint}, preset tiny's; "
        "compile for preset tiny, or load the bitstream of tiny"
    )


def test_refused_accesses_to_registers_say_where(device: RtlDevice) -> None:
    with pytest.raises(DeviceError) as error:
        device._machine.read_word(0xFF0)
    assert str(error.value) == "device rtl: read of the control port at 0xff0 must be accepted, got response 2"
    with pytest.raises(DeviceError, match="write of the control port at 0x0 must be accepted, got response 2"):
        device._machine.write_word(OFFSETS["ID"], 0)


def test_waveforms_are_written(tmp_path: Path) -> None:
    path = tmp_path / "run.fst"
    with RtlDevice(TINY, MEMORY, waves=path) as device:
        same_as_the_simulator(device)
    content = path.read_bytes()
    assert len(content) > 10_000
    assert content[0] == 0  # the header's block
    assert int.from_bytes(content[1:9], "big") == 329


def test_waves_of_an_unclosed_device_are_complete(tmp_path: Path) -> None:
    path = tmp_path / "run.fst"
    device = RtlDevice(TINY, MEMORY, waves=path)
    same_as_the_simulator(device)
    del device
    assert int.from_bytes(path.read_bytes()[1:9], "big") == 329


def test_waves_of_a_replaced_machine_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(driver: Driver) -> None:
        raise DeviceError("no reset")

    path = tmp_path / "run.fst"
    with RtlDevice(TINY, MEMORY, 50, waves=str(path)) as device:
        monkeypatch.setattr(Driver, "request_reset", refuse)
        fails(device)
        content = path.read_bytes()
        device.timeout_cycles = None
        same_as_the_simulator(device)
    assert path.read_bytes() == content
    assert int.from_bytes(content[1:9], "big") == 329


@pytest.mark.parametrize(
    ("waves", "expected"),
    [
        (3, "a path, got 3"),
        ("a\0b", "writable, got embedded null byte"),
        ("/dev/null", "a regular file, got /dev/null"),
        ("/", "writable, got [Errno 21] Is a directory: '/'"),
    ],
)
def test_a_path_that_cannot_hold_waves_is_refused(waves: Any, expected: str) -> None:
    with pytest.raises(DeviceError) as error:
        RtlDevice(TINY, MEMORY, waves=waves)
    assert str(error.value) == f"device rtl: file of waves must be {expected}"


def test_a_file_of_waves_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match="device rtl: file of waves must be writable, got "):
        RtlDevice(TINY, MEMORY, waves=tmp_path / "absent" / "run.fst")
