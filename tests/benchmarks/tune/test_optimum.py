# SPDX-License-Identifier: Apache-2.0
"""Optima: small spaces are measured whole and once; others by the log or the lowest estimates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vdla.benchmarks.mapped_layers import MappedLayer, mapped_layers
from vdla.benchmarks.tune import optimum as module
from vdla.benchmarks.tune.optimum import Optimum, optimum, optimum_figures
from vdla.benchmarks.tune.pool import simulated_cost
from vdla.compiler.operators import definitions
from vdla.compiler.operators.least_cycles import LeastCycles
from vdla.compiler.templates import dense
from vdla.compiler.tune import Point, TuningTask, template_task
from vdla.hardware.config import Config
from vdla.hardware.isa import COUNTERS
from vdla.runtime.tune.best import TunedSchedules
from vdla.runtime.tune.log import TrialIndex
from vdla.runtime.tune.measurer import SimMeasurer
from vdla.runtime.tune.workers import InlineWorkers
from vdla.simulator.timing import time_program

TINY = Config.preset("tiny")
SHAPE = {"rows": 2, "in_features": 4, "out_features": 8}
NOTHING = TunedSchedules(TrialIndex())
LEAST = LeastCycles(compute=4, reads=2, writes=3)
LAYER = MappedLayer(
    name="product",
    template=lambda config: dense(config, **SHAPE),
    definition=lambda config: definitions.dense(**SHAPE, raw=False),
    task=lambda config: template_task(dense, config, **SHAPE),
    bound=lambda config: 4,
    least=lambda config: LEAST,
)


class PlannedMeasurer(SimMeasurer):
    """A cost of 10 for one point, more for the others; `points` were measured."""

    points: int = 0

    def measure(self, task: TuningTask, point: Point) -> float:
        PlannedMeasurer.points += 1
        return 10.0 + (task.space.index(point) - 9) % task.space.size


def test_a_small_space_is_measured_whole_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(PlannedMeasurer, "points", 0)
    size, workers = LAYER.task(TINY).space.size, InlineWorkers(PlannedMeasurer())
    found = optimum(LAYER, TINY, NOTHING, workers)
    assert (found.space, found.measured, found.failed, found.best) == (size, size, 0, 10)
    assert optimum(LAYER, TINY, NOTHING, workers) == found
    assert PlannedMeasurer.points == size, "the second time, from the log"
    row = found.row
    assert (row["best_over_least"], row["limited_by"]) == (round(found.best / 4, 4), "compute")
    assert row["cause"] in COUNTERS
    assert row["untuned_over_best"] == round(found.untuned / found.best, 4) >= 1


def test_of_a_larger_space_the_lowest_estimates_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(module, "TRIALS", 3)
    task = LAYER.task(TINY)
    found = optimum(LAYER, TINY, NOTHING, InlineWorkers(SimMeasurer()), most=10)
    first = np.argsort(task.estimate(np.arange(task.space.size)), kind="stable")[: found.measured]
    assert found.measured == 3 < found.space
    untuned = time_program(LAYER.template(TINY).program).total_cycles
    assert found.best == min(untuned, *(simulated_cost(task, task.space.point(int(index))) for index in first))


def test_the_figures_count_spaces_that_were_measured_whole() -> None:
    whole = Optimum(
        layer="a", machine="tiny", space=9, measured=9, failed=0, untuned=105, best=100, least=LEAST, cause="idle"
    )
    part = replace(whole, measured=3, failed=1, untuned=200, least=LeastCycles(compute=99, reads=100, writes=9))
    assert optimum_figures([whole, part]) == {
        "optima": 1, "near_least": 0.5, "below_least": 0, "optimum_failed": 1, "untuned_over_optimum": 1.05
    }  # fmt: skip
    assert (whole.row["cause"], part.row["cause"], part.row["limited_by"]) == ("idle", "", "reads")
    assert optimum_figures([part])["untuned_over_optimum"] == 1.0


@pytest.mark.parametrize("preset", ["pynq_z1", "zcu104"])
def test_no_program_of_a_layer_is_below_its_bound(preset: str) -> None:
    config = Config.preset(preset)
    layers = {layer.name: layer for layer in mapped_layers()}
    for name in ("dense 1 x 512 x 1000", "average pooling 7x7", "residual 7x7"):
        cycles = time_program(layers[name].template(config).program).total_cycles
        assert max(layers[name].bound(config), layers[name].least(config).cycles) <= cycles
        assert layers[name].task(config).name == name


@pytest.mark.parametrize(("name", "most"), [("C2", 0.003), ("C6", 0.003), ("D1", 0.02), ("CT1", 0.03)])
def test_long_layers_are_near_the_least_and_not_below(name: str, most: float) -> None:
    """Steps of the GEMM, of the vector unit, bytes read: a bound that is 3 % too high fails."""
    config = Config.preset("pynq_z1")
    layer = next(layer for layer in mapped_layers() if layer.name == name)
    cycles = time_program(layer.template(config).program).total_cycles
    assert 0 <= layer.least(config).gap(cycles) <= most
