# SPDX-License-Identifier: Apache-2.0
"""Partitions of index spaces against membership tables."""

from types import SimpleNamespace

import numpy as np
import pytest

from vdla.hardware.isa import Places, Where, numbered, partition
from vdla.hardware.isa.index_set import compact


def random_place(rng: np.random.Generator, size: int) -> Where:
    """A range, a stride, or any subset; possibly empty."""
    first, last = sorted(rng.integers(0, size + 1, 2).tolist())
    match int(rng.integers(3)):
        case 0:
            return slice(first, last)
        case 1:
            return compact(np.arange(first, last, int(rng.integers(1, 5))))
        case _:
            return compact(np.flatnonzero(rng.random(size) < rng.random()))


def unshifted(places: list[Where]) -> Places:
    return Places(places, np.arange(len(places)), np.zeros(len(places), np.int64))


def members(place: Where) -> set[int]:
    return set(range(place.start, place.stop)) if isinstance(place, slice) else set(place.tolist())


@pytest.mark.parametrize("seed", range(40))
def test_indices_share_a_part_exactly_where_they_share_all_sets(seed):
    rng = np.random.default_rng(seed)
    places = [random_place(rng, 40) for _ in range(int(rng.choice([1, 3, 8, 140])))]
    found = partition(unshifted(places))
    parts = [set(found.of(np.array([k]))[1].tolist()) for k in range(len(places))]
    signature = {i: frozenset(k for k, place in enumerate(places) if i in members(place)) for i in range(40)}
    several_runs = any(not isinstance(place, slice) for place in places)
    for k, place in enumerate(places):
        assert found.sizes[list(parts[k])].sum() == len(members(place))
        distinct = {signature[i] for i in members(place)}
        assert len(parts[k]) == len(distinct) if several_runs else len(parts[k]) >= len(distinct)
        for other, again in enumerate(places):
            assert bool(parts[k] & parts[other]) == bool(members(place) & members(again)), (k, other)
    assert max((max(p, default=-1) for p in parts), default=-1) < max(found.count, 1)


def test_parts_are_merged_only_in_the_same_sets_whatever_their_numbers(monkeypatch):
    """Numbers of sets that add up to the same for different sets merge nothing."""
    monkeypatch.setattr(np.random, "default_rng", lambda seed: SimpleNamespace(random=np.ones))
    places = unshifted([np.array([0, 2, 4]), np.array([1, 3]), slice(5, 6)])
    parts = partition(places)
    assert parts.count == 6
    assert [parts.of(np.array([k]))[1].tolist() for k in range(3)] == [[0, 2, 4], [1, 3], [5]]


def test_a_sequence_of_sets_lists_the_parts_of_each_in_turn():
    found = partition(unshifted([slice(0, 4), slice(4, 4), slice(2, 6)]))
    position, part = found.of(np.array([2, 1, 0, 2]))
    assert position.tolist() == [0, 0, 2, 2, 3, 3]
    assert part[:2].tolist() == part[4:].tolist()
    assert len(set(part[:2].tolist()) & set(part[2:4].tolist())) == 1


def test_no_sets_have_no_parts():
    assert partition(unshifted([])).count == 0
    assert partition(unshifted([slice(3, 3)])).of(np.zeros(2, np.int64))[0].tolist() == []


def test_places_are_shifted_shapes():
    shapes = [slice(2, 4), np.array([0, 3, 4])]
    places, number = Places.distinct(shapes, np.array([0, 1, 0, 1, 1]), np.array([5, 1, 5, 1, 7]))
    assert len(places) == 3
    listed = [np.arange(20)[places[k]].tolist() for k in number.tolist()]
    assert listed == [[7, 8], [1, 4, 5], [7, 8], [1, 4, 5], [7, 10, 11]]
    found, plain = partition(places), partition(unshifted([places[k] for k in range(3)]))
    assert (found.sizes.tolist(), found.parts.tolist()) == (plain.sizes.tolist(), plain.parts.tolist())


@pytest.mark.parametrize("count", [9, 1 << 17])
def test_histories_are_sorted_by_part_and_position(count):
    places = [slice(k, k + 2) for k in range(0, count, 2)] + [slice(0, 5), slice(3, 3)]
    found = partition(unshifted(places))
    sets = np.array([0, len(places) - 2, 1, len(places) - 1, 0])
    position, part, first = found.histories(sets)
    assert sorted(zip(part.tolist(), position.tolist(), strict=True)) == list(zip(part, position, strict=True))
    assert sorted(zip(*found.of(sets), strict=True)) == sorted(zip(position, part, strict=True))
    assert first.tolist() == [part.tolist().index(p) for p in part.tolist()]
    assert [len(column) for column in found.histories(sets[:0])] == [0, 0, 0]


@pytest.mark.parametrize("values", [[], [5], [3, -2, 3, 7], [1 << 40, 0, 1 << 40, -(1 << 50)], [0] * 9])
def test_numbered_values_are_those_of_numpy(values: list[int]):
    found, position = numbered(np.array(values, np.int64))
    wanted, inverse = np.unique(np.array(values, np.int64), return_inverse=True)
    assert found.tolist() == wanted.tolist()
    assert position.tolist() == inverse.tolist()
