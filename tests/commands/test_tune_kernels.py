# SPDX-License-Identifier: Apache-2.0
"""`vdla tune --target CPU` of models and operators: tables, logs, searches, exact messages."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from vdla.cli import main
from vdla.compiler.tune import TuningTask
from vdla.compiler.tune.searches import SEARCHES
from vdla.runtime.tune import cpu_measurer, kernel_runs
from vdla.runtime.tune.cpu_measurer import CpuMeasurer
from vdla.runtime.tune.log import CONFIRMED, TuningLog, read_logs
from vdla.runtime.tune.measurer import Measurer
from vdla.runtime.tune.trial import Trial
from vdla.runtime.tune.workers import InlineWorkers, Workers
from vdla.support.parallel import processors

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Trials in this process, of one short round."""

    def inline(task: TuningTask, measurer: Measurer, timeout_s: float) -> Workers:
        workers = InlineWorkers(measurer)
        workers.begin(task)
        return workers

    short = CpuMeasurer(rounds=1, round_s=1e-6)
    monkeypatch.setattr(kernel_runs, "one_process", inline)
    monkeypatch.setattr(kernel_runs, "CpuMeasurer", partial(replace, short))
    monkeypatch.setattr(kernel_runs, "AGAIN", short)
    monkeypatch.chdir(tmp_path)


def save_model(operator: str) -> None:
    """A product by a constant matrix, or a sum of one, as m.onnx."""
    weight = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    shapes = [helper.make_tensor_value_info(name, 1, ["N", 8]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node(operator, ["x", "w"], ["y"])], "g", shapes[:1], shapes[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), "m.onnx")


DENSE = ["dense", "--shape", "rows=6", "in_features=4", "out_features=8", "--target", "host"]
WORDS = ["tune", "m.onnx", "--target", "host", "--extent", "N=8", "--trials", "2"]


def test_kernels_are_tuned_and_compiled_from_the_log(capsys: Capture) -> None:
    save_model("MatMul")
    assert main([*WORDS, "--json", "out.json"]) == 0
    (kernel,) = json.loads(Path("out.json").read_text())["kernels"]
    assert (kernel["kernel"], kernel["uses"], kernel["macs"]) == ("kernel 1 MatMul", 1, 512)
    assert (kernel["trials"], kernel["failed"]) == (2, 0)
    assert kernel["speedup"] == kernel["default_seconds"] / kernel["seconds"]
    text = capsys.readouterr().out
    row = next(line for line in text.splitlines() if line.startswith("kernel 1"))
    assert row.split()[3:6] == ["1", f"{kernel['space']}", "2"]
    use = "vdla compile m.onnx --target host --tuned tuning.jsonl"
    assert f"\ntuning.jsonl: every trial; {use} uses what was confirmed\n" in text
    assert main([*use.split()[1:], "--extent", "N=8"]) == 0
    assert main([*WORDS, "--json", "-"]) == 0
    (again,) = json.loads(capsys.readouterr().out.split("tuning.jsonl\n")[-1])["kernels"]
    assert again == {**kernel, "reused": 2}


_OF_EVERY_DAY = ("optuna",)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "search", [name if name in _OF_EVERY_DAY else pytest.param(name, marks=pytest.mark.long) for name in SEARCHES]
)
def test_every_search_tunes_an_operator(search: str, capsys: Capture) -> None:
    assert main(["tune", *DENSE, "--search", search, "--trials", "4"]) == 0
    assert "vdla native dense --shape rows=6 in_features=4 out_features=8 --target host --tuned tuning.jsonl uses" in (
        capsys.readouterr().out
    )
    trials = [entry for entries in read_logs("tuning.jsonl").by_key.values() for entry in entries]
    tried = [entry for entry in trials if entry.run.search == search]
    assert len({str(entry.trial.point) for entry in tried}) == len(tried) == 4
    assert all(entry.trial.ok for entry in tried)


def test_an_operator_takes_what_was_confirmed(capsys: Capture) -> None:
    assert main(["tune", *DENSE, "--trials", "2", "--search", "estimate"]) == 0
    (key,) = read_logs("tuning.jsonl").by_key
    tried = read_logs("tuning.jsonl").tried(key)
    with TuningLog("tuning.jsonl") as log:
        log.append(replace(tried[1].run, search=CONFIRMED), tried[1].trial)
    assert main(["native", *DENSE, "-o", "default", "--llvm"]) == 0
    assert main(["native", *DENSE, "-o", "tuned", "--llvm", "--tuned", "tuning.jsonl"]) == 0
    default, tuned = (Path(folder, "dense.ll").read_text() for folder in ("default", "tuned"))
    assert tuned != default
    assert main(["native", *DENSE[:-1], "x86-64", "-o", "other", "--llvm", "--tuned", "tuning.jsonl"]) == 0
    assert main(["native", *DENSE[:-1], "x86-64", "-o", "plain", "--llvm"]) == 0
    assert Path("other/dense.ll").read_text() == Path("plain/dense.ll").read_text()


