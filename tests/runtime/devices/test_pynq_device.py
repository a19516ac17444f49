# SPDX-License-Identifier: Apache-2.0
"""The device of a board, on a board in this process: runs, limits, clean-up on every path."""

from __future__ import annotations

import gc
import sys
import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.fake_pynq import DONE, ERROR, FakeBoard, RpcError
from helpers.small_programs import small_gemm

from vdla.hardware.config import Config
from vdla.hardware.generate.build_hash import build_hash
from vdla.hardware.generate.registers import OFFSETS
from vdla.runtime.devices import DeviceError, open_device
from vdla.runtime.devices.board_clock import require_clock
from vdla.runtime.devices.device import Stoppable
from vdla.runtime.devices.pynq_device import PynqDevice
from vdla.runtime.devices.run import run
from vdla.simulator.simulate import simulate
from vdla.simulator.stats import UNKNOWN

TINY = Config.preset("tiny")
PROGRAM, INPUTS, _ = small_gemm(TINY)


@pytest.fixture
def board(monkeypatch, tmp_path):
    fake = FakeBoard(TINY, int(build_hash(TINY), 16))
    fake.install(monkeypatch)
    for name in ("tiny.bit", "tiny.hwh"):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.setenv("VDLA_OVERLAYS", str(tmp_path))
    return fake


@pytest.fixture
def device(board):
    with PynqDevice(TINY) as opened:
        board.calls.clear()
        yield opened


def message(function, *arguments, **options) -> str:
    with pytest.raises(DeviceError) as error:
        function(*arguments, **options)
    return str(error.value)


def unavailable(call: str) -> None:
    raise RpcError("UNAVAILABLE", "connection\n refused")


# --- opening --------------------------------------------------------------------------------------


def test_opening_binds_the_driver_and_loads_the_bitstream_once(board):
    with open_device("pynq", TINY) as device:
        assert board.calls[:2] == ["bind ['vdla:accelerator:vdla:1.0']", "load tiny.bit True"]
        assert (device.name, device.config) == ("pynq", TINY)
    with PynqDevice(TINY, download=False):
        assert board.calls.count("load tiny.bit False") == 1


class FakeClocks:
    """PYNQ's clocks: a PLL that makes whole numbers of MHz."""

    def __init__(self, mhz: float) -> None:
        self.mhz = mhz

    @property
    def fclk0_mhz(self) -> float:
        return self.mhz

    @fclk0_mhz.setter
    def fclk0_mhz(self, mhz: float) -> None:
        self.mhz = float(round(mhz))


def test_milliseconds_are_of_the_clock_that_the_board_says(board, monkeypatch):
    clocks = FakeClocks(40.0)
    monkeypatch.setattr(sys.modules["pynq"], "Clocks", clocks, raising=False)
    with PynqDevice(TINY) as device:
        assert device.config.clock_mhz == 40
        statistics = run(PROGRAM, INPUTS, device).statistics
        assert statistics.seconds == pytest.approx(statistics.total_cycles / 40e6)
    with PynqDevice(TINY, fclk_mhz=25) as device:
        assert (clocks.mhz, device.config.clock_mhz) == (25, 25)
    clocks.mhz = TINY.clock_mhz * 1.0001
    with PynqDevice(TINY) as device:
        assert device.config == TINY
    assert message(PynqDevice, TINY, fclk_mhz=12.4) == (
        "device pynq: fclk_mhz must be a frequency that the board can make, got 12.4; the board has 12"
    )


def test_a_clock_that_cannot_be(board):
    most = "device pynq: fclk_mhz must be a number above 0 and at most 50, for which tiny is built, got"
    for wrong in (0, -1, 51, float("nan"), True, "40"):
        assert message(PynqDevice, TINY, fclk_mhz=wrong) == f"{most} {wrong!r}"
    assert message(PynqDevice, TINY, fclk_mhz=20) == "device pynq: PYNQ must have clocks to set fclk_mhz, got none"
    double = replace(TINY, array_rate=2)
    assert message(require_clock, "device pynq", double, 20) == (
        "device pynq: fclk_mhz must be 50 for tiny, whose two clocks are made from it, got 20"
    )


