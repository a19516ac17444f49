# SPDX-License-Identifier: Apache-2.0
"""Spaces: counted, enumerated, sampled, walked, printed; points that are not legal."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from vdla.compiler.tune import Knob, Space, TuneError
from vdla.compiler.tune.space import Columns

SIZES = Knob("y", (1, 2, 4, 8))
OTHER = Knob("x", (1, 2, 4))
ORDER = Knob("order", ("yx", "xy"))


def small(columns: Columns) -> np.ndarray:
    """Whether a tile is small."""
    return np.asarray(columns["y"] * columns["x"] <= 8)


@pytest.fixture
def space() -> Space:
    return Space.where("tiles", [SIZES, OTHER, ORDER], small)


def test_points_are_the_legal_combinations_in_order(space: Space) -> None:
    wanted = [
        {"y": y, "x": x, "order": order} for y in SIZES.values for x in OTHER.values for order in ORDER.values
        if y * x <= 8
    ]  # fmt: skip
    assert list(space.points()) == wanted
    assert (space.size, space.combinations) == (18, 24)
    assert [space.index(point) for point in wanted] == list(range(18))
    assert json.loads(json.dumps(wanted[5])) == wanted[5]


def test_a_space_without_a_rule_is_all_combinations() -> None:
    space = Space("all", (SIZES, ORDER))
    assert space.size == 8
    assert [space.index(point) for point in space.points()] == list(range(8))


def test_a_sample_has_different_legal_points_and_the_seed_decides(space: Space) -> None:
    first = space.sample(np.random.default_rng(3), 7)
    assert len({space.index(point) for point in first}) == 7
    assert first == space.sample(np.random.default_rng(3), 7)
    assert first != space.sample(np.random.default_rng(4), 7)
    assert sorted(map(space.index, space.sample(np.random.default_rng(0), 99))) == list(range(18))


def test_mutations_change_one_knob_and_stay_legal(space: Space) -> None:
    rng = np.random.default_rng(0)
    indices = np.repeat(np.arange(space.size), 20)
    mutated = space.mutated(rng, indices)
    changed = (space.digits(mutated) != space.digits(indices)).sum(axis=1)
    assert mutated.min() >= 0
    assert set(changed.tolist()) == {1}
    lonely = Space.where("one", [SIZES], lambda columns: columns["y"] == 4)
    assert lonely.mutated(rng, np.array([0])).tolist() == [0]


def test_a_space_prints_its_size_and_its_knobs(space: Space) -> None:
    assert str(space) == (
        "space tiles: 18 legal of 24 combinations\n  y: 1 2 4 8\n  x: 1 2 4\n  order: yx xy"
    )  # fmt: skip
    long = Knob("y", tuple(range(1, 20)))
    assert str(long) == "y: 1 2 3 4 5 6 7 8 9 10 .. 19 (19 values)"
    assert str(Knob("form", ("short", "a label of many characters"))) == (
        "form:\n    short\n    a label of many characters"
    )  # fmt: skip


def test_a_space_can_be_pickled(space: Space) -> None:
    assert list(pickle.loads(pickle.dumps(space)).points()) == list(space.points())


def error(function: object, *arguments: object) -> str:
    with pytest.raises(TuneError) as caught:
        function(*arguments)  # type: ignore[operator]
    return str(caught.value)


def test_knobs_and_spaces_without_a_legal_value_are_refused() -> None:
    assert error(Knob, "y", ()) == "knob y: values must have a legal one, got none"
    assert error(Knob, "y", (1, 2, 1)) == "knob y: values must differ, got 1, 2, 1"
    nothing = error(Space.where, "tiles", [SIZES, OTHER], lambda columns: columns["y"] > 8)
    assert nothing == "space tiles: a combination of y, x must be legal, got none"
    assert error(Space, "tiles", (SIZES, SIZES)) == "space tiles: knobs must have names of their own, got y, y"
    wide = [Knob(f"k{number}", tuple(range(32))) for number in range(6)]
    assert error(Space.where, "wide", wide, small) == (
        "space wide: a rule must judge at most 67,108,864 combinations, got 1,073,741,824"
    )
    wider = tuple(Knob(f"k{number}", tuple(range(32))) for number in range(13))
    assert error(Space, "wide", wider) == (
        "space wide: combinations must be at most 2**62, got 36,893,488,147,419,103,232"
    )  # fmt: skip


def test_points_of_other_knobs_or_values_are_refused(space: Space) -> None:
    assert error(space.index, {"y": 8, "x": 4, "order": "yx"}) == (
        "space tiles: point must be legal, got {'y': 8, 'x': 4, 'order': 'yx'}"
    )
    assert not space.is_legal({"y": 8, "x": 4, "order": "yx"})
    assert error(space.index, {"y": 3, "x": 4, "order": "yx"}) == "space tiles: y must be one of 1, 2, 4, 8, got 3"
    assert error(space.index, {"y": True, "x": 4, "order": "yx"}) == (
        "space tiles: y must be one of 1, 2, 4, 8, got True"
    )  # fmt: skip
    assert error(space.index, {"y": 1, "z": 4}) == "space tiles: point must have exactly y, x, order, got y, z"
