# SPDX-License-Identifier: Apache-2.0
"""`vdla tune` and `--tuned`: tables, logs, pictures, exact messages."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pytest

from vdla.charts.plots import Curve, convergence
from vdla.cli import main
from vdla.hardware.program import Program
from vdla.runtime.tune.log import read_logs
from vdla.runtime.tune.measurer import Measurer
from vdla.runtime.tune.workers import InlineWorkers
from vdla.simulator.timing import time_program

Capture = pytest.CaptureFixture[str]
SHAPE = ["height=6", "width=6", "in_channels=8", "out_channels=8", "kernel=3", "pads=1"]
SMALL = ["conv2d", "--preset", "tiny", "--shape", *SHAPE]


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Workers have their own tests; starting them takes seconds."""

    def inline(measurer: Measurer, *_: object) -> InlineWorkers:
        return InlineWorkers(measurer)

    monkeypatch.setattr("vdla.runtime.tune.workers.LocalWorkers", inline)
    monkeypatch.chdir(tmp_path)


def tuned(capsys: Capture, *words: str) -> dict[str, object]:
    """The results of one operator."""
    assert main(["tune", *words, "--json", "-"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["operators"]
    return result


def test_a_run_writes_log_program_picture_and_resumes(capsys: Capture) -> None:
    words = [*SMALL, "--search", "random", "--picture", "p.svg", "-o", "best.vdla"]
    first = tuned(capsys, *words, "--trials", "4")
    again = tuned(capsys, *words, "--trials", "9")
    assert (first["trials"], first["reused"], again["trials"], again["reused"]) == (4, 0, 9, 4)
    assert again["best_so_far"][:4] == first["best_so_far"]
    index = read_logs("tuning.jsonl")
    assert len(index) == 9 + 1  # and the untuned choice
    assert index.untuned(str(again["key"])).cost == again["untuned_cycles"]
    assert time_program(Program.load("best.vdla")).total_cycles == again["best"]
    assert "conv2d on tiny, random" in "".join(ET.parse("p.svg").getroot().itertext())


def test_the_table_compares_the_best_with_the_untuned_choice(capsys: Capture) -> None:
    assert main(["tune", *SMALL, "--trials", "3", "--search", "estimate"]) == 0
    text = capsys.readouterr().out
    assert "conv2d on tiny: 3 of 2,448 points" in text
    assert "tuning.jsonl: every trial; vdla compile conv2d --tuned tuning.jsonl uses the best\n" in text
    for label in ("cycles", "bytes read", "compute: busy", "threads_over"):
        assert any(line.startswith(f"{label} ") for line in text.splitlines())


def test_compile_takes_the_log(capsys: Capture) -> None:
    result = tuned(capsys, *SMALL, "--trials", "30", "--search", "estimate")
    assert main(["compile", *SMALL, "--tuned", "tuning.jsonl", "-o", "tuned.vdla"]) == 0
    assert capsys.readouterr().out.endswith(", tuned\n")
    assert time_program(Program.load("tuned.vdla")).total_cycles == result["best"]
    assert result["best"] <= result["untuned_cycles"]


def test_logs_of_another_shape_train_the_model(capsys: Capture) -> None:
    pytest.importorskip("xgboost")
    tuned(capsys, *SMALL, "--trials", "16", "--search", "random", "--log", "other.jsonl")
    words = ["conv2d", "--preset", "tiny", "--shape", "height=7", *SHAPE[1:], "--trials", "2"]
    plain = tuned(capsys, *words, "--log", "plain.jsonl")
    taught = tuned(capsys, *words, "--log", "taught.jsonl", "--from", "other.jsonl")
    assert plain["trials"] == taught["trials"] == 2
    assert plain["best_so_far"] != taught["best_so_far"]


def test_a_function_of_a_file_is_tuned_with_its_mappings(capsys: Capture) -> None:
    Path("my.py").write_text(
        "from vdla import definitions\n\ndef mine():\n    return definitions.matrix_vector(rows=4, columns=8).output\n"
    )
    result = tuned(capsys, "my.py:mine", "--preset", "tiny", "--trials", "2", "--search", "estimate")
    assert result["operator"] == "mine" and "form" in result["point"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["nope"], "tune: operator must be one of batched_matmul, conv2d, "),
        (["C5", "--shape", "height=3"], "tune C5: --shape must be left out for a named layer, got height=3"),
        (["C5", "--search", "anealing"], "tune: --search must be one of annealing, "),
        (["C5", "--search", "random", "--from", "a.jsonl"],
         "tune: --search must be one that learns with --from, such as annealing, got random"),
        (["C5", "--picture", "p.png"], "tune: --picture must end in .svg, got p.png"),
        (["C5", "--log", "no/log.jsonl"], "tune: folder of --log must exist, got no"),
        (["C5", "--calibration", "x.npy"], "tune: --calibration must be left out for an operator, got x.npy"),
        (["m.onnx", "-o", "x.vdla"], "tune: --output must be left out for a model, got x.vdla"),
        (["m.onnx", "--shape", "a=b"],
         "tune: --shape must be NAME=NxN with integers from 0, such as x=1x3x48x192, got a=b"),
        (["C5", "--workers", "many"], "tune: workers must be a number, ray or ray://HOST:PORT, got many"),
    ],
)  # fmt: skip
def test_messages(words: list[str], text: str, capsys: Capture) -> None:
    assert main(["tune", *words]) == 2
    assert capsys.readouterr().err.removeprefix("vdla: ").startswith(text)


def test_a_device_that_there_is_not_ends_the_run_before_a_trial(capsys: Capture) -> None:
    assert main(["tune", *SMALL, "--device", "nope"]) == 2
    assert "device: name must be one of sim, rtl, pynq, got nope" in capsys.readouterr().err
    assert Path("tuning.jsonl").read_text() == ""


def test_a_log_that_is_none_is_named(capsys: Capture) -> None:
    Path("tuning.jsonl").write_text('{"version": 7}\n')
    assert main(["tune", *SMALL]) == 2
    message = "tuning.jsonl: line 1: version of the log must be 1, got 7 (made by another vdla)"
    assert capsys.readouterr().err == f"vdla: {message}\n"


def test_a_line_of_the_picture_falls_at_its_improvements() -> None:
    root = ET.fromstring(convergence("t", "q", [Curve(name="c", values=[float("inf"), 3.0, 3.0, 2.0])]))
    (line,) = [each for each in root.iter() if each.tag.endswith("polyline")]
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(points)]
    assert len(points) == 5 and all(dx == 0 or dy == 0 for dx, dy in steps)
    assert sum(dy > 0 for _, dy in steps) == 1  # downwards, on the screen