def test_power_where_the_board_has_rails(device, monkeypatch):
    assert message(device.power) == (
        "device pynq: the board must have power rails that PYNQ reads, got none; PYNQ-Z1 and PYNQ-Z2 have no sensors"
    )
    rails = {"INT": SimpleNamespace(power=SimpleNamespace(value=1.5)), "AUX": SimpleNamespace(power=None)}
    monkeypatch.setattr(sys.modules["pynq"], "get_rails", lambda: rails, raising=False)
    assert device.power() == {"INT": 1.5}


def test_a_run_that_an_earlier_process_left_is_reset(board):
    board.write(OFFSETS["CONTROL"], 1)
    board.polls = None
    with PynqDevice(TINY):
        assert "write CONTROL" in board.calls
        assert board.read(OFFSETS["STATUS"]) == 0


def test_a_machine_that_stays_busy_is_refused(board, monkeypatch):
    monkeypatch.setattr("vdla.runtime.devices.completion._RESET_S", 0.01)
    board.write(OFFSETS["CONTROL"], 1)
    board.polls, board.resets_to_idle = None, False
    assert message(PynqDevice, TINY) == (
        "device pynq: machine must be idle, got busy after a soft reset; "
        "open the device again, which loads the bitstream"
    )


# --- runs -----------------------------------------------------------------------------------------


def test_statistics_have_what_the_simulator_computes_from_the_program(device, board):
    board.cycles = simulate(PROGRAM, INPUTS).statistics.total_cycles
    statistics, expected = run(PROGRAM, INPUTS, device).statistics, simulate(PROGRAM, INPUTS).statistics
    for name in ("program_hash", "total_cycles", "macs", "bytes_read", "bytes_written"):
        assert getattr(statistics, name) == getattr(expected, name), name
    assert (statistics.starts == UNKNOWN).all() and (statistics.dispatches == UNKNOWN).all()
    assert statistics.waits is None


def test_the_registers_of_a_start_are_written_together(device, board):
    run(PROGRAM, INPUTS, device)
    writes = [call.split()[1] for call in board.calls if call.startswith("write")]
    assert writes == [
        "COUNT", "STREAM_LO", "STREAM_HI", "COUNT", "READ_LATENCY", "READ_LIMIT", "WRITE_LIMIT", "INTERRUPT", "COUNT",
        "CONTROL", "COUNT", "INTERRUPT",
    ]  # fmt: skip
    assert not any(call.endswith("_HI") and "IDLE" in call for call in board.calls)


def test_high_words_of_counters_are_read_after_long_runs(device, board):
    board.registers["CYCLES_HI"] = 1
    board.registers["LOAD_IDLE_HI"] = 1
    statistics = run(PROGRAM, INPUTS, device).statistics
    assert statistics.total_cycles == (1 << 32) + 100
    assert statistics.counters["load"]["idle"] == 1 << 32


def test_only_what_changed_is_flushed_and_only_what_the_machine_wrote_is_invalidated(device, board):
    addresses = upload(device)
    device.run(PROGRAM, addresses)
    assert board.calls.count("flush") == len(addresses)
    board.calls.clear()
    device.run(PROGRAM, addresses)
    assert "flush" not in board.calls and board.calls.count("invalidate") == 1  # of the stream, which is checked
    board.calls.clear()
    device.write(addresses["inp"], np.ones(4, np.uint8))
    device.read(addresses["out"], 4)
    device.read(addresses["out"], 4)
    device.run(PROGRAM, addresses)
    assert (board.calls.count("flush"), board.calls.count("invalidate")) == (1, 2)


def upload(device) -> dict[str, int]:
    from vdla.hardware.program import placed_sizes

    sizes = placed_sizes(PROGRAM)
    return {name: device.allocate(nbytes) for name, nbytes in sizes.items()}


