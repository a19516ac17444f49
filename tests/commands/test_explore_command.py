# SPDX-License-Identifier: Apache-2.0
"""`vdla explore`: its tables, page and pictures; its messages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from helpers.extension_files import again

from vdla.cli import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    path = tmp_path / "layer.py"
    call = "vdla.definitions.dense(rows=6, in_features=16, out_features=16)"
    path.write_text(f"import vdla\n\n\ndef dense():\n    return {call}.output\n")
    monkeypatch.chdir(tmp_path)
    return f"{path}:dense"


def test_tables_page_pictures_and_json(layer: str, tmp_path: Path, capsys: Capture) -> None:
    sweep = ["--sweep", "block_in=2,4,8", "dram.read_latency=10,80"]
    words = ["explore", "--layers", layer, "--preset", "tiny", *sweep, "--workers", "1"]
    assert main([*words, "--html", "e.html", "--picture", "e.svg", "--json", "e.json", "--all"]) == 0
    printed = capsys.readouterr().out
    assert "the Pareto front" in printed and "machines that another one beats" in printed
    assert "6 machines: 4 measured, 2 of them on the front, 2 rejected" in printed
    assert "rejected 2: config tiny: an entry of the inp buffer must be a whole number of 32-bit AXI beats" in printed
    page, drawn = (tmp_path / "e.html").read_text(), (tmp_path / "e.svg").read_text()
    assert drawn in page and "<script" not in page
    assert drawn.count('class="front"') == drawn.count('class="beaten"') == 2
    machines = json.loads((tmp_path / "e.json").read_text())["machines"]
    assert [machine["front"] for machine in machines].count(True) == 2
    assert main([*words, "--json", "-", "--picture", "e.png"]) == 0
    assert json.loads(capsys.readouterr().out)["machines"] == machines
    assert (tmp_path / "e.png").read_bytes().startswith(b"\x89PNG")


def test_an_area_without_that_of_the_extension_is_marked(layer: str, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "again.py").write_text(again(interval=4))
    words = ["explore", "--layers", layer, "--preset", "tiny", "--sweep", "extensions=none,again.py", "--workers", "1"]
    assert main([*words, "--html", "e.html", "--json", "e.json", "--all"]) == 0
    printed = capsys.readouterr().out
    assert "+ at 1 machines: and what their extensions add, which the model does not know" in printed
    assert "1 of them on the front" in printed  # of two machines that take as long, that whose area is known
    page = (tmp_path / "e.html").read_text()
    assert 'class="beaten partial"' in page and re.search(r"<td>[\d,]+\+</td>", page)
    machines = json.loads((tmp_path / "e.json").read_text())["machines"]
    assert [(machine["complete"], machine["front"]) for machine in machines] == [(True, True), (False, False)]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--sweep", "block_in"], "--sweep: setting must look like KEY=VALUE, got 'block_in'\n"),
        (["--sweep", "block_in=4,x"], "--sweep: block_in must be an integer, got 'x'\n"),
        (["--sweep", "block_in=4", "block_in=8"], "--sweep: block_in must be given once, got it twice\n"),
        (["--part", "xc7z021"], "explore: --part must be one of xc7z010, xc7z020, "),
        (["--search", "tabu"], "explore: search must be one of exhaustive, random, estimate, genetic, got tabu\n"),
        (["--max", "lut"], "--max: setting must look like KEY=VALUE, got 'lut'\n"),
        (["--max", "lut=x"], "--max: lut must be a number, got 'x'\n"),
        (["--min", "fps=1", "fps=2"], "--min: fps must be given once, got it twice\n"),
        (["--min", "fpss=1"], "explore: limit must be one of fps, latency_ms, "),
        (["--objective", "uj"], "explore: objective uj must have coefficients of energy (--energy), got none\n"),
        (["--clock", "fast"], "explore: clock must be one of given, estimated, got fast\n"),
        (["--part", "x.json"], "x.json: no such file\n"),
        (["--picture", "x.gif"], "explore: --picture must end in .svg or .png, got x.gif\n"),
        (["--log", "nowhere/x.jsonl"], "explore: folder of --log must exist, got nowhere\n"),
    ],
)
def test_bad_input_is_one_line(words: list[str], text: str, layer: str, capsys: Capture) -> None:
    assert main(["explore", "--layers", layer, "--preset", "tiny", "--workers", "1", *words]) == 2
    assert capsys.readouterr().err.startswith(f"vdla: {text}")


def test_energy_is_a_table_that_says_estimated(layer: str, tmp_path: Path, capsys: Capture) -> None:
    words = ["explore", "--layers", layer, "--preset", "tiny", "--sweep", "block_in=2,4", "--workers", "1"]
    assert main([*words, "--energy", "7nm"]) == 0
    printed = capsys.readouterr().out
    assert "energy by 7nm, estimated" in printed and "frames/J" in printed and "ISCA 2021" in printed
    assert main([*words, "--energy", "7nm", "--json"]) == 0
    energy = json.loads(capsys.readouterr().out)["energy"]
    assert energy["coefficients"] == "7nm" and list(energy["machines"]) == ["1"]
    assert main([*words, "--energy", "28nm"]) == 2
    assert capsys.readouterr().err.startswith("vdla: energy: coefficients must be one of 45nm, 7nm or a .json file")
