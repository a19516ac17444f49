# SPDX-License-Identifier: Apache-2.0
"""Memory plans: live values never overlap, and dead ones make room."""

import numpy as np
import pytest

from vdla.compiler.memory_plan import MemoryPlanError, ValueLife, plan_memory


def test_a_chain_needs_room_for_two():
    lives = [ValueLife(f"v{i}", 100, i, i + 1) for i in range(10)]
    plan = plan_memory(lives, 64)
    assert plan.arena_bytes == 2 * 128
    assert plan.bytes_without_reuse == 10 * 128
    assert plan.peak_share == 0.2


def test_nothing_to_place():
    assert plan_memory([], 64).arena_bytes == 0
    assert plan_memory([], 64).peak_share == 1


@pytest.mark.parametrize("seed", range(20))
def test_random_lives_never_overlap(seed):
    rng = np.random.default_rng(seed)
    starts, sizes = rng.integers(0, 30, 60), rng.integers(0, 1000, 60)
    ends = starts + rng.integers(0, 8, 60)
    lives = [
        ValueLife(f"v{i}", int(s), int(a), int(b)) for i, (a, b, s) in enumerate(zip(starts, ends, sizes, strict=True))
    ]
    plan = plan_memory(lives, 16)
    bytes_used = np.zeros((40, plan.arena_bytes), int)
    for life in lives:
        offset = plan.offsets[life.name]
        assert offset % 16 == 0
        bytes_used[life.first : life.last + 1, offset : offset + life.nbytes] += 1
    assert bytes_used.max() == 1
    live_bytes = max(sum(life.nbytes for life in lives if life.first <= t <= life.last) for t in range(40))
    aligned = max(sum(-(-life.nbytes // 16) * 16 for life in lives if life.first <= t <= life.last) for t in range(40))
    assert live_bytes <= plan.live_bytes == aligned <= plan.arena_bytes <= 1.3 * aligned


def test_another_order_than_by_size_may_need_less():
    """Largest first puts `d` at 0 and `a` behind it, so that `c` finds no place below `a`."""
    lives = [ValueLife("a", 2, 0, 2), ValueLife("b", 2, 2, 2), ValueLife("c", 2, 1, 3), ValueLife("d", 3, 0, 0)]
    plan = plan_memory(lives, 1)
    assert (plan.arena_bytes, plan.live_bytes) == (6, 6)


def test_a_value_of_unknown_size_has_no_place():
    lives = [ValueLife("a", 2, 0, 2), ValueLife("b", None, 1, 2)]
    message = "memory plan: b must have a known size to get a place, got extents that vary"
    with pytest.raises(MemoryPlanError, match=f"^{message}$"):
        plan_memory(lives, 1)
