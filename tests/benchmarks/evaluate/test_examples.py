# SPDX-License-Identifier: Apache-2.0
"""The worked examples of extensions: their files, out of the pages, and their figures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vdla
from vdla.benchmarks.evaluate import examples
from vdla.hardware.fpga.area import Usage

MOST_LINES = 120


@pytest.mark.parametrize("name", examples.pages())
def test_a_file_is_short_and_says_all(name: str, tmp_path: Path) -> None:
    path = examples.write_file(name, tmp_path)
    lines = path.read_text().splitlines()
    assert 10 < len(lines) <= MOST_LINES
    assert any(line.startswith("def declare(config)") for line in lines)


def test_the_search_takes_the_lanes(tmp_path: Path) -> None:
    assert examples.differences_a_cycle(examples.write_file("sad", tmp_path), window=31) >= 0.95 * 256


@pytest.mark.rtl
@pytest.mark.long
def test_the_search_on_the_rtl_is_that_of_the_simulator(tmp_path: Path) -> None:
    path = examples.write_file("sad", tmp_path)
    names: dict[str, Any] = {}
    exec(path.read_text(), names)
    operator = vdla.map_expression(
        names["matching"](blocks=6, size=4, window=9), vdla.extend(vdla.Config.preset("tiny"), path)
    )
    rng = np.random.default_rng(0)
    arrays = operator.pack(frame=rng.integers(-128, 128, (9, 9)), block=rng.integers(-128, 128, (6, 4, 4)))
    simulated, built = (vdla.run(operator.program, arrays, device) for device in ("sim", "rtl"))
    assert np.array_equal(simulated.outputs["output"], built.outputs["output"])
    assert simulated.statistics.differences(built.statistics) == []


def test_a_datapath_in_a_file_of_its_own_is_part_of_the_example(tmp_path: Path) -> None:
    path = examples.write_file("depthwise", tmp_path)
    assert path.with_suffix(".sv").read_text().endswith("endmodule\n")
    assert examples._lines(path) > len(path.read_text().splitlines()) + 100
    unit = vdla.extend(vdla.Config.preset("pynq_z1"), path).extensions
    assert {plug_in.datapath.place for plug_in in unit} == {str(tmp_path / "depthwise" / "depthwise.sv")}


def test_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def seconds(words: list[str]) -> float:
        seen.append(words)
        return float(len(seen))

    monkeypatch.setattr(examples, "_seconds", seconds)
    monkeypatch.setattr(examples, "_WINDOW", 31)
    monkeypatch.setattr(examples, "DEPTHWISE_LAYERS", ["D9"])
    monkeypatch.setattr(examples, "PRESETS", ("pynq_z1",))
    monkeypatch.setattr(examples, "datapath_usage", lambda source, module: Usage(lut=7, bram36=0.5))
    figures = examples.measured(lambda what, done, total: None).figures
    assert figures["int4_cold_s"] == 1 and figures["int4_cached_s"] == 2 and seen[0] == seen[1]
    assert sorted(words[0] for words in seen[2:]) == ["area", "selftest"] and figures["depthwise_full_s"] >= 0
    assert figures["sad_lines"] > figures["int4_lines"] > 10 and figures["sad_per_cycle"] <= 256
    assert (figures["lut_luts"], figures["lut_dsp"], figures["lut_bram"]) == (7, 0, 0.5)
    assert 1 < figures["depthwise_speedup_pynq_z1"] < figures["depthwise_bound_pynq_z1"]


def test_a_command_that_fails_is_an_error() -> None:
    text = r"^evaluate: vdla evaluate must succeed, got exit code 2: vdla: extension: "
    with pytest.raises(examples.ExampleError, match=text):
        examples._seconds(["evaluate", "none.py"])


def test_without_pages_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "DOCS", tmp_path)
    with pytest.raises(examples.ExampleError, match=r"^evaluate: the pages of the examples must be in .*, got none; "):
        examples.pages()
    (tmp_path / "extension-lost.md").write_text("nothing")
    text = r"^evaluate: page extension-lost.md must show lost.py, got none$"
    with pytest.raises(examples.ExampleError, match=text):
        examples.write_file("lost", tmp_path)
