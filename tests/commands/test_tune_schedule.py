# SPDX-License-Identifier: Apache-2.0
"""`vdla tune FILE.py:NAME` of a schedule function: its table, its results, exact messages."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from vdla.cli import main
from vdla.runtime.tune import schedule_function
from vdla.runtime.tune.workers import InlineWorkers

Capture = pytest.CaptureFixture[str]
WORDS = ["tune", "knobs_of_layer.py:layer", "--search", "exhaustive"]


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A file with a layer on one or two virtual threads; trials run in this process."""
    monkeypatch.setattr(schedule_function, "LocalWorkers", lambda measurer, count, timeout_s: InlineWorkers(measurer))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "knobs_of_layer", raising=False)
    Path("knobs_of_layer.py").write_text(
        "from vdla import Config, templates\n\ndef layer(cfg):\n"
        "    shape = dict(batch=1, height=2, width=2, in_channels=4, out_channels=8, kernel=1)\n"
        "    threads = cfg.choice('threads', [1, 2])\n"
        "    return templates.conv2d(Config.preset('tiny'), **shape, virtual_threads=threads).program\n\n"
        "def empty(cfg):\n    cfg.choice('threads', [])\n"
    )
    Path("json.py").write_text("def layer(cfg):\n    return cfg\n")
    Path("broken_knobs.py").write_text("def layer(cfg):\n    return cfg\n\n1 / 0\n")


def test_the_best_values_stand_beside_the_first(capsys: Capture) -> None:
    assert main([*WORDS, "--json", "out.json"]) == 0
    found = json.loads(Path("out.json").read_text())
    assert (found["schedule"], found["trials"], found["failed"], found["unit"]) == ("layer", 2, 0, "cycles")
    assert found["first"] == {"threads": 1} and found["best_cost"] <= found["first_cost"]
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "layer on tiny: 2 trials"
    assert next(line.split() for line in lines if line.startswith("cycles")) == [
        "cycles", f"{found['first_cost']:,.0f}", f"{found['best_cost']:,.0f}"
    ]  # fmt: skip
    assert next(line.split() for line in lines if line.startswith("threads"))[1:] == [
        "1",
        f"{found['best']['threads']}",
    ]
    use = "vdla.tune_schedule(layer, 'tuning.jsonl', ...).built"
    assert lines[-1] == f"tuning.jsonl: every trial; {use} is the best"
    assert main([*WORDS, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == {**found, "reused": 2}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([WORDS[1], "--preset", "tiny"], "tune: --preset must be left out for a schedule function, got tiny"),
        ([WORDS[1], "--shape", "a=1", "b=2"], "tune: --shape must be left out for a schedule function, got a=1 b=2"),
        (["json.py:layer"], "json.py: file must have a name that no other module has, got that of json"),
        (["broken_knobs.py:layer"],
         "broken_knobs.py:layer: the file must run without errors, got ZeroDivisionError: division by zero"),
        (["knobs_of_layer.py:empty"], "knob threads: values must have a legal one, got none"),
    ],
)  # fmt: skip
def test_messages(words: list[str], text: str, capsys: Capture) -> None:
    assert main(["tune", *words]) == 2
    assert capsys.readouterr().err == f"vdla: {text}\n"
