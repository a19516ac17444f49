# SPDX-License-Identifier: Apache-2.0
"""`vdla board selftest`: tables, the measured file, exit codes, errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from vdla.cli import main
from vdla.hardware.config import Config, Dram
from vdla.hardware.dram_model import DramModel
from vdla.hardware.program import Program
from vdla.runtime.devices import DeviceError, registry
from vdla.runtime.devices.sim import SimDevice
from vdla.simulator.stats import RunStats


def test_a_working_device_is_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "measured.json"
    words = ["board", "selftest", "--preset", "tiny", "--dram", "read_latency=33", "burst_gap=3", "-o", str(file)]
    assert main(words) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "self-test of sim as tiny"
    assert "compiled convolution ok 15,543" in lines and "everything works" in lines
    assert "read latency 33 660 ns" in lines and "outstanding reads that help 2" in lines
    assert "the model agrees with the device in every cycle; runs differed by 0.00 %" in lines
    assert lines[-1] == f"wrote {file}"
    assert DramModel.load(file).dram == Dram(
        read_latency=33, write_latency=5, outstanding_reads=2, outstanding_writes=2, beat_cycles=1, burst_gap=3
    )
    assert main(["compile", "dense", "--preset", "tiny", "--shape", "rows=4", "in_features=8", "out_features=4",
                 "-o", str(tmp_path / "d.vdla")]) == 0  # fmt: skip
    assert main(["run", str(tmp_path / "d.vdla"), "--random-inputs", "0", "--dram", str(file)]) == 0


class Broken(SimDevice):
    """A device on which the tokens do not work."""

    name = "broken"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        if program.name == "tokens":
            raise DeviceError("device broken: the program hangs")
        return super()._run(program, addresses)


def test_a_fault_is_named_and_nothing_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "DEVICES", {"broken": Broken})
    file = tmp_path / "measured.json"
    assert main(["board", "selftest", "--device", "broken", "--preset", "tiny", "-o", str(file)]) == 1
    text = capsys.readouterr().out
    assert "tokens: device broken: the program hangs\n1 of 13 failed\n" in text
    assert "memory: not measured, since something does not work\n" in text
    assert not file.exists()


def test_an_option_that_the_device_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["board", "selftest", "--bitstream", "b.bit"]) == 2
    expected = "vdla: device sim: option must be one of memory_bytes, timeout_cycles, got bitstream\n"
    assert capsys.readouterr().err == expected


def test_a_folder_that_does_not_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["board", "selftest", "-o", "/none/measured.json"]) == 2
    assert capsys.readouterr().err == "vdla: board selftest: folder of --output must exist, got /none\n"


def test_the_configuration_of_tiny_is_the_one_above() -> None:
    assert Config.preset("tiny").dram == Dram(
        read_latency=10, write_latency=5, outstanding_reads=2, outstanding_writes=2, beat_cycles=1, burst_gap=0
    )