def test_a_search_learns_from_other_operators(capsys: Capture) -> None:
    assert main(["tune", *DENSE, "--trials", "3", "--search", "random"]) == 0
    words = [word.replace("rows=6", "rows=5") for word in DENSE]
    assert main(["tune", *words, "--trials", "3", "--log", "new.jsonl", "--from", "tuning.jsonl"]) == 0
    assert main(["tune", *DENSE, "--trials", "3", "--log", "same.jsonl", "--from", "tuning.jsonl"]) == 2
    rule = "logs must have trials of other tasks with its features, got none"
    assert capsys.readouterr().err.splitlines()[-1] == f"vdla: tune dense: {rule}"


@pytest.mark.long
def test_an_operator_is_tuned_for_threads(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_measurer, "processors", lambda: 2)
    words = [word.replace("=4", "=16").replace("=6", "=64").replace("=8", "=64") for word in DENSE]
    assert main(["tune", *words, "--threads", "2", "--trials", "1", "--search", "random"]) == 0
    use = f"vdla native {' '.join(words)} --tuned tuning.jsonl --threads 2"
    assert f"{use} uses what was confirmed" in capsys.readouterr().out
    (key,) = read_logs("tuning.jsonl").by_key
    (tried,) = read_logs("tuning.jsonl").tried(key)
    with TuningLog("tuning.jsonl") as log:
        point = {**tried.trial.point, "threads": 1}
        log.append(replace(tried.run, search=CONFIRMED), Trial(point, 1e-6, "seconds"))
    assert main([*use.split()[1:], "-o", "tuned"]) == 0
    assert main(["native", *words, "-o", "default"]) == 0
    linked = [line.split("link with ")[1] for line in capsys.readouterr().out.splitlines() if "link with" in line]
    assert linked == ["-lm", "-lm -lpthread"]


def test_operators_are_those_of_vdla_native(capsys: Capture) -> None:
    assert main(["tune", "mine.py:f", "--target", "host"]) == 2
    text = capsys.readouterr().err
    assert text.startswith("vdla: tune: operator must be one of conv2d, depthwise_conv2d, conv2d_transpose, dense, ")
    assert text.endswith(", CT3 or MODEL.onnx with --target, got mine.py:f\n")


def test_a_model_without_products_has_nothing_to_tune(capsys: Capture) -> None:
    save_model("Add")
    assert main(WORDS) == 0
    assert capsys.readouterr().out == "m.onnx: no kernel multiplies, so there is nothing to tune\n"


def test_symbols_need_numbers(capsys: Capture) -> None:
    save_model("MatMul")
    assert main(["tune", "m.onnx", "--target", "host"]) == 2
    assert capsys.readouterr().err == "vdla: tune_kernels: extents must have a number for N, got none\n"


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["m.onnx", "--target", "tiny"], "tune: --target must be a CPU, got tiny; --preset names a machine"),
        (["m.onnx", "--target", "host", "--workers", "2"], "tune: --workers must be left out with --target, got 2"),
        (
            ["m.onnx", "--target", "host", "--shape", "a=b"],
            "tune: --shape must be NAME=NxN with integers from 0, such as x=1x3x48x192, got a=b",
        ),
        (["C5", "--target", "host", "--shape", "a=1"], "tune C5: --shape must be left out for a named layer, got a=1"),
        (["C5", "--target", "host", "--kernels", "1"], "tune: --kernels must be left out for an operator, got 1"),
        (["C5", "--target", "host", "--extent", "N=1"], "tune: --extent must be left out for an operator, got N=1"),
        (
            ["dense", "--target", "host"],
            "tune dense: shape must give rows, in_features, out_features, got none "
            "(--shape rows=N in_features=N out_features=N)",
        ),
        (
            ["C5", "--target", "host", "--search", "anealing"],
            f"tune: --search must be one of {', '.join(SEARCHES)}, got anealing (did you mean annealing?)",
        ),
        (
            ["C5", "--target", "host", "--search", "random", "--from", "a"],
            "tune: --search must be one that learns with --from, such as annealing, got random",
        ),
        (
            ["C5", "--target", "host", "--from", "none.jsonl"],
            "none.jsonl: no such file",
        ),
        (["m.onnx", "--kernels", "3"], "tune: --target must be given with --kernels 3, got none"),
        (["m.onnx", "--threads", "2"], "tune: --target must be given with --threads 2, got none"),
        (
            [*DENSE, "--threads", "4096"],
            f"tune dense: threads must be at most the {processors()} processors, got 4096",
        ),
        (["m.onnx", "--extent", "N=1"], "tune: --target must be given with --extent N=1, got none"),
        (["m.onnx", "--target", "host", "--extent", "N=x"], "tune: --extent: N must be an integer, got 'x'"),
        (["m.onnx", "--target", "host", "--log", "no/l"], "tune: folder of --log must exist, got no"),
    ],
)
def test_messages(words: list[str], text: str, capsys: Capture) -> None:
    assert main(["tune", *words]) == 2
    assert capsys.readouterr().err == f"vdla: {text}\n"
