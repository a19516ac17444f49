# SPDX-License-Identifier: Apache-2.0
"""The minimum cut, against all cuts of small random networks."""

import itertools

import numpy as np
import pytest

from vdla.compiler.graph.minimum_cut import source_side


def cost(capacities, side):
    return sum(capacity for (tail, head), capacity in capacities.items() if tail in side and head not in side)


def random_network(seed, count=6):
    rng = np.random.default_rng(seed)
    pairs = itertools.permutations(range(count), 2)
    return {pair: int(rng.integers(1, 9)) for pair in pairs if rng.random() < 0.5}


@pytest.mark.parametrize("seed", range(60))
def test_no_cut_is_cheaper_and_none_as_cheap_is_smaller(seed):
    capacities = random_network(seed)
    found = source_side(capacities, 0, 5)
    assert 0 in found and 5 not in found
    sides = [{0, *chosen} for n in range(5) for chosen in itertools.combinations(range(1, 5), n)]
    least = min(cost(capacities, side) for side in sides)
    assert cost(capacities, found) == least
    assert len(found) == min(len(side) for side in sides if cost(capacities, side) == least)


def test_without_a_way_the_source_side_is_what_the_source_reaches():
    assert source_side({("s", "a"): 3, ("b", "t"): 4}, "s", "t") == {"s", "a"}
    assert source_side({("s", "a"): 0}, "s", "t") == {"s"}
