# SPDX-License-Identifier: Apache-2.0
"""The benchmark of placements, on a few layers of each kind, and its oracle."""

from __future__ import annotations

import sys

import pytest

from vdla.benchmarks import placement
from vdla.benchmarks.placement import measure, printed_time
from vdla.benchmarks.placement_layers import PlacementLayer, depthwise, placement_layers
from vdla.compiler.graph.accelerator import CpuModel, board_cpu, candidates, choose, seconds_of
from vdla.hardware.config import Config
from vdla.simulator.timing import time_program

LAYERS = {layer.kind: layer for layer in placement_layers()}  # the last of each kind
FAST = CpuModel("fast", 2e11, 8e9, 2e-5, "made up")


def test_there_are_thirteen_kinds_and_more_than_150_layers() -> None:
    layers = list(placement_layers())
    assert len({layer.kind for layer in layers}) == len(LAYERS) == 13
    assert len(layers) >= 150 and len({(layer.kind, layer.shape) for layer in layers}) == len(layers)


@pytest.mark.parametrize("preset", ["pynq_z1", "tiny"])
@pytest.mark.parametrize("kind", ["signal", "averages", "addition", "matmul"])
def test_layers_run_where_exact_cycles_say(kind: str, preset: str) -> None:
    config = Config.preset(preset)
    row = measure(LAYERS[kind], config, (board_cpu(config), FAST))
    assert row["wrong_device"] == 0 and row["error"] < 0.1


def test_an_estimate_that_is_wrong_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Untimed, a machine that waits for its memory gets a layer that is faster on the CPU."""
    config = Config.preset("tiny")
    layer = PlacementLayer("depthwise", "", depthwise((1, 8, 7, 7), 5))
    there = time_program(candidates(layer.graph, config).calls["y"].operator.program).total_cycles
    cpu = CpuModel("about as fast", 1e15, 1e15, 0.7 * seconds_of(there, config), "made up")
    for module in (sys.modules[choose.__module__], placement):
        monkeypatch.setattr(module, "PROGRAM_SECONDS", 0.0)
        monkeypatch.setattr(module, "handover_seconds", lambda layout, cpu: 0.0)
    assert measure(layer, config, (cpu,))["wrong_device"] == 0
    choose_untimed = lambda *arguments, count_cycles: choose(*arguments)  # noqa: E731
    monkeypatch.setattr(placement, "choose", choose_untimed)
    assert measure(layer, config, (cpu,))["wrong_device"] == 1


def test_the_printed_time_of_a_layer_on_the_cpu_is_that_of_its_reason() -> None:
    config = Config.preset("pynq_z1")
    graph = depthwise((1, 8, 7, 7), 3)
    choice = choose(graph, config, candidates(graph, config), FAST)
    assert choice.decisions["y"].device == "cpu"
    printed = printed_time(graph, config, choice, alone=1.0).printed
    assert f"got {1e3 * printed:.3g} ms on the accelerator" in choice.decisions["y"].reason