def test_a_write_beside_what_the_machine_wrote_keeps_it(device, board):
    addresses = upload(device)
    address = addresses["out"]
    device.write(address, np.arange(8, dtype=np.uint8))
    device.run(PROGRAM, addresses)
    block = device._memory.require_window(address, 8)
    block.buffer.dram[:8] = 7  # the machine's
    device.write(address, np.array([1], np.uint8))
    assert device.read(address, 4).tolist() == [1, 7, 7, 7]
    device.run(PROGRAM, addresses)
    assert block.buffer.dram[:4].tolist() == [1, 7, 7, 7]


def test_a_coherent_port_needs_no_flush_on_the_board_but_a_remote_buffer_does(board):
    board.parameters["COHERENT"] = "1"
    with PynqDevice(TINY) as device:
        run(PROGRAM, INPUTS, device)
    assert "flush" not in board.calls and "invalidate" not in board.calls
    board.capabilities["REMOTE"] = True
    with PynqDevice(TINY) as device:
        run(PROGRAM, INPUTS, device)
    assert "flush" in board.calls and "invalidate" in board.calls


def test_the_error_registers_are_in_the_message_and_the_next_run_works(device, board):
    board.end_status = ERROR
    board.registers |= {"ERROR": 3, "ERROR_INDEX": 1}
    assert message(run, PROGRAM, INPUTS, device) == (
        "device pynq: AXI read error of load after 1 of its instructions; check the addresses of the tensors"
    )
    board.end_status = DONE
    assert run(PROGRAM, INPUTS, device).statistics.total_cycles == 100


def test_one_thread_uses_the_device_at_a_time(device, board):
    found = []

    def second(call: str) -> None:
        if call == "read STATUS" and not found:
            found.append("")
            other = threading.Thread(target=lambda: found.append(message(run, PROGRAM, INPUTS, device)))
            other.start()
            other.join(10)

    board.fails = second
    run(PROGRAM, INPUTS, device)
    assert found[1] == "device pynq: device must be used by one thread at a time, got a call from another"


# --- limits ---------------------------------------------------------------------------------------


def test_a_run_beyond_its_seconds_prints_the_state_and_the_next_one_works(board):
    with PynqDevice(TINY, timeout_s=0.05) as device:
        board.polls = None
        lines = message(run, PROGRAM, INPUTS, device).splitlines()
        assert lines[0] == "device pynq: the program has not ended after 0.05 s (cycle 100)"
        assert lines[1] == f"  fetch: 0 of {len(PROGRAM)} instructions dispatched"
        assert [line.split(":")[0] for line in lines[2:]] == ["  load", "  compute", "  store", "  queues"]
        board.polls = 1
        assert run(PROGRAM, INPUTS, device).statistics.total_cycles == 100
    assert board.buffers == []


def test_a_run_beyond_its_cycles_is_ended_while_it_runs_and_after_it(board):
    with PynqDevice(TINY, timeout_cycles=99) as device:
        for board.polls in (None, 0):
            text = message(run, PROGRAM, INPUTS, device)
            assert text.startswith("device pynq: the program has not ended after 99 cycles (cycle 100)\n")
    with PynqDevice(TINY, timeout_cycles=100) as device:
        assert run(PROGRAM, INPUTS, device).statistics.total_cycles == 100


def test_a_run_is_stopped_from_another_thread_and_the_next_one_works(device, board):
    assert isinstance(device, Stoppable)
    board.polls = None
    timer = threading.Timer(0.05, device.stop)
    timer.start()
    text = message(run, PROGRAM, INPUTS, device)
    assert text.startswith("device pynq: the program was stopped (cycle 100)\n  fetch: 0 of ")
    timer.join()
    board.polls = 1
    assert run(PROGRAM, INPUTS, device).statistics.total_cycles == 100


