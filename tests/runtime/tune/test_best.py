# SPDX-License-Identifier: Apache-2.0
"""Best known schedules: by the content of the operator, never with more threads than asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import vdla
from vdla.compiler.operators.vdla.operator import chosen_options
from vdla.compiler.templates import conv2d
from vdla.compiler.tune import Point, VdlaTask, template_task
from vdla.hardware.config import Config
from vdla.runtime.tune.best import TunedSchedules
from vdla.runtime.tune.log import TaskRun, TuningLog
from vdla.runtime.tune.measurer import DeviceMeasurer, SimMeasurer
from vdla.runtime.tune.trial import Trial, TuningError
from vdla.simulator.timing import time_program

TINY = Config.preset("tiny")
SHAPE = {"batch": 1, "height": 6, "width": 6, "in_channels": 8, "out_channels": 8, "kernel": 3, "pads": 1}


@pytest.fixture(scope="module")
def task() -> VdlaTask:
    return template_task(conv2d, TINY, **SHAPE)


def logged(path: Path, task: VdlaTask, *points: Point) -> TunedSchedules:
    """The schedules of a log that has these points, the last one cheapest."""
    run = TaskRun(task.key, task.name, TINY.name, task.space.name, "given", 0)
    with TuningLog(path) as log:
        for number, point in enumerate(points):
            log.append(run, Trial(point, float(100 - number), "cycles"))
        log.append(run, Trial.failed(points[0], "cycles", "no"))
    return TunedSchedules.of(path)


def sampled(task: VdlaTask, threads: int) -> Point:
    """A point with so many virtual threads, of another cost than the template's choice."""
    rng, own = np.random.default_rng(0), conv2d(TINY, **SHAPE).program
    points = (point for point in task.space.sample(rng, 500) if point["threads"] == threads)
    return next(point for point in points if len(task.build(point)) != len(own))


def test_a_template_takes_the_best_known_tiles(tmp_path: Path, task: VdlaTask) -> None:
    point = sampled(task, 2)
    schedules = logged(tmp_path / "log.jsonl", task, sampled(task, 1), point)
    with chosen_options(schedules.options):
        operator = conv2d(TINY, **SHAPE, name="other", strides=(1, 1))
        unknown = conv2d(TINY, **{**SHAPE, "height": 7})
    assert np.array_equal(operator.program.words, task.build(point).words)
    assert schedules.used == ["other"]
    assert unknown.description == conv2d(TINY, **{**SHAPE, "height": 7}).description


def test_of_points_that_are_as_good_one_is_taken_whatever_trial_ended_first(tmp_path: Path, task: VdlaTask) -> None:
    run = TaskRun(task.key, task.name, TINY.name, task.space.name, "given", 0)
    alike = [{**sampled(task, 2), "keep_weights": kept} for kept in (True, False)]
    for number, points in enumerate((alike, alike[::-1])):
        with TuningLog(tmp_path / f"{number}.jsonl") as log:
            for point in points:
                log.append(run, Trial(point, 100.0, "cycles"))
        best = TunedSchedules.of(tmp_path / f"{number}.jsonl").best(task.key)
        assert best is not None and best.point == alike[1]


def test_a_log_from_before_strips_is_used(tmp_path: Path, task: VdlaTask) -> None:
    point = {**sampled(task, 2), "strips": 1}
    older = {knob: value for knob, value in point.items() if knob != "strips"}
    assert task.of_log(older) == point
    with chosen_options(logged(tmp_path / "log.jsonl", task, older).options):
        assert np.array_equal(conv2d(TINY, **SHAPE).program.words, task.build(point).words)


def test_the_untuned_choice_stays_where_no_trial_is_better(tmp_path: Path, task: VdlaTask) -> None:
    path, own = tmp_path / "log.jsonl", conv2d(TINY, **SHAPE)
    logged(path, task, sampled(task, 2))
    for cost, used in ((100.0, []), (101.0, ["conv2d"])):
        with TuningLog(path) as log:
            log.append_untuned(TaskRun(task.key, task.name, TINY.name, task.space.name, "given", 0), cost, "cycles")
        schedules = TunedSchedules.of(path)
        with chosen_options(schedules.options):
            operator = conv2d(TINY, **SHAPE)
        assert schedules.used == used
        assert (operator.description == own.description) == (not used)
        path.write_text("".join(line for line in path.read_text().splitlines(True) if '"untuned"' not in line))


def test_more_virtual_threads_than_the_default_are_taken(tmp_path: Path, task: VdlaTask) -> None:
    schedules = logged(tmp_path / "log.jsonl", task, sampled(task, 4))
    with chosen_options(schedules.options):
        operator = conv2d(TINY, **SHAPE)
    assert operator.description.endswith("4 virtual threads over " + str(sampled(task, 4)["threads_over"]))


def test_fewer_virtual_threads_than_the_default_are_kept(tmp_path: Path, task: VdlaTask) -> None:
    schedules = logged(tmp_path / "log.jsonl", task, sampled(task, 2))
    with chosen_options(schedules.options):
        one = conv2d(TINY, **SHAPE, virtual_threads=1)
    assert not schedules.used
    assert one.description == conv2d(TINY, **SHAPE, virtual_threads=1).description


def test_compile_takes_a_log(tmp_path: Path, task: VdlaTask) -> None:
    point, operator = sampled(task, 2), conv2d(TINY, **SHAPE)
    logged(tmp_path / "log.jsonl", task, point)
    program = vdla.compile(operator, "tiny", tuned=tmp_path / "log.jsonl")
    assert np.array_equal(program.words, task.build(point).words)
    assert not np.array_equal(program.words, vdla.compile(operator, "tiny").words)
    with pytest.raises(vdla.Error) as raised:
        vdla.compile(operator.function, "tiny", tuned="log.jsonl")
    assert str(raised.value) == "compile: tuned must be left out for all but templates and models, got 'log.jsonl'"
    with pytest.raises(vdla.Error) as raised:
        vdla.compile(operator.function, "host", tuned="log.jsonl")
    assert str(raised.value) == "compile: tuned must be left out for the CPU host, got 'log.jsonl'"
    with pytest.raises(vdla.Error) as raised:
        vdla.compile(operator, "tiny", tuned=5)  # type: ignore[arg-type]
    assert str(raised.value) == "tuned: log must be a path, shipped or TunedSchedules, got 5"


def test_a_device_that_does_not_open_measures_nothing(task: VdlaTask) -> None:
    assert DeviceMeasurer("sim").missing(task) == ""
    assert DeviceMeasurer("nope").missing(task).startswith("device: name must be one of sim, rtl, pynq, got nope")


def test_simulator_and_device_measure_the_same_cycles(task: VdlaTask) -> None:
    point = sampled(task, 2)
    cycles = time_program(task.build(point)).total_cycles
    assert SimMeasurer().measure(task, point) == DeviceMeasurer("sim").measure(task, point) == cycles


def test_a_point_of_no_space_is_refused(tmp_path: Path, task: VdlaTask) -> None:
    schedules = logged(tmp_path / "log.jsonl", task, {"threads": 1})
    with pytest.raises(TuningError) as raised, chosen_options(schedules.options):
        conv2d(TINY, **SHAPE)
    assert str(raised.value) == "tune conv2d: a logged point must be one of its space, got {'threads': 1}"
