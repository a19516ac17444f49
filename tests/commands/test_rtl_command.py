# SPDX-License-Identifier: Apache-2.0
"""`vdla run` on the RTL equals that on the simulator, except for options of one device."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from vdla.cli import main
from vdla.commands.doctor_command import _rtl, _waveforms
from vdla.hardware.config import Config
from vdla.runtime.devices import rtl_build
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> str:
    gemm_program(GemmTiling(Config.preset("tiny"), 6, 8, 8, 2, 1)).save(tmp_path / "p.vdla")
    return str(tmp_path / "p.vdla")


def complaint(capsys: Capture, *arguments: str) -> str:
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.removeprefix("vdla: ").strip()


@pytest.mark.rtl
def test_the_rtl_gives_the_same_results_and_figures(file: str, tmp_path: Path, capsys: Capture) -> None:
    documents, outputs = [], []
    for device in ("sim", "rtl"):
        folder = tmp_path / device
        arguments = ["run", file, "--random-inputs", "0", "--json", "--device", device, "--output", str(folder)]
        assert main([*arguments, "--table", str(tmp_path / f"{device}.txt")]) == 0
        documents.append(json.loads(capsys.readouterr().out))
        outputs.append(np.load(folder / "out.npy"))
    assert (outputs[0] == outputs[1]).all()
    written = [document.pop("written") for document in documents]
    assert len(written[0]) == len(written[1]) == 2
    assert documents[0] == documents[1]
    assert (tmp_path / "sim.txt").read_text() == (tmp_path / "rtl.txt").read_text()


@pytest.mark.rtl
def test_tables_of_a_run_on_the_rtl_are_printed(file: str, capsys: Capture) -> None:
    assert main(["run", file, "--random-inputs", "0", "--device", "rtl"]) == 0
    assert "cycles of each unit (%)" in capsys.readouterr().out


@pytest.mark.rtl
def test_a_timeout_on_the_rtl_prints_the_state_of_the_machine(file: str, capsys: Capture) -> None:
    message = complaint(capsys, "run", file, "--random-inputs", "0", "--device", "rtl", "--timeout", "50")
    assert message.startswith("device rtl: the program has not ended after 50 cycles (cycle ")
    assert "of 22 instructions dispatched; load: instruction 1 (LOAD) runs; compute: " in message


def test_a_timeout_of_the_simulator_is_the_same_option(file: str, capsys: Capture) -> None:
    message = complaint(capsys, "run", file, "--random-inputs", "0", "--timeout", "50")
    assert message.startswith("timing: the program has not ended after cycle 50; fetch: ")
    assert complaint(capsys, "run", file, "--timing-only", "--timeout", "50") == message


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--device", "rtl", "--timing-only"), "run: --device must be sim with --timing-only, got rtl"),
        (("--random-inputs", "0", "--waves", "x.fst"), "run: --device must be rtl with --waves, got sim"),
        (
            ("--random-inputs", "0", "--device", "rtl", "--lines", "3"),
            "run: --lines must be left out on rtl, which counts by unit, got 3",
        ),
    ],
)
def test_options_of_one_device_are_refused_on_the_other(
    file: str, capsys: Capture, options: tuple[str, ...], expected: str
) -> None:
    assert complaint(capsys, "run", file, *options) == expected


@pytest.mark.parametrize("command", [("run",), ("run", "--timing-only"), ("compare", "sim", "sim")])
@pytest.mark.parametrize("value", ["0", "-1", "x"])
def test_a_timeout_must_be_a_number_from_1(file: str, capsys: Capture, command: tuple[str, ...], value: str) -> None:
    with pytest.raises(SystemExit):
        main([*command, file, f"--timeout={value}"])
    expected = f"argument --timeout: value must be an integer from 1, got '{value}' (see vdla {command[0]} --help)"
    assert capsys.readouterr().err == f"vdla: {command[0]}: {expected}\n"


def test_a_timeout_beyond_64_bits_is_no_limit(file: str, capsys: Capture) -> None:
    assert main(["run", file, "--timing-only", "--json", "--timeout", str(1 << 70)]) == 0
    assert json.loads(capsys.readouterr().out)["total_cycles"] == 547


@pytest.mark.rtl
def test_a_waveform_file_is_listed_among_the_written_files(file: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "run.fst"
    assert main(["run", file, "--random-inputs", "0", "--device", "rtl", "--waves", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["written"] == [str(path)]


def test_the_doctor_says_whether_waveforms_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtl_build, "_has_header", lambda compiler, header: False)
    finding = _waveforms()
    assert (finding.what, finding.state, finding.healthy) == ("waveforms", "cannot be written", True)
    assert finding.advice == "zlib must be installed for waveforms, got none (apt-get install zlib1g-dev)"


def test_the_doctor_says_whether_the_rtl_can_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    finding = _rtl()
    assert (finding.what, finding.state, finding.healthy) == ("device rtl", "cannot be built", True)
    assert finding.advice == "CXX must name a C++ compiler on PATH, without options, got no-such-compiler"


def test_a_benchmark_whose_result_has_no_folder_is_refused_before_it_runs(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "absent"
    message = complaint(capsys, "bench", "equality", "--json", str(folder / "x.json"))
    assert message == f"bench: folder of --json must exist, got {folder}"
