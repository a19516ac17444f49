# SPDX-License-Identifier: Apache-2.0
"""Waveforms around the first difference: which cycles, which files, views whose signals exist."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.faulty_devices import FlippingStore, WrongGemm
from helpers.fst import read_waves
from helpers.quantiser import to_qdq

from vdla.cli import main
from vdla.commands.arrays import with_random
from vdla.hardware.config import Config
from vdla.hardware.isa import Buffer
from vdla.hardware.program import Program
from vdla.networks.registry import NETWORKS
from vdla.runtime.devices import DeviceError, registry
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.run import run
from vdla.runtime.devices.sim import SimDevice
from vdla.runtime.diagnosis.comparison import BufferDifference, Comparison, DeviceRun, MemoryDifference, memory_bytes
from vdla.runtime.diagnosis.wave_views import MOST_MARKERS, WaveView, signal_groups, wave_markers
from vdla.runtime.diagnosis.wave_window import AROUND_CYCLES, wave_window
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.network.compile_network import compile_network
from vdla.simulator.stats import RunStats, Times
from vdla.simulator.stats.times import EventDifference
from vdla.simulator.timing import time_program
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program

TINY = Config.preset("tiny")
PROGRAM = gemm_program(GemmTiling(TINY, 12, 16, 16, 2, 1))
ARRAYS = with_random(PROGRAM, {}, 0)
SIZE = memory_bytes(PROGRAM)
LATE = 40


class Late(SimDevice):
    """A simulator in which an instruction starts two cycles late."""

    name = "late"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = super()._run(program, addresses)
        starts = stats.starts.copy()
        starts[LATE] += 2
        return replace(stats, starts=starts)


# --- windows --------------------------------------------------------------------------------------


def different(**differences: object) -> tuple[Comparison, Times]:
    """A comparison of the program on sim and rtl with these differences."""
    times = Times.of(time_program(PROGRAM))
    runs = tuple(DeviceRun(name, None, times, None) for name in ("sim", "rtl"))
    wanted = {"first_difference": None, "memory_difference": None, "statistics": (), **differences}
    return Comparison(program=PROGRAM, runs=runs, **wanted), times


def test_the_window_lies_around_the_first_event_that_differs() -> None:
    window = wave_window(*different(first_difference=EventDifference("end", 7, (900, 905))))
    assert (window.first, window.last) == (900 - AROUND_CYCLES, 900 + AROUND_CYCLES)
    assert (window.cycle, window.instruction) == (900, 7)
    window = wave_window(*different(first_difference=EventDifference("start", 7, (-1, 20))))
    assert (window.first, window.cycle) == (0, 20)


def test_without_one_it_lies_around_who_wrote_what_differs() -> None:
    memory = MemoryDifference("out", 0, (1, 2), 1, (30, 35))
    buffer = BufferDifference(Buffer.ACC, 0, 0, (1, 2), 1, 20)
    comparison, times = different(memory_difference=memory)
    assert wave_window(comparison, times).cycle == times.starts[30]
    comparison, times = different(memory_difference=memory, buffer_difference=buffer)
    assert (wave_window(comparison, times).cycle, wave_window(comparison, times).instruction) == (times.starts[20], 20)
    assert wave_window(comparison, times, culprit=10).instruction == 10
    comparison, times = different(buffer_difference=replace(buffer, writer=None))
    assert wave_window(comparison, times).cycle == times.ends.max()
    assert wave_window(comparison, Times.none(len(PROGRAM))).cycle == 0


# --- views ----------------------------------------------------------------------------------------


VIEW = WaveView(
    file="d.fst",
    first=1000,
    last=2600,
    cursor=1801,
    markers=(("3_start", 1741), ("3_end", 1801)),
    groups=tuple(group for group in signal_groups(TINY) if group[0] in ("clock", "tokens_store_to_compute", "reads")),
)
GTKWAVE = """\
[dumpfile] "d.fst"
[timestart] 1000
[size] 1400 800
[pos] -1 -1
*-1.000000 1801 1741 1801 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1
[markername] A3_start
[markername] B3_end
[treeopen] TOP.
[treeopen] TOP.vdla.
[signals_width] 300
[sst_expanded] 1
@200
-clock
@28
TOP.vdla.clk_i
@28
TOP.vdla.run
@200
-tokens_store_to_compute
@24
TOP.vdla.u_core.gen_tokens[3].u_tokens.level_q[3:0]
@200
-reads
@28
TOP.vdla.m_axi_arvalid_o[0:0]
@28
TOP.vdla.m_axi_arready_i[0:0]
@28
TOP.vdla.m_axi_rvalid_i[0:0]
@28
TOP.vdla.m_axi_rready_o[0:0]
@28
TOP.vdla.m_axi_rlast_i[0:0]
"""
SURFER = """\
load_file d.fst
divider_add clock
variable_add TOP.vdla.clk_i
variable_add TOP.vdla.run
divider_add tokens_store_to_compute
variable_add TOP.vdla.u_core.gen_tokens[3].u_tokens.level_q
divider_add reads
variable_add TOP.vdla.m_axi_arvalid_o
variable_add TOP.vdla.m_axi_arready_i
variable_add TOP.vdla.m_axi_rvalid_i
variable_add TOP.vdla.m_axi_rready_o
variable_add TOP.vdla.m_axi_rlast_i
cursor_set 1741
marker_set 3_start
cursor_set 1801
marker_set 3_end
cursor_set 1801
zoom_fit
goto_cursor
"""


def test_the_view_of_gtkwave_and_that_of_surfer() -> None:
    assert VIEW.gtkwave() == GTKWAVE
    assert VIEW.surfer() == SURFER


def test_markers_are_those_nearest_to_the_difference() -> None:
    events = [(f"{k}_start", 10 * k) for k in range(100)]
    markers = wave_markers(events, 100, 900, 505)
    assert len(markers) == MOST_MARKERS
    assert [time for _, time in markers] == list(range(380, 640, 10))
    assert wave_markers(events, 100, 130, 0) == tuple(events[10:14])


# --- on the RTL -----------------------------------------------------------------------------------


@pytest.mark.rtl
def test_waves_have_the_cycles_of_the_window(tmp_path: Path) -> None:
    path = tmp_path / "w.fst"
    with RtlDevice(TINY, SIZE, waves=path, window=(300, 400)) as device:
        assert run(PROGRAM, ARRAYS, device).statistics.total_cycles == time_program(PROGRAM).total_cycles
        first, last = device.wave_time(300), device.wave_time(401)
    waves = read_waves(path)
    assert (waves.first, waves.last) == (first, last - 1)
    assert last - first == 2 * 101


@pytest.mark.rtl
def test_the_first_difference_is_written_with_views(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "DEVICES", {"late": Late, "rtl": RtlDevice, "sim": SimDevice})
    monkeypatch.chdir(tmp_path)
    PROGRAM.save("p.vdla")
    assert main(["compare", "late", "rtl", "p.vdla", "--waves", "d.fst"]) == 1
    cycle = int(time_program(PROGRAM).starts[LATE])
    first, last = cycle - AROUND_CYCLES, cycle + AROUND_CYCLES
    output = capsys.readouterr().out.splitlines()
    assert output[-1] == f"waves of cycles {first} to {last}: d.fst, shown by d.gtkw and d.sucl"
    waves = read_waves(Path("d.fst"))
    commands = [line.split() for line in Path("d.sucl").read_text(encoding="utf-8").splitlines()]
    variables = [words[1] for words in commands if words[0] == "variable_add"]
    assert len(variables) > 15
    assert set(variables) <= waves.names | stripped(waves.names)
    saved = Path("d.gtkw").read_text(encoding="utf-8").splitlines()
    shown = [line for line in saved if line.startswith("TOP.")]
    assert len(shown) == len(variables) and set(shown) <= waves.names
    cursor = int(commands[-3][1])
    assert waves.first < cursor < waves.last
    at = commands.index(["marker_set", f"{LATE}_start"])
    assert commands[at - 1] == ["cursor_set", str(cursor)]


def stripped(names: frozenset[str]) -> set[str]:
    """Names without their ranges, as Surfer has them."""
    return {name.rpartition("[")[0] for name in names if name.endswith("]")}


@pytest.mark.rtl
def test_equal_runs_have_no_waves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    PROGRAM.save("p.vdla")
    assert main(["compare", "sim", "rtl", "p.vdla", "--waves", "d.fst"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no waves: they show a difference, and there is none"
    assert not Path("d.fst").exists()


@pytest.mark.rtl
def test_a_run_that_fails_has_waves_of_its_last_events(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    PROGRAM.save("p.vdla")
    total = time_program(PROGRAM).total_cycles
    assert main(["compare", "sim", "rtl", "p.vdla", "--waves", "d.fst", "--timeout", str(total // 2)]) == 1
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.startswith("waves of cycles ") and read_waves(Path("d.fst")).names


# --- of networks ----------------------------------------------------------------------------------


class Slow(SimDevice):
    """A simulator on which the last instruction of one program ends late."""

    name = "slow"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = super()._run(program, addresses)
        if program.name != SECOND:
            return stats
        ends = stats.ends.copy()
        ends[-1] += 3
        return replace(stats, ends=ends, total_cycles=stats.total_cycles + 3)


SECOND = "region2"


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Artifact:
    """A network of two programs and a layer of the CPU between them, also as a file here."""
    digits = NETWORKS["digits"]
    model = digits.build(**digits.small)
    quantised = to_qdq(model, [digits.inputs(model, seed=seed) for seed in (1, 2)])
    place = {"conv1": "vdla", "conv2": "vdla", "conv3": "cpu", "conv4": "vdla"}
    artifact = compile_network(quantised, "tiny", place=place).artifact
    devices = {"slow": Slow, "wrong": WrongGemm, "store": FlippingStore, "rtl": RtlDevice, "sim": SimDevice}
    monkeypatch.setattr(registry, "DEVICES", devices)
    monkeypatch.chdir(tmp_path)
    artifact.save("n.vdla")
    return artifact


@pytest.mark.rtl
def test_a_network_has_the_waves_of_the_region_with_a_wrong_result(
    network: Artifact, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "wrong", "rtl", "n.vdla", "--waves", "d.fst"]) == 1
    output = capsys.readouterr().out.splitlines()
    step = output[0].split(" on vdla")[0]
    assert step.startswith("step ") and output[-1].startswith(f"{step}: waves of cycles ")
    first, last = (int(text) for text in output[-1].split(": d.fst")[0].split("cycles ")[1].split(" to "))
    assert last - first <= 2 * AROUND_CYCLES and read_waves(Path("d.fst")).names
    instruction = next(line for line in output if line.startswith("instruction ")).split()[1].strip(":")
    assert f"marker_set {instruction}_start" in Path("d.sucl").read_text(encoding="utf-8")


@pytest.mark.rtl
def test_a_network_has_the_waves_of_the_region_whose_cycles_differ(
    network: Artifact, capsys: pytest.CaptureFixture[str]
) -> None:
    assert network.programs[1].name == SECOND
    assert main(["compare", "slow", "rtl", "n.vdla", "--waves", "d.fst"]) == 1
    output = capsys.readouterr().out.splitlines()
    assert output[0].startswith("equal results: ") and output[1].startswith("cycles of region 2: slow ")
    assert output[-1].split(": ")[0].endswith("(region 2)") and read_waves(Path("d.fst")).names
    last = len(network.programs[1]) - 1
    assert f"marker_set {last}_end" in Path("d.sucl").read_text(encoding="utf-8")


def test_a_network_has_the_page_of_the_region_that_differs(
    network: Artifact, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "sim", "slow", "n.vdla", "--view", "both.html"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith("(region 2): wrote both.html")
    titles = re.findall(r'"title": ?"(\w+ on \w+)"', Path("both.html").read_text(encoding="utf-8"))
    assert titles == [f"{SECOND} on sim", f"{SECOND} on slow"]
    assert main(["compare", "sim", "sim", "n.vdla", "--view", "all.html"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "wrote all.html"
    text = Path("all.html").read_text(encoding="utf-8")
    assert text.count('"title":"digits on sim"') + text.count('"title": "digits on sim"') == 2
    cycles = sum(time_program(program).total_cycles for program in network.programs)
    assert re.findall(r'"cycles": ?(\d+)', text)[0] == str(cycles)


@pytest.mark.rtl
def test_equal_networks_have_no_waves(network: Artifact, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "sim", "rtl", "n.vdla", "--waves", "d.fst"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "no waves: they show a difference, and there is none"
    assert not Path("d.fst").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sim", "sim"], "--waves must be left out without rtl, got sim and sim"),
        (["sim", "rtl", "x.vcd"], "--waves must name a .fst file, got x.vcd"),
        (["sim", "rtl", "no/x.fst"], "folder of --waves must exist, got no"),
    ],
)
def test_wrong_arguments(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    PROGRAM.save("p.vdla")
    first, second, *file = words
    assert main(["compare", first, second, "p.vdla", "--waves", *(file or ["x.fst"])]) == 2
    assert capsys.readouterr().err == f"vdla: compare: {message}\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window": (0, 5)}, "window must be left out without waves, got (0, 5)"),
        ({"window": 5, "waves": "w.fst"}, "window must have a first and a last cycle, got 5"),
        (
            {"window": (7, 5), "waves": "w.fst"},
            "last cycle of the window must be an integer from 7 to 9223372036854775807, got 5",
        ),
        (
            {"window": (-1, 5), "waves": "w.fst"},
            "first cycle of the window must be an integer from 0 to 9223372036854775807, got -1",
        ),
    ],
)
def test_wrong_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, object], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DeviceError) as error:
        RtlDevice(TINY, SIZE, **options)
    assert str(error.value) == f"device rtl: {message}"
