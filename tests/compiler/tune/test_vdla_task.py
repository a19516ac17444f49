# SPDX-License-Identifier: Apache-2.0
"""Tasks of the accelerator: their spaces, programs and keys; pickled tasks build the same."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from vdla.compiler.operators import definitions
from vdla.compiler.operators.vdla.tile_busiest_unit import busiest_unit
from vdla.compiler.operators.vdla.tile_candidates import Candidates, estimated
from vdla.compiler.operators.vdla.tile_rates import steps_of
from vdla.compiler.operators.vdla.tile_timeline import timeline
from vdla.compiler.operators.vdla.tiling import best_tiling, fits
from vdla.compiler.operators.vdla.tiling_problem import STRIPS
from vdla.compiler.templates import Tiling, conv2d, depthwise_conv2d
from vdla.compiler.tune import TuneError, VdlaTask, expression_task, template_task, vdla_estimate
from vdla.compiler.tune.vdla_forms import MappedForm
from vdla.compiler.tune.vdla_space import candidates_of, tiling_of
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, columns
from vdla.simulator.timing import time_program

TINY, PYNQ = Config.preset("tiny"), Config.preset("pynq_z1")
SHAPE = {"batch": 1, "height": 6, "width": 5, "in_channels": 8, "out_channels": 8, "kernel": 3, "pads": 1}


def expression(channels: int = 8, config: Config = TINY) -> VdlaTask:
    definition = definitions.convolution(
        batch=1, in_channels=channels, out_channels=8, size=(6, 5), kernel=3, strides=1, pads=1, raw=False
    )
    return expression_task(definition.output, config)


def test_the_points_of_a_template_are_the_tilings_that_fit() -> None:
    task = template_task(conv2d, TINY, **SHAPE)
    problem = task.forms["channels"].problem
    tilings = {tiling_of(point) for point in task.space.points()}
    assert len(tilings) == task.space.size
    assert all(fits(TINY, problem, tiling) for tiling in tilings)
    names = ("rows", "cols", "out_blocks", "in_blocks")
    sizes = [range(1, getattr(problem, name) + 1) for name in names]
    whole = tuple(getattr(problem, name) for name in names)
    wanted = set()
    for *size, keep, by_blocks in product(*sizes, (False, True), (False, True)):
        if size[3] == problem.in_blocks and tuple(size) != whole:
            continue  # the innermost loop that iterates is another one
        if by_blocks and size[3] == 1:
            continue  # the chunk is a block
        tiling = Tiling(*size, keep_weights=keep, threads=1, threads_over="chunks", by_blocks=by_blocks)
        wanted |= {replace(tiling, strips=strips) for strips in STRIPS if size[0] % strips == 0}
    found = {tiling for tiling in tilings if tiling.threads == 1 and tiling.threads_over == "chunks"}
    assert found == {tiling for tiling in wanted if fits(TINY, problem, tiling)}


def test_the_untuned_choice_is_a_point() -> None:
    task = template_task(conv2d, TINY, **SHAPE)
    problem = task.forms["channels"].problem
    points = [tiling_of(point) for point in task.space.points()]
    assert {best_tiling(TINY, problem, threads) for threads in (1, 2, 3)} <= set(points)


def test_the_untuned_choice_is_a_point_where_one_tile_is_all() -> None:
    task = template_task(depthwise_conv2d, TINY, batch=1, height=2, width=2, channels=4, kernel=1)
    problem = task.forms["template"].problem
    points = [tiling_of(point) for point in task.space.points()]
    untuned = best_tiling(TINY, problem, 2)
    assert (untuned.rows, untuned.cols, untuned.threads) == (2, 2, 1)
    assert replace(untuned, threads_over="cols") in points  # no loop iterates: it does not matter which


def test_equal_keys_are_equal_programs_but_for_numbers_in_fields() -> None:
    first = template_task(conv2d, TINY, **SHAPE, activation="relu", zero_point=3, input_zero_point=-5)
    second = template_task(conv2d, TINY, **{**SHAPE, "kernel": (3, 3)}, ceiling=40, input_zero_point=7, name="other")
    assert first.key == second.key
    assert first.key != template_task(conv2d, TINY, **SHAPE).key
    opcodes = [columns(TINY, task.build(first.space.point(7)).words)[:, COL["opcode"]] for task in (first, second)]
    assert np.array_equal(*opcodes)


def test_a_template_has_the_layouts_that_fit() -> None:
    few = template_task(conv2d, TINY, **{**SHAPE, "in_channels": 2})
    assert few.space.knobs[0].values == ("channels", "patches")
    assert template_task(conv2d, TINY, **SHAPE).space.knobs[0].values == ("channels",)
    depthwise = template_task(depthwise_conv2d, TINY, batch=1, height=6, width=5, channels=8, kernel=3)
    assert depthwise.space.knobs[0].values == ("template",)


@pytest.mark.parametrize("task", [template_task(conv2d, TINY, **SHAPE), expression()], ids=["template", "expression"])
def test_a_pickled_task_builds_the_same_program(task: VdlaTask) -> None:
    again = pickle.loads(pickle.dumps(task))
    assert again.key == task.key
    for point in task.space.sample(np.random.default_rng(1), 2):
        assert again.build(point).hash == task.build(point).hash


@pytest.mark.parametrize("kind", ["template", "expression", "depthwise"])
def test_the_draft_of_a_point_is_its_program(kind: str) -> None:
    options = {"batch": 1, "height": 7, "width": 5, "kernel": 3, "strides": 2, "pads": 1}
    tasks = {
        "template": template_task(conv2d, TINY, **options, in_channels=12, out_channels=20),
        "expression": expression(channels=12),
        "depthwise": template_task(depthwise_conv2d, TINY, **options, channels=12),
    }
    for point in tasks[kind].space.sample(np.random.default_rng(7), 6):
        built = tasks[kind].build(point).hash
        assert tasks[kind].draft(point).hash == built
        if kind == "template":
            alone = conv2d(
                TINY, **options, in_channels=12, out_channels=20, packing=point["form"], tiling=tiling_of(point)
            )
            assert alone.program.hash == built


def test_the_best_are_estimated_by_a_run_and_others_in_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vdla_estimate, "_RUN", 0)
    monkeypatch.setattr(vdla_estimate, "_RUN_OF_FORM", 5)
    task = expression(channels=16, config=PYNQ)
    columns = task.space.columns(np.arange(task.space.size))
    estimates = task.estimate(np.arange(task.space.size))
    for label, form in task.forms.items():
        assert isinstance(form, MappedForm)
        chosen = columns["form"] == label
        tiles = candidates_of({name: column[chosen] for name, column in columns.items()})
        closed, busy = (of(PYNQ, form.problem, tiles) for of in (estimated, busiest_unit))
        best = {*np.argsort(closed, kind="stable")[:5].tolist(), *np.argsort(busy, kind="stable")[:5].tolist()}
        looks_best = np.isin(np.arange(len(tiles)), list(best))
        assert steps_of(form.problem, tiles).max() <= 400
        run = timeline(PYNQ, form.problem, tiles.take(looks_best))
        expected = max(1.0, np.median(run) / closed[~looks_best].min()) * closed  # others follow the better half
        expected[looks_best] = run
        assert np.array_equal(estimates[chosen], expected + form.operator.extra_cycles)
        assert task.overhead(task.space.point(int(chosen.argmax()))) == form.operator.extra_cycles


def test_a_closed_form_that_is_far_too_low_does_not_put_points_first() -> None:
    """On a machine of batches, the windows of a grouped convolution take three times as long."""
    shape = {"batch": 1, "height": 28, "width": 28, "in_channels": 64, "out_channels": 64, "kernel": 3, "pads": 1}
    task = template_task(conv2d, Config.preset("batch4"), strides=2, groups=16, **shape)
    first = int(task.estimate(np.arange(task.space.size)).argmin())
    cycles = time_program(task.draft(task.space.point(first))).total_cycles
    assert cycles <= 1.02 * time_program(conv2d(task.config, strides=2, groups=16, **shape).program).total_cycles


def test_points_whose_run_takes_long_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vdla_estimate, "_MOST_STEPS", 4)
    task = template_task(conv2d, PYNQ, **{**SHAPE, "in_channels": 32, "out_channels": 32})
    (form,) = task.forms.values()
    tiles = candidates_of(task.space.columns(np.arange(task.space.size)))
    estimates, short = task.estimate(np.arange(task.space.size)), steps_of(form.problem, tiles) <= 4
    assert np.array_equal(estimates[short], timeline(PYNQ, form.problem, tiles)[short])
    assert np.median(estimates[short]) <= estimates[~short].min()


def test_estimates_do_not_depend_on_the_other_points() -> None:
    task = expression(channels=16, config=PYNQ)
    chosen = task.space.sample_indices(np.random.default_rng(0), 9)
    assert np.array_equal(task.estimate(chosen), task.estimate(np.arange(task.space.size))[chosen])


def test_estimates_are_in_closed_form_where_the_memory_cannot_be_kept_busy() -> None:
    slow = replace(TINY, name="slow", dram=replace(TINY.dram, read_latency=2000))
    task = template_task(conv2d, slow, **SHAPE)
    (form,) = task.forms.values()
    for index in (0, task.space.size - 1):
        tile = Candidates.of(tiling_of(task.space.point(index)))
        assert task.estimate(np.array([index])) == estimated(slow, form.problem, tile)


def test_keys_tell_operators_and_machines_apart() -> None:
    key = expression().key
    assert len(key) == 16
    assert key == expression().key
    assert key != expression(channels=7).key
    other = replace(TINY, dram=replace(TINY.dram, read_latency=99))
    assert key != VdlaTask("conv", other, expression().source).key
    assert key == VdlaTask("conv", replace(TINY, name="mine"), expression().source).key


def test_tiles_are_left_to_the_tuner() -> None:
    with pytest.raises(TuneError) as caught:
        template_task(conv2d, TINY, virtual_threads=2, **SHAPE)
    assert str(caught.value) == "tune conv2d: virtual_threads must be left to the tuner, got 2"


def test_points_of_other_types_are_refused() -> None:
    point = dict(template_task(conv2d, TINY, **SHAPE).space.point(0))
    with pytest.raises(TuneError) as caught:
        tiling_of({**point, "rows": "2"})
    assert str(caught.value) == "tiling: rows must be a int, got '2'"
