# SPDX-License-Identifier: Apache-2.0
"""The shipped log: the paper's operators on the presets, found by today's keys, never slower."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from helpers.toy_tuning import toy_run

import vdla
from vdla.commands.named_operators import from_workload
from vdla.compiler.operators.workloads import workload, workloads
from vdla.compiler.tune import layer_task
from vdla.hardware.config import Config
from vdla.runtime.tune.best import SHIPPED, SHIPPED_FILE, TunedSchedules
from vdla.runtime.tune.log import TrialIndex, TuningLog, read_logs
from vdla.runtime.tune.ship import shipped_text
from vdla.runtime.tune.trial import Trial
from vdla.simulator.timing import time_program

PRESETS = ("pynq_z1", "ultra96", "zcu104")
LAYERS = {"pynq_z1": ("C5", "C11", "D2"), "ultra96": ("C5", "D3", "D8"), "zcu104": ("C11", "D2", "D8")}


def test_it_has_every_layer_of_the_paper_once_for_each_machine() -> None:
    entries = [entry for found in read_logs(SHIPPED_FILE).by_key.values() for entry in found]
    machines = {f"{name} {Config.preset(name).fingerprint}" for name in PRESETS}
    wanted = {(name, machine) for name in workloads() for machine in machines}
    assert {(entry.run.name, entry.run.machine) for entry in entries} == wanted
    assert len(entries) == len(wanted)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_its_schedules_are_found_and_not_slower(preset: str) -> None:
    config, shipped = Config.preset(preset), TunedSchedules.of(SHIPPED)
    for name in LAYERS[preset]:
        layer = workload(name)
        best = shipped.best(layer_task(layer, config).key)
        assert best is not None, "make the shipped log again: docs/tuning.md"
        untuned = from_workload(layer, config, 2)
        tuned = time_program(vdla.compile(untuned, config, tuned=shipped)).total_cycles
        assert tuned == best.cost <= time_program(untuned.program).total_cycles


def test_the_best_trial_of_each_task_is_shipped(tmp_path: Path) -> None:
    with TuningLog(tmp_path / "log.jsonl") as log:
        for name, costs in (("C10", (3.0, 2.0)), ("C2", (5.0, float("inf")))):
            run = replace(toy_run(), name=name, key=name)
            for place, cost in enumerate(costs):
                log.append(run, Trial({"a": place}, cost, "cycles"))
        log.append(replace(toy_run(), name="C3", key="C3"), Trial.failed({"a": 1}, "cycles", "no"))
    (tmp_path / "shipped.jsonl").write_text(shipped_text(read_logs(tmp_path / "log.jsonl")))
    index: TrialIndex = read_logs(tmp_path / "shipped.jsonl")
    found = [(key, entry.trial.point, entry.trial.cost) for key, (entry,) in index.by_key.items()]
    assert found == [("C2", {"a": 0}, 5.0), ("C10", {"a": 1}, 2.0)]
