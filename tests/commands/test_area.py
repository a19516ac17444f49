# SPDX-License-Identifier: Apache-2.0
"""`vdla area` before synthesis: the estimate of its time, and refused arguments."""

from __future__ import annotations

from typing import NoReturn

import pytest

from vdla.cli import main
from vdla.commands import BAD_INPUT
from vdla.hardware.config import Config
from vdla.hardware.fpga import area as area_module
from vdla.hardware.fpga import synthesis
from vdla.hardware.fpga.parts import FpgaPart
from vdla.hardware.fpga.synthesis import Progress
from vdla.hardware.fpga.yosys import YosysError

Capture = pytest.CaptureFixture[str]


def test_the_expected_time_is_printed_at_once(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def area(config: Config, part: FpgaPart, progress: Progress) -> NoReturn:
        progress(f"about {synthesis.usual_seconds(config)} s", 0, 3)
        progress("coarse", 1, 3)
        raise YosysError("stopped")

    monkeypatch.setattr(area_module, "area", area)
    assert main(["area", "--preset", "tiny"]) == BAD_INPUT
    assert capsys.readouterr().err == "area of tiny: about 30 s\nvdla: stopped\n"


def test_an_unknown_part_suggests_the_nearest_name(capsys: Capture) -> None:
    assert main(["area", "--part", "xc7z02"]) == BAD_INPUT
    message = capsys.readouterr().err
    assert message.startswith("vdla: area: --part must be one of ")
    assert message.endswith(", got xc7z02 (did you mean xc7z020?)\n")
