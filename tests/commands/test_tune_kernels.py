"""`vdla tune MODEL.onnx --target CPU`: its table, its log, exact messages."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from vdla.cli import main
from vdla.compiler.tune import TuningTask
from vdla.runtime.tune import CpuMeasurer, InlineWorkers, Measurer, Workers, network_kernels

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Trials in this process, of one short round."""

    def inline(task: TuningTask, measurer: Measurer, timeout_s: float) -> Workers:
        workers = InlineWorkers(measurer)
        workers.begin(task)
        return workers

    short = CpuMeasurer(rounds=1, round_s=1e-6)
    monkeypatch.setattr(network_kernels, "one_process", inline)
    monkeypatch.setattr(network_kernels, "CpuMeasurer", lambda: short)
    monkeypatch.setattr(network_kernels, "AGAIN", short)
    monkeypatch.chdir(tmp_path)


def save_model(operator: str) -> None:
    """A product by a constant matrix, or a sum of one, as m.onnx."""
    weight = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    shapes = [helper.make_tensor_value_info(name, 1, ["N", 8]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node(operator, ["x", "w"], ["y"])], "g", shapes[:1], shapes[1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), "m.onnx")


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
        (["C5", "--target", "host"], "tune: --target must be left out without a MODEL.onnx, got host"),
        (["m.onnx", "--target", "tiny"], "tune: --target must be a CPU, got tiny; --preset names a machine"),
        (["m.onnx", "--target", "host", "--workers", "2"], "tune: --workers must be left out with --target, got 2"),
        (["m.onnx", "--target", "host", "--from", "a", "b"], "tune: --from must be left out with --target, got a b"),
        (["m.onnx", "--kernels", "3"], "tune: --target must be given with --kernels 3, got none"),
        (["m.onnx", "--extent", "N=1"], "tune: --target must be given with --extent N=1, got none"),
        (["m.onnx", "--target", "host", "--extent", "N=x"], "tune: --extent: N must be an integer, got 'x'"),
        (["m.onnx", "--target", "host", "--log", "no/l"], "tune: folder of --log must exist, got no"),
    ],
)
def test_messages(words: list[str], text: str, capsys: Capture) -> None:
    assert main(["tune", *words]) == 2
    assert capsys.readouterr().err == f"vdla: {text}\n"
