# SPDX-License-Identifier: Apache-2.0
"""Explorations: machines of a sweep, rejections, the front, resuming from a log."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import vdla
from vdla.hardware.config import Config
from vdla.hardware.fpga.parts import PARTS
from vdla.runtime.studies.exploration import Exploration
from vdla.runtime.studies.explore import explore
from vdla.runtime.studies.layers import layer_of
from vdla.runtime.studies.sweep import ExploreError, machine_of, on_front
from vdla.runtime.studies.sweep_task import MachineMeasurer, sweep_task
from vdla.runtime.tune.workers import InlineWorkers

TINY = Config.preset("tiny")
LAYER = layer_of("dense", vdla.definitions.dense(rows=32, in_features=32, out_features=32).output)
PART = PARTS["xc7z020"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No outcome of an earlier run."""
    monkeypatch.setattr("vdla.runtime.studies.layer_cycles.user_cache", lambda kind: tmp_path / kind)


def explored(tmp_path: Path, values: dict[str, Any], **options: Any) -> Exploration:
    workers = InlineWorkers(MachineMeasurer())
    return explore([LAYER], TINY, values, part=PART, workers=workers, log=tmp_path / "log.jsonl", **options)


def test_wider_machines_take_fewer_cycles_and_more_area(tmp_path: Path) -> None:
    found = explored(tmp_path, {"block_in": [4, 8], "block_out": [8, 16]})
    by_size = {tuple(machine.point.values()): machine for machine in found.measured}
    small, large = by_size[4, 8], by_size[8, 16]
    assert small.cycles is not None and large.cycles is not None and large.cycles < small.cycles
    assert small.area is not None and large.area is not None and large.area.usage.lut > small.area.usage.lut
    assert small in found.front and large in found.front
    assert large.frames_per_second == pytest.approx(50e6 / large.cycles)
    assert [machine.frames_per_second for machine in found.measured] == sorted(
        (machine.frames_per_second for machine in found.measured), reverse=True
    )


def test_what_cannot_be_or_has_no_room_is_rejected_with_the_reason(tmp_path: Path) -> None:
    found = explored(tmp_path, {"block_in": [2, 4], "wgt_kib": [1, 2048]})
    reasons = {tuple(machine.point.values()): machine.reason for machine in found.machines}
    assert reasons[4, 1] == ""
    assert reasons[4, 2048] == "xc7z020 has 140 bram36, needed are 513"
    text = "config tiny: an entry of the inp buffer must be a whole number of 32-bit AXI beats, got 16 bits"
    assert reasons[2, 1] == reasons[2, 2048] == text
    assert [tuple(machine.point.values()) for machine in found.measured] == [(4, 1)]


def test_a_sweep_goes_on_from_its_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"block_out": [4, 8], "dram.read_latency": [10, 40]}
    assert len(explored(tmp_path, values, trials=2).measured) == 2
    calls = []
    measure = MachineMeasurer.measure
    monkeypatch.setattr(MachineMeasurer, "measure", lambda *given: calls.append(given) or measure(*given))
    assert len(explored(tmp_path, values).measured) == 4
    assert len(calls) == 2


def test_a_machine_that_cannot_run_a_layer_says_why(tmp_path: Path) -> None:
    pooling = vdla.definitions.pooling(batch=1, channels=4, size=(4, 4), kernel=2, kind="max").output
    unknown = layer_of("third", vdla.te.compute((4,), lambda i: vdla.te.placeholder((4,), "int32", "x")[i] // 3, "y"))
    workers = InlineWorkers(MachineMeasurer())
    layers = [layer_of("pooling", pooling), unknown]
    found = explore(layers, TINY, {"block_in": [4]}, part=PART, workers=workers, log=tmp_path / "log.jsonl")
    assert found.machines[0].reason.startswith("evaluate: the machine must run layer third, got none; gemm, ")


def test_the_front_has_what_nothing_beats() -> None:
    assert on_front([(1, 5), (2, 4), (2, 5), (3, 1), (1, 5)]) == [True, True, False, True, True]


def test_a_machine_of_a_point_has_its_dram_and_extensions(tmp_path: Path) -> None:
    source = tmp_path / "own.py"
    source.write_text(
        "import vdla\nfrom vdla import te\n\n\ndef declare(config):\n"
        '    old = te.placeholder((config.batch, config.block_out), "int32", "old")\n'
        '    out = te.compute(old.shape, lambda b, o: te.abs(old[b, o]), "acc")\n'
        '    scopes = {"old": "acc", "acc": "acc"}\n'
        '    return vdla.Extension(name="own", doc="Absolute.", output=out, scopes=scopes, in_place="old")\n'
    )
    made = machine_of(TINY, [], {"dram.read_latency": 7, "extensions": str(source), "block_in": 8})
    assert made.config.dram.read_latency == 7 and made.config.block_in == 8
    assert [plug_in.name for plug_in in made.config.extensions] == ["own"]
    assert made.sources == (str(source),)
    assert machine_of(TINY, [], {"extensions": "none"}).config == TINY


def test_a_task_travels_to_other_processes(tmp_path: Path) -> None:
    from vdla.compiler.tune import Knob, Space

    task = sweep_task(TINY, [], [LAYER], Space("s", (Knob("block_in", (4, 8)),)), "layers")
    assert pickle.loads(pickle.dumps(task)).key == task.key
    with pytest.raises(ExploreError, match=r"^explore layers: a point must be measured by MachineMeasurer, got "):
        task.build({"block_in": 4})


@pytest.mark.parametrize(
    ("values", "options", "text"),
    [
        ({}, {}, "explore: sweep must have a field, got none"),
        ({"block": [4]}, {}, "explore: field must be one of batch, block_in, "),
        ({"block_in": [4]}, {"search": "annealing"}, "explore: search must be one of exhaustive, random, estimate, "),
        ({"block_in": [3]}, {}, "explore: a machine of the sweep must fit xc7z020, got none; config tiny: block_in "),
        ({"batch": range(1000), "block_in": range(1000)}, {}, "explore: sweep must have at most 100,000 combinations"),
    ],
)
def test_bad_sweeps_are_refused(values: Any, options: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(ExploreError, match=f"^{text}"):
        explored(tmp_path, values, **options)
