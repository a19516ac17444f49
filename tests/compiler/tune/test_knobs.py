# SPDX-License-Identifier: Apache-2.0
"""Knobs of schedule functions: their spaces, what is built for a point, wrong schedules."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from vdla.compiler import ir, te
from vdla.compiler.schedule import Schedule
from vdla.compiler.tune import Knobs, KnobTask, Space, TuneError, knob_task
from vdla.compiler.tune.searches import new_search


def rows_times_columns(knobs: Knobs) -> ir.Function:
    """A product whose rows are split, in one of two orders."""
    a, b = te.placeholder((12, 4), "float32", "a"), te.placeholder((4, 8), "float32", "b")
    k = te.reduce_axis(4, "k")
    c = te.compute((12, 8), lambda y, x: te.sum(a[y, k] * b[k, x], axis=k), "c")
    s = Schedule(te.create_function([a, b], [c], "product"))
    y, x, _ = s.loops("c")
    _, inner = knobs.split("y", extent=12, most=6)
    outer_y, inner_y = s.split(y, factor=inner)
    if knobs.choice("order", ["yx", "xy"]) == "xy":
        s.reorder(x, outer_y, inner_y)
    if knobs.flag("unroll"):
        s.unroll(inner_y)
    knobs.require(lambda columns: ~columns["unroll"] | (columns["y"] <= 3))
    return s.fn


TASK = knob_task(rows_times_columns)


def loops(function: ir.Function) -> list[int]:
    return [node.size for node in ir.walk(function.body) if isinstance(node, ir.For)]


def test_a_schedule_declares_its_space() -> None:
    assert str(TASK.space) == (
        "space rows_times_columns: 16 legal of 20 combinations\n"
        "  y: 1 2 3 4 6\n  order: yx xy\n  unroll: False True"
    )  # fmt: skip


def test_points_are_built() -> None:
    assert loops(TASK.build({"y": 4, "order": "yx", "unroll": False})) == [3, 4, 8, 4]
    assert loops(TASK.build({"y": 3, "order": "xy", "unroll": True})) == [8, 4, 3, 4]
    assert {str(TASK.build(point)) for point in TASK.space.points()} == {
        str(pickle.loads(pickle.dumps(TASK)).build(point)) for point in TASK.space.points()
    }


def test_features_are_the_values_of_the_knobs() -> None:
    assert TASK.feature_names == ("log2 y", "order is xy", "unroll is True")
    index = TASK.space.index({"y": 3, "order": "xy", "unroll": True})
    assert TASK.features(np.array([index])).tolist() == [[2.0, 1.0, 1.0]]


def test_a_search_without_an_estimate_begins_at_random() -> None:
    first = new_search("annealing", TASK, 1).propose(4)
    assert first != new_search("annealing", TASK, 2).propose(4)
    assert first == new_search("annealing", TASK, 1).propose(4)


def test_several_parts_are_all_factorisations() -> None:
    knobs = Knobs()
    assert knobs.split("y", extent=12, parts=3) == (12, 1, 1)
    space = knobs.space("parts")
    found = {Knobs(point).split("y", extent=12, parts=3) for point in space.points()}
    divisors = (1, 2, 3, 4, 6, 12)
    assert found == {(12 // (a * b), a, b) for a in divisors for b in divisors if 12 % (a * b) == 0}
    assert space.size == len(found)


def test_keys_tell_contents_and_knobs_apart() -> None:
    assert KnobTask("name", rows_times_columns, "a").key == KnobTask("other", rows_times_columns, "a").key
    assert KnobTask("name", rows_times_columns, "a").key != KnobTask("name", rows_times_columns, "b").key
    assert len(TASK.key) == 16


def error(function: object, *arguments: object, **options: object) -> str:
    with pytest.raises(TuneError) as caught:
        function(*arguments, **options)  # type: ignore[operator]
    return str(caught.value)


def test_wrong_knobs_are_one_sentence() -> None:
    assert error(Knobs().choice, "order", []) == "knob order: values must have a legal one, got none"
    assert error(Knobs().split, "y", extent=0) == "knob y: extent must be an integer from 1, got 0"
    assert error(Knobs().split, "y", extent=4, parts=1) == "knob y: parts must be an integer from 2, got 1"
    assert error(Knobs().split, "y", extent=4, most=0) == "knob y: most must be an integer from 1, got 0"
    knobs = Knobs()
    knobs.flag("keep")
    assert error(knobs.flag, "keep") == "knobs: name must be new, got keep twice"
    knobs.require(lambda columns: False)  # type: ignore[arg-type,return-value]
    assert error(knobs.space, "mine") == "space mine: a combination of keep must be legal, got none"
    assert error(Knobs().space, "mine") == "tune mine: the schedule must ask for a knob, got none"


def test_a_schedule_that_asks_for_other_knobs_is_refused() -> None:
    more = KnobTask("more", lambda knobs: knobs.flag("a") and knobs.flag("b"), "")  # type: ignore[arg-type]
    assert error(more.build, {"a": True}) == (
        "knobs: schedule must ask for the same knobs at every point, got b as well"
    )  # fmt: skip
    fewer = KnobTask("fewer", lambda knobs: knobs.flag("a") or knobs.flag("b"), "")  # type: ignore[arg-type]
    assert error(fewer.build, {"a": True, "b": False}) == (
        "knobs: schedule must ask for the same knobs at every point, got none for b"
    )
    assert isinstance(fewer.space, Space)


def test_a_schedule_must_be_a_function_with_a_source() -> None:
    assert error(knob_task, 3) == "tune: schedule must be a function of its knobs, got 3"
    namespace: dict[str, object] = {}
    exec("def made(knobs): return knobs.flag('a')", namespace)
    assert error(knob_task, namespace["made"]) == (
        "tune made: content must be given for a function without source, got none"
    )  # fmt: skip
