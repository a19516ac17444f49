# SPDX-License-Identifier: Apache-2.0
"""The float32 sections of the cpu benchmark: equal results of both sides, and their timing."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.small_layers import DEPTHWISE, STRIDED, WINOGRAD

from vdla.benchmarks import harness
from vdla.benchmarks.cpu import benchmark as cpu
from vdla.benchmarks.cpu import bitserial as cpu_bitserial
from vdla.benchmarks.cpu import float32 as cpu_float
from vdla.benchmarks.cpu import int8 as cpu_int8
from vdla.benchmarks.cpu.benchmark import receipt
from vdla.benchmarks.cpu.float32 import difference, measure_fused, measure_layer
from vdla.benchmarks.cpu.layers import layers, operands_of, our_layer, their_layer
from vdla.benchmarks.cpu.measurement import Measurement
from vdla.benchmarks.harness import LibraryError, PairedTimes, geomean, paired_times
from vdla.cli import main
from vdla.commands.bench_command import passed
from vdla.compiler.operators.workloads import Workload


@pytest.mark.parametrize("layer", [STRIDED, WINOGRAD, DEPTHWISE], ids=lambda layer: layer.name)
def test_a_float32_layer_equals_onnx_runtime(layer: Workload) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, with which results are compared")
    operands = operands_of(layer, 0)
    ours = our_layer(layer, operands, biased=False)
    theirs, expected = their_layer(layer, operands)
    theirs()
    assert difference(ours(), expected) < 1e-5
    assert np.ptp(expected) > 1
    measured = measure_layer(layer, operands)
    assert measured.error < 1e-5
    assert measured.row["ratio"] > 0


def test_fused_and_separate_stages_agree() -> None:
    assert measure_fused(STRIDED, operands_of(STRIDED, 0)).error < 1e-6


def test_the_layers_are_those_of_the_table() -> None:
    assert [layer.name for layer in layers()] == [f"C{n}" for n in range(1, 13)] + [f"D{n}" for n in range(1, 10)]


def test_sections_report_as_many_steps_as_they_declare(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Measurement("one", PairedTimes(1.0, 2.0), 3, 0.25)
    for module, measure in (
        (cpu_float, "measure_layer"), (cpu_float, "measure_fused"), (cpu_int8, "measure_layer"),
        (cpu_bitserial, "measure_size"),
    ):  # fmt: skip
        monkeypatch.setattr(module, measure, lambda *_: measured)
    monkeypatch.setattr(cpu_float, "paired_times", lambda *_: PairedTimes(1.0, 4.0))
    shown: list[tuple[str, int, int]] = []
    result = cpu.run(lambda *step: shown.append(step))
    assert [done for _, done, _ in shown] == list(range(len(shown)))
    assert shown[0] == ("C1 float32", 0, len(shown) - 1)
    assert shown[-1] == ("done", len(shown) - 1, len(shown) - 1)
    assert len(result.rows) == len(shown) - 1
    assert result.figures == {
        "f32_geomean": 2.0, "f32_worst": 2.0, "f32_error": 0.25, "int8_geomean": 2.0, "int8_worst": 2.0,
        "int8_error": 0.25, "matmul_ratio": 4.0, "fusion_speedup": 2.0, "bitserial_speedup": 2.0,
        "bitserial_error": 0.25,
    }  # fmt: skip
    assert not passed(result)


def test_missing_libraries_are_named_before_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "find_spec", lambda name: None if name.startswith("onnx") else name)
    message = 'bench cpu: onnx, onnxruntime must be installed, got none (pip install "vdla[dev]")'
    with pytest.raises(LibraryError, match=f"^{re.escape(message)}$"):
        cpu.run()


def test_paired_times_tell_slow_from_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(harness, "time", SimpleNamespace(process_time=lambda: clock[0]))

    def work(seconds: float) -> None:
        clock[0] += seconds

    times = paired_times(lambda: work(0.001), lambda: work(0.004), rounds=3)
    assert times.ratio == pytest.approx(4)
    assert PairedTimes(2.0, 3.0).ratio == 1.5
    assert geomean([1, 4]) == pytest.approx(2)


def test_the_receipt_names_versions_threads_and_command() -> None:
    made = receipt("cpu", 3, ["onnxruntime"])
    assert made["threads"] == 1
    assert made["command"] == "vdla bench cpu --seed 3 --json -"
    assert {"numpy", "llvmlite", "onnxruntime"} <= made["versions"].keys()


@pytest.mark.parametrize(("given", "found"), [("", "."), ("..", "..")])
def test_a_folder_is_refused_as_the_result_file(given: str, found: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "cpu", "--json", given]) == 2
    assert capsys.readouterr().err == f"vdla: bench: --json must be a file, got the folder {found}\n"