def test_a_machine_that_cannot_be_reset_says_so_until_it_is_idle(board, monkeypatch):
    monkeypatch.setattr("vdla.runtime.devices.completion._RESET_S", 0.01)
    stuck = "machine must be idle, got busy after a soft reset; open the device again, which loads the bitstream"
    with PynqDevice(TINY, timeout_s=0.02) as device:
        board.polls, board.resets_to_idle = None, False
        assert message(run, PROGRAM, INPUTS, device).splitlines()[-1] == f"  {stuck}"
        assert message(run, PROGRAM, INPUTS, device) == f"device pynq: {stuck}"
        board.polls = 0
        board.read(OFFSETS["STATUS"])
        assert run(PROGRAM, INPUTS, device).statistics.total_cycles == 100


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), True, "1"])
def test_seconds_must_be_positive(board, seconds):
    assert message(PynqDevice, TINY, timeout_s=seconds) == (
        f"device pynq: timeout_s must be a number of seconds above 0, got {seconds!r}"
    )


# --- clean-up -------------------------------------------------------------------------------------


def test_ctrl_c_resets_the_machine_and_frees_the_buffers(device, board):
    def interrupt(call: str) -> None:
        if call == "read STATUS" and board.calls.count(call) == 3:
            raise KeyboardInterrupt

    board.polls, board.fails = None, interrupt
    with pytest.raises(KeyboardInterrupt):
        run(PROGRAM, INPUTS, device)
    assert board.registers["CONTROL"] == 2 and board.buffers == []
    board.polls = 1
    assert run(PROGRAM, INPUTS, device).statistics.total_cycles == 100


def test_an_exception_during_the_upload_frees_what_was_allocated(device, board):
    def fail(call: str) -> None:
        if call == "physical_address" and board.calls.count(call) == 3:
            raise RuntimeError("no such buffer")

    board.fails = fail
    third = PROGRAM.tensors[2].nbytes
    assert message(run, PROGRAM, INPUTS, device).startswith(
        f"device pynq: cannot allocate {third} bytes of contiguous memory (no such buffer); "
    )
    assert board.buffers == []


@pytest.mark.parametrize(
    ("call", "what"),
    [("flush", "write"), ("read STATUS", "read the register at 0x14"), ("invalidate", "read")],
)
def test_a_lost_connection_is_one_sentence_and_closing_is_silent(board, monkeypatch, call, what):
    monkeypatch.setattr("vdla.runtime.devices.board_link._RECONNECT_S", 0.05)
    device = PynqDevice(TINY)
    board.fails = lambda name: unavailable(name) if name == call else None
    text = message(run, PROGRAM, INPUTS, device)
    assert text.startswith(f"device pynq: the connection to the board was lost at: {what}")
    assert text.endswith(" (UNAVAILABLE: connection refused); close the device and open it again")
    before = len(board.calls)
    assert message(device.allocate, 1) == message(run, PROGRAM, INPUTS, device) == text
    assert len(board.calls) == before  # nothing goes to a board that is not there
    board.fails = unavailable
    device.close()
    assert len(board.buffers) > 0


def test_what_a_lost_board_holds_is_freed_when_it_comes_back(board):
    device, place = PynqDevice(TINY), []
    place.append(device.allocate(5))
    board.fails = unavailable
    text = message(run, PROGRAM, INPUTS, device)
    device.free(place[0])
    assert "connection to the board was lost" in text and len(board.buffers) == 1
    board.fails = lambda call: None
    device.close()
    assert board.buffers == []


def test_a_machine_that_was_lost_in_a_run_is_reset_before_its_buffers_are_freed(board):
    device = PynqDevice(TINY)
    board.polls = None
    board.fails = lambda call: unavailable(call) if board.calls.count("read STATUS") > 3 else None
    message(run, PROGRAM, INPUTS, device)
    board.fails = lambda call: None
    board.calls.clear()
    device.close()
    assert board.calls.index("write CONTROL") < board.calls.index("free")
    assert board.registers["CONTROL"] == 2 and board.buffers == []


def test_closing_is_silent_where_the_connection_is_lost_just_then(board, monkeypatch):
    monkeypatch.setattr("vdla.runtime.devices.board_link._RECONNECT_S", 0.05)
    device = PynqDevice(TINY)
    device.allocate(1)
    board.fails = unavailable
    device.close()
    device.close()
    assert message(device.allocate, 1) == "device pynq: device must be open, got a call after close"


