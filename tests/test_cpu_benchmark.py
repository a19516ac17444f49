"""The cpu benchmark: both sides compute the same, and times are taken of both."""

from __future__ import annotations

import time

import numpy as np
import pytest

from vdla.benchmarks.contest import Times, contest, geomean
from vdla.benchmarks.cpu import PARTS, receipt
from vdla.benchmarks.cpu_float import difference, measure_fused, measure_layer
from vdla.benchmarks.cpu_layers import layers, operands_of, our_layer, their_layer
from vdla.benchmarks.workloads import Workload

SMALL = [
    Workload("plain", "conv2d", 1, 9, 8, 3, 20, 3, 2, 1, ""),
    Workload("winograd", "conv2d", 1, 8, 8, 32, 32, 3, 1, 1, ""),
    Workload("depthwise", "depthwise_conv2d", 1, 9, 8, 5, 5, 3, 1, 1, ""),
]


@pytest.mark.parametrize("layer", SMALL, ids=lambda layer: layer.name)
def test_both_sides_compute_a_layer(layer: Workload) -> None:
    pytest.importorskip("onnxruntime")
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
    assert measure_fused(SMALL[0], operands_of(SMALL[0], 0)).error < 1e-6


def test_the_layers_are_those_of_the_table() -> None:
    assert [layer.name for layer in layers()] == [f"C{n}" for n in range(1, 13)] + [f"D{n}" for n in range(1, 10)]
    assert sum(steps for _, steps in PARTS) >= 2 * len(layers()) + 1


def test_a_contest_tells_slow_from_fast() -> None:
    def spin(seconds: float) -> None:
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    times = contest(lambda: spin(0.001), lambda: spin(0.004), rounds=3)
    assert times.ratio > 2
    assert Times(2.0, 3.0).ratio == 1.5
    assert geomean([1, 4]) == pytest.approx(2)


def test_the_receipt_names_what_the_figures_depend_on() -> None:
    made = receipt(3)
    assert made["threads"] == 1
    assert made["command"] == "vdla bench cpu --seed 3 --json -"
    assert {"numpy", "llvmlite", "onnxruntime"} <= made["versions"].keys()
