# SPDX-License-Identifier: Apache-2.0
"""Random schedules: each program verifies and equals NumPy, or the compiler refuses it.

`random_case(seed)` replays a case; its text has the accepted primitives and the loop nest.
"""

import pytest
from helpers.schedule_cases import random_case, refusal
from helpers.seeds import seeds

pytestmark = pytest.mark.filterwarnings("ignore:.*virtual threads of:vdla.compiler.codegen.vdla.tiles.LoweringWarning")


def check(seeds: range, share: float) -> None:
    """Every case is right or refused, and most are accepted, since refusals prove nothing."""
    refused = [refusal(random_case(seed)) for seed in seeds]
    assert sum(error is None for error in refused) >= share * len(seeds)


@pytest.mark.sampled
@pytest.mark.parametrize("first", range(0, 64, 8))
def test_a_random_schedule_is_right_or_refused(first):
    check(range(first, first + 8), share=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("first", seeds(range(1000, 1600, 50), 1))
def test_more_random_schedules_are_right_or_refused(first):
    check(range(first, first + 50), share=0.6)


def test_a_seed_replays_a_schedule():
    assert str(random_case(3)) == str(random_case(3))