def test_a_device_that_is_collected_frees_its_buffers(board):
    device = PynqDevice(TINY)
    device.allocate(1)
    assert len(board.buffers) == 1
    del device
    gc.collect()
    assert board.buffers == []


def test_an_open_that_fails_holds_nothing(board):
    board.registers["ID"] = 0
    assert message(PynqDevice, TINY).startswith("device pynq: register ID must be 0x56444c41, got 0x0")
    assert board.buffers == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("CANCELLED", "the call was cut off, since the server was stopped or ended"),
        ("DEADLINE_EXCEEDED", "no answer in time, the server is stopped, overloaded or out of reach"),
    ],
)
def test_a_lost_connection_is_said_in_words(board, code, words):
    def lost(call: str) -> None:
        if call == "flush":
            raise RpcError(code, code)

    device = PynqDevice(TINY)
    board.fails = lost
    assert message(run, PROGRAM, INPUTS, device).endswith(f" ({words}); close the device and open it again")
    board.fails = lambda call: None
    device.close()


# --- allocation -----------------------------------------------------------------------------------


def full(call: str) -> None:
    if call == "allocate":
        raise RuntimeError("BO allocation failed: Cannot allocate memory")


def test_a_failed_allocation_says_how_much_there_is_and_how_to_raise_it(board):
    board.capabilities["REMOTE"] = True
    with PynqDevice(TINY) as device:
        board.fails = full
        assert message(device.allocate, 100 << 20) == (
            "device pynq: cannot allocate 104857600 bytes of contiguous memory "
            "(BO allocation failed: Cannot allocate memory); the board has 131072 KiB, 512 KiB of it free, "
            "this device holds 0 KiB; 130560 KiB are held by other clients, perhaps by killed ones, "
            "whose memory the board keeps: end those that run, then restart the server of PYNQ.remote on the board"
        )
        assert message(device.allocate, 128 << 20 | 1).endswith(
            "; the board has 131072 KiB, 512 KiB of it free; "
            "free tensors, or start the kernel with cma=320M in its bootargs"
        )


def test_a_failed_allocation_on_the_board_itself_tells_of_other_processes(board, monkeypatch):
    from vdla.runtime.devices import overlay

    monkeypatch.setattr(overlay, "_meminfo", lambda device, remote: "CmaTotal: 1024 kB\nCmaFree: 16 kB\n")
    with PynqDevice(TINY) as device:
        device.allocate(4096)
        board.fails = full
        assert message(device.allocate, 1 << 16).endswith(
            "; the board has 1024 KiB, 16 KiB of it free, this device holds 4 KiB; "
            "1004 KiB are held by other processes on the board: end them, notebooks that are open included"
        )


def test_a_failed_allocation_on_a_board_that_does_not_say_how_much_it_has(board, monkeypatch):
    board.capabilities["REMOTE"] = True
    monkeypatch.setattr(board, "read_file", lambda path: unavailable(path))
    with PynqDevice(TINY) as device:
        board.fails = full
        assert message(device.allocate, 5).endswith(
            "; free tensors, or raise the kernel's contiguous memory (cma=SIZE in bootargs, such as cma=256M)"
        )


def test_memory_bytes_limits_what_is_allocated(board):
    with PynqDevice(TINY, memory_bytes=1000) as device:
        first = device.allocate(600)
        assert message(device.allocate, 500) == (
            "device pynq: cannot allocate 500 bytes of DRAM, 400 of memory_bytes are left; "
            "free tensors or open the device with more memory_bytes"
        )
        device.free(first)
        device.allocate(1000)


def test_an_address_that_the_machine_cannot_use_is_refused_and_freed(device, board):
    board._next += 8
    assert message(device.allocate, 1) == (
        "device pynq: address of contiguous memory must be a multiple of 4096 below 2**40, got 0x10000008"
    )
    assert board.buffers == []


def test_small_buffers_are_allocated_larger_and_all_begin_with_zeros(device, board):
    address = device.allocate(3)
    assert board.last.nbytes == 8192
    assert device.read(address, 3).tolist() == [0, 0, 0]
    assert (np.asarray(board.last)[:8192] == 0).all()
