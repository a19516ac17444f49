# SPDX-License-Identifier: Apache-2.0
"""Schedule functions with knobs: the best program on the simulator, the best kernel of this CPU."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

import vdla
from vdla.compiler import ir, te
from vdla.compiler.schedule import Schedule
from vdla.compiler.templates import conv2d
from vdla.compiler.tune import Built, Knobs, TuneError, TuningTask
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.tune import schedule_function
from vdla.runtime.tune.confirm import confirmed_in
from vdla.runtime.tune.cpu_measurer import CpuMeasurer
from vdla.runtime.tune.measurer import Measurer
from vdla.runtime.tune.schedule_function import TunedKnobs, tune_schedule
from vdla.runtime.tune.trial import TuningError
from vdla.runtime.tune.workers import InlineWorkers
from vdla.simulator.timing import time_program


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trials without workers, of one short round."""

    def inline(task: TuningTask, measurer: Measurer) -> InlineWorkers:
        workers = InlineWorkers(measurer)
        workers.begin(task)
        return workers

    short = CpuMeasurer(rounds=1, round_s=1e-6)
    monkeypatch.setattr(schedule_function, "LocalWorkers", lambda measurer, count, timeout_s: InlineWorkers(measurer))
    monkeypatch.setattr(schedule_function, "CpuMeasurer", lambda: short)
    monkeypatch.setattr(schedule_function, "confirmed_in", partial(confirmed_in, measurer=short, make_workers=inline))


def layer(knobs: Knobs) -> Program:
    """A convolution with one or two virtual threads, in either layout of its blocks."""
    packing = knobs.choice("packing", ["patches", "channels"])
    return conv2d(
        Config.preset("tiny"),
        batch=1,
        height=4,
        width=4,
        in_channels=8,
        out_channels=8,
        kernel=3,
        packing=packing,
        virtual_threads=knobs.choice("threads", [2, 1]),
    ).program


def rows(knobs: Knobs) -> ir.Function:
    """Twice the elements of a matrix, in parts of its rows."""
    x = te.placeholder((4, 16), "float32", "x")
    s = Schedule(te.create_function([x], [te.compute((4, 16), lambda i, j: x[i, j] * 2, "y")], "rows"))
    i, j = s.loops("y")
    s.split(i, factor=knobs.split("part", extent=4)[1])
    if knobs.flag("lanes"):
        s.vectorize(j)
    return s.fn


def other_results(knobs: Knobs) -> ir.Function:
    """A matrix times a knob."""
    x = te.placeholder((4,), "float32", "x")
    factor = knobs.choice("factor", [2, 3])
    return te.create_function([x], [te.compute((4,), lambda i: x[i] * factor, "y")], "scaled")


def without_values(knobs: Knobs) -> Built:
    knobs.choice("order", [])
    raise AssertionError


def nothing(knobs: Knobs) -> None:
    knobs.flag("keep")


def tuned(schedule: object, folder: Path, trials: int = 16) -> TunedKnobs:
    return tune_schedule(schedule, folder / "log.jsonl", trials=trials, search="exhaustive")  # type: ignore[arg-type]


def test_the_program_of_fewest_cycles_is_found(tmp_path: Path) -> None:
    found = tuned(layer, tmp_path)
    cycles = [
        time_program(layer(Knobs({"packing": packing, "threads": threads}))).total_cycles
        for packing in ("patches", "channels")
        for threads in (2, 1)
    ]
    assert [trial.cost for trial in found.report.trials] == cycles
    assert (found.cost, found.default_cost, found.unit) == (min(cycles), cycles[0], "cycles")
    assert found.speedup == cycles[0] / min(cycles) > 1
    assert isinstance(found.built, Program) and found.built.hash == layer(Knobs(found.point)).hash
    assert tuned(layer, tmp_path).report.reused == 4


def test_a_kernel_is_found_and_runs(tmp_path: Path) -> None:
    found = tuned(rows, tmp_path)
    assert found.report.trials[0].point == {"part": 1, "lanes": False}
    assert (len(found.report.trials), found.report.failed, found.unit) == (6, 0, "seconds")
    assert found.speedup >= 1
    x = np.arange(64, dtype=np.float32).reshape(4, 16)
    np.testing.assert_array_equal(vdla.compile(found.built, "host")(x), 2 * x)
    again = tuned(rows, tmp_path)
    assert (again.report.reused, again.point, again.cost) == (6, found.point, found.cost)


def test_values_that_change_results_are_not_taken(tmp_path: Path) -> None:
    found = tuned(other_results, tmp_path)
    assert found.point == {"factor": 2}
    (error,) = [trial.error for trial in found.report.trials if trial.error]
    assert error.startswith("tune other_results: results must be within 1e-05 of the largest, got a difference of")


def test_wrong_schedules_are_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TuneError, match=r"^knob order: values must have a legal one, got none$"):
        tuned(without_values, tmp_path)
    with pytest.raises(TuneError) as raised:
        tuned(nothing, tmp_path)
    text = "tune nothing: schedule must return a Program or the function of a Schedule, got NoneType"
    assert str(raised.value) == text
    monkeypatch.setattr(rows, "__module__", "__main__")
    with pytest.raises(TuningError) as refused:
        tuned(rows, tmp_path)
    rule = "schedule must be in a module, which processes can import"
    assert str(refused.value) == f"tune rows: {rule}, got a function of __main__"
    assert not list(tmp_path.iterdir())
