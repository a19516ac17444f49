# SPDX-License-Identifier: Apache-2.0
"""Comparison of two devices: equal runs, and the text of each kind of difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from helpers.faulty_devices import Elsewhere

from vdla.cli import main
from vdla.commands.arrays import with_random
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Buffer, Opcode
from vdla.hardware.program import STREAM, Program
from vdla.runtime.devices import DeviceError, registry
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.sim import SimDevice
from vdla.runtime.diagnosis.comparison import Comparison, compare, memory_bytes
from vdla.simulator.stats import RunStats
from vdla.simulator.stats.times import UNKNOWN, EventDifference, Times, first_difference, latest_instructions
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program

TINY = Config.preset("tiny")
PROGRAM = gemm_program(GemmTiling(TINY, 6, 8, 8, 2, 1))
ARRAYS = with_random(PROGRAM, {}, 0)
SIZE = memory_bytes(PROGRAM)


class Late(SimDevice):
    """A simulator that starts and ends an instruction late, and one after it too."""

    name = "late"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = super()._run(program, addresses)
        starts, ends = stats.starts.copy(), stats.ends.copy()
        starts[3] += 2
        ends[3:] += 1
        return replace(stats, starts=starts, ends=ends, total_cycles=stats.total_cycles + 1)


class Corrupting(SimDevice):
    """A simulator that corrupts the second byte of the output and a byte of padding after it."""

    name = "corrupting"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = super()._run(program, addresses)
        self.memory[addresses["out"] + 1] ^= 0x80
        self.memory[addresses["out"] + 200] ^= 0x80
        return stats


class Corrupted(SimDevice):
    """A simulator that corrupts a byte of the output, wherever it lies."""

    name = "corrupted"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = super()._run(program, addresses)
        self.write(addresses["out"] + 3, self.read(addresses["out"] + 3, 1) ^ np.uint8(1))
        return stats


class Hanging(SimDevice):
    """A device whose runs do not end."""

    name = "hanging"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        raise DeviceError("device hanging: the program hangs")


class Flipping(SimDevice):
    """A simulator whose buffers have two wrong sums and a wrong byte of results."""

    name = "flipping"
    entries: ClassVar = {Buffer.ACC: ((1, 2), (1, 3))}

    def contents(self) -> dict[Buffer, Any]:
        found = dict(super().contents())
        if self._buffers is not None:
            for buffer, places in self.entries.items():
                for place in places:
                    found[buffer][place] ^= 1
        return found


class Stray(Flipping):
    """A simulator that changes an entry which nothing writes."""

    name = "stray"
    entries: ClassVar = {Buffer.WGT: ((63, 0),)}


class Secret(SimDevice):
    """A simulator that does not show its buffers."""

    name = "secret"

    def contents(self) -> None:  # type: ignore[override]
        return None


def compared(other: type[SimDevice]) -> Comparison:
    with SimDevice(TINY, SIZE) as sim, other(TINY, SIZE) as second:
        return compare(PROGRAM, ARRAYS, (sim, second))


def test_a_device_equals_itself() -> None:
    comparison = compared(SimDevice)
    assert comparison.equal
    assert str(comparison) == "equal: 22 instructions, 547 cycles"


def test_a_late_start_is_the_first_difference() -> None:
    comparison = compared(Late)
    assert not comparison.equal
    cycle = int(comparison.runs[0].times.starts[3])
    assert str(comparison).splitlines() == [
        f"first difference: start of instruction 3: sim in cycle {cycle}, late in cycle {cycle + 2}",
        "sim and late: total_cycles is 547, other has 548",
    ]


def test_a_corrupt_byte_is_named_with_the_stores_that_write_it() -> None:
    comparison = compared(Corrupting)
    found = comparison.memory_difference
    assert found is not None
    assert (found.tensor, found.offset, found.count) == ("out", 1, 2)
    stores = np.flatnonzero(PROGRAM.columns[:, COL["opcode"]] == Opcode.STORE)
    assert found.stores == (stores[0],)
    ours, theirs = found.values
    assert str(comparison) == (
        f"memory: byte 1 of out: sim {ours:#04x}, corrupting {theirs:#04x} (2 bytes differ), "
        f"written by instruction {stores[0]}\n"
        f"output: out[0, 0, 0, 1]: sim {np.uint8(ours).view(np.int8)}, corrupting {np.uint8(theirs).view(np.int8)} "
        "(1 of 48 differ)"
    )


def test_a_wrong_entry_of_a_buffer_is_named_with_its_last_writer() -> None:
    comparison = compared(Flipping)
    found = comparison.buffer_difference
    assert found is not None and comparison.memory_difference is None
    assert (found.buffer, found.entry, found.element, found.count) == (Buffer.ACC, 1, 2, 2)
    gemms = np.flatnonzero(PROGRAM.columns[:, COL["opcode"]] == Opcode.GEMM)
    assert found.writer in gemms
    ours, theirs = found.values
    assert ours ^ theirs == 1
    assert str(comparison) == (
        f"buffers: element 2 of acc entry 1: sim {ours}, flipping {theirs} (2 elements differ), "
        f"written last by instruction {found.writer}"
    )


def test_a_changed_entry_that_nothing_writes_is_a_difference() -> None:
    comparison = compared(Stray)
    assert str(comparison) == (
        "buffers: element 0 of wgt entry 63: sim 0, stray 1 (1 elements differ), which no instruction writes"
    )


def test_buffers_are_compared_where_both_devices_show_them() -> None:
    assert compared(SimDevice).buffers_compared
    assert not compared(Secret).buffers_compared and compared(Secret).equal
    assert not compared(Hanging).buffers_compared


def test_placed_programs_are_compared_too() -> None:
    places = {tensor.name: (1 << 33) + 4 + at * (1 << 20) for at, tensor in enumerate(PROGRAM.tensors)}
    places[STREAM] = (1 << 40) - PROGRAM.words.nbytes
    with SimDevice(TINY, SIZE) as sim, Corrupted(TINY, SIZE) as second:
        comparison = compare(PROGRAM, ARRAYS, (sim, second), places)
    assert str(comparison).startswith("memory: byte 3 of out: ")


def test_a_device_with_memory_elsewhere_is_compared_by_its_tensors() -> None:
    with SimDevice(TINY) as sim, Elsewhere(SimDevice(TINY)) as board:
        assert compare(PROGRAM, ARRAYS, (sim, board)).equal
    with SimDevice(TINY) as sim, Elsewhere(Corrupted(TINY)) as board:
        comparison = compare(PROGRAM, ARRAYS, (sim, board))
    assert comparison.first_difference is None and not comparison.same_results
    lines = str(comparison).splitlines()
    assert lines[0].startswith("memory: byte 3 of out: sim ") and lines[1].startswith("output: out[0, 0, 0, 3]: sim ")
    with SimDevice(TINY) as sim, Elsewhere(SimDevice(replace(TINY, dram=replace(TINY.dram, read_latency=30)))) as board:
        comparison = compare(PROGRAM, ARRAYS, (sim, board))
    assert comparison.same_results and not comparison.equal
    assert str(comparison).splitlines()[0].startswith("sim and board: total_cycles is 547, other has ")


def test_a_run_that_does_not_end_is_a_difference() -> None:
    comparison = compared(Hanging)
    assert not comparison.equal
    assert str(comparison).startswith("device hanging: the program hangs\nmemory: byte 0 of out: ")


# --- times ----------------------------------------------------------------------------------------


def times(*rows: tuple[int, int, int]) -> Times:
    return Times(*np.array(rows, np.int64).T)


def test_the_earliest_difference_counts() -> None:
    ours = times((1, 5, 90), (2, 6, 20))
    theirs = times((1, 5, 80), (2, 6, 21))
    assert first_difference(ours, theirs) == EventDifference("end", 1, (20, 21))
    assert first_difference(ours, ours) is None


def test_a_missing_event_counts_from_the_other_runs_cycle() -> None:
    ours, theirs = times((1, 5, 9), (2, 6, 20)), times((1, 5, 9), (2, UNKNOWN, UNKNOWN))
    assert first_difference(ours, theirs) == EventDifference("start", 1, (6, UNKNOWN))


def test_the_latest_instructions_up_to_a_cycle() -> None:
    assert latest_instructions(times((1, 2, 3), (2, 4, 9), (3, 7, 8), (4, 10, 20), (30, 31, 32)), 3, 10, 3) == [1, 2, 3]


# --- the command ----------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> str:
    PROGRAM.save(tmp_path / "p.vdla")
    return str(tmp_path / "p.vdla")


def test_equal_devices_exit_with_code_0(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "sim", "sim", file]) == 0
    assert capsys.readouterr().out == "equal: 22 instructions, 547 cycles\n"


def test_a_difference_is_shown_with_its_neighbours(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "DEVICES", {"sim": SimDevice, "late": Late})
    assert main(["compare", "sim", "late", file]) == 1
    text = capsys.readouterr().out
    assert "first difference: start of instruction 3: sim in cycle " in text
    assert "\ninstruction 3: load " in text
    assert "from: " in text
    row = next(line.split() for line in text.splitlines() if line.startswith("3 "))
    assert row[1:3] == ["load", "LOAD"]
    start = int(row[4].split("/")[0])
    assert row[4] == f"{start}/{start + 2}"


def test_comparing_an_unknown_device_lists_the_choices(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "sim", "fpga", file]) == 2
    assert capsys.readouterr().err == "vdla: device: name must be one of sim, rtl, pynq, got fpga\n"


def test_assertions_need_the_rtl(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "sim", "sim", file, "--assertions"]) == 2
    expected = "vdla: compare: --assertions must be left out without rtl, got sim and sim\n"
    assert capsys.readouterr().err == expected


def test_a_bitstream_needs_a_board(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "sim", "sim", file, "--bitstream", "b.bit"]) == 2
    assert capsys.readouterr().err == "vdla: compare: --bitstream must be left out without a board, got sim and sim\n"


def test_results_only_ignores_cycles(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "DEVICES", {"sim": SimDevice, "late": Late, "corrupting": Corrupting})
    assert main(["compare", "sim", "late", file, "--results-only"]) == 0
    assert "first difference: start of instruction 3" in capsys.readouterr().out
    assert main(["compare", "sim", "corrupting", file, "--results-only"]) == 1


@pytest.mark.rtl
@pytest.mark.parametrize("options", [[], ["--dram", "read_latency=3", "beat_cycles=2"], ["--seed", "4"]])
def test_the_simulator_equals_the_rtl(file: str, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert main(["compare", "sim", "rtl", file, *options]) == 0
    assert capsys.readouterr().out.startswith("equal: 22 instructions, ")


@pytest.mark.rtl
def test_a_timeout_of_the_rtl_is_the_first_difference() -> None:
    with SimDevice(TINY, SIZE) as sim, RtlDevice(TINY, SIZE, timeout_cycles=200) as rtl:
        comparison: Any = compare(PROGRAM, ARRAYS, (sim, rtl))
    assert comparison.first_difference.cycles[1] == UNKNOWN
    assert comparison.first_difference.cycles[0] >= 200
