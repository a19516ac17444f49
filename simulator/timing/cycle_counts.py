# SPDX-License-Identifier: Apache-2.0
"""The counters of every unit, from the times of all instructions.

The invariant: every cycle of a unit is counted exactly once, so its counters sum to the total.
"""

from __future__ import annotations

import numpy as np

from vdla.simulator.support.jit import Int, helper
from vdla.simulator.timing.layout import (
    BANDWIDTH,
    BUSY,
    COMMANDS,
    COVERED,
    F_COUNTED,
    F_MARK,
    IDLE,
    KIND,
    LATENCY,
    PADS,
    POP_PREV,
    PREV,
    PUSH_NEXT,
    PUSH_PREV,
    ROOM_PREV,
    STORE,
    T_A,
    T_C,
    T_COVER,
    T_D,
    T_E,
    T_F,
    T_Q,
    T_S,
    UNIT,
    UNKNOWN,
    WAIT,
)
from vdla.simulator.timing.wait_table import KIND_READ, KIND_WRITE, NEVER, NONE
from vdla.support.arrays import Ints


@helper
def after(times: Ints, index: Int, event: Int) -> Int:
    """The cycle after an event: 0 for no event, UNKNOWN for an unsettled one."""
    if index == NONE:
        return 0
    if index == NEVER or times[index, event] == UNKNOWN:
        return UNKNOWN
    return times[index, event] + 1


@helper
def count_fetch(table: Ints, times: Ints, state: Ints, fetch: Ints, end: Int) -> None:
    """Count fetch's cycles before `end` outside of bursts; earlier dispatches are settled."""
    k = state[F_COUNTED]
    while k < len(table) and times[k, T_D] != UNKNOWN and times[k, T_D] < end:
        if times[k, T_D] >= state[F_MARK]:
            _count_blocked(times, state, fetch, k, times[k, T_D])
            fetch[BUSY] += 1
            state[F_MARK] += 1
        k += 1
    state[F_COUNTED] = k
    _count_blocked(times, state, fetch, k, end)


@helper
def _count_blocked(times: Ints, state: Ints, fetch: Ints, k: Int, end: Int) -> None:
    """Count fetch's cycles from the mark to `end` while k is the next to dispatch."""
    mark = state[F_MARK]
    if mark >= end:
        return
    if k >= len(times):
        fetch[IDLE] += end - mark
    else:
        arrived = times[k, T_A]
        arrived = end if arrived == UNKNOWN else min(max(arrived, mark), end)
        fetch[BANDWIDTH] += arrived - mark
        fetch[COMMANDS] += end - arrived
    state[F_MARK] = end


@helper
def _count_pushes(table: Ints, times: Ints, counts: Ints, to: Int, last: Int, lo: Int, hi: Int) -> Int:
    """Count in row `to` the cycles lo..hi-1 in which a push up to `last` is blocked."""
    blocked = 0
    j = last
    while j != NONE and times[j, T_E] >= lo:
        n = max(times[j, T_C], after(times, table[j, PREV], T_E))
        room = max(n, after(times, table[j, ROOM_PREV], T_S))
        before = max(0, min(room, hi) - max(n, lo))
        later = max(0, min(times[j, T_E], hi) - max(room, lo))
        if before > 0:
            counts[to, WAIT + table[j, PUSH_PREV]] += before
        if later > 0:
            counts[to, WAIT + table[j, PUSH_NEXT]] += later
        blocked += before + later
        j = table[j, PREV]
    return blocked


@helper
def _count_waiting(table: Ints, times: Ints, counts: Ints, k: Int, queues: Ints, command_delay: Int) -> None:
    """Count the cycles from when the issue stage is free to the start of k."""
    unit = table[k, UNIT]
    lo = times[k, T_COVER] + 1
    if table[k, PREV] != NONE:
        lo = max(lo, times[table[k, PREV], T_F])
    hi = times[k, T_S]
    at = min(max(lo, times[k, T_D] + command_delay), hi)
    counts[k, COMMANDS] += max(0, at - lo)
    at = max(lo, at)
    for side in range(2):
        seen = min(after(times, table[k, POP_PREV + side], T_E), hi)
        if seen > at:
            counts[k, WAIT + queues[unit, side]] += seen - at
            at = seen
    if at < hi:
        blocked = _count_pushes(table, times, counts, k, table[k, PREV], at, hi)
        counts[k, LATENCY if unit == STORE else BUSY] += hi - at - blocked


@helper
def _count_current(table: Ints, times: Ints, counts: Ints, k: Int) -> None:
    """Count the cycles from the start of k outside of its bursts."""
    if table[k, KIND] == KIND_WRITE:
        return
    if table[k, KIND] != KIND_READ:
        counts[k, BUSY] += max(0, times[k, T_F] - max(times[k, T_S], times[k, T_COVER] + 1))
        return
    lo = max(times[k, T_S], times[k, T_COVER] + 1)
    hi = times[k, T_Q]
    if lo >= hi:
        return
    p = hi - table[k, PADS]
    blocked = 0
    if table[k, PADS] > 0 and lo < p:
        blocked = _count_pushes(table, times, counts, k, table[k, PREV], max(lo, times[k, T_S] + 1), p)
    counts[k, BUSY] += hi - lo - blocked


@helper
def _count_tail(table: Ints, times: Ints, counts: Ints, last: Int, covered: Int, total: Int) -> Int:
    """Count the cycles of a unit after its last instruction; returns the idle ones."""
    lo = max(times[last, T_F], covered + 1)
    hi = times[last, T_E] + 1
    if lo < hi:
        blocked = _count_pushes(table, times, counts, last, last, lo, hi)
        counts[last, LATENCY if table[last, UNIT] == STORE else BUSY] += hi - lo - blocked
    return total - max(lo, hi)


@helper
def account(
    table: Ints,
    times: Ints,
    counts: Ints,
    fetch: Ints,
    idle: Ints,
    state: Ints,
    queues: Ints,
    command_delay: Int,
) -> Int:
    """Count the cycles that the event loop has not counted; returns the total."""
    total = np.int64(0)
    for k in range(len(table)):
        _count_waiting(table, times, counts, k, queues, command_delay)
        _count_current(table, times, counts, k)
        total = max(total, max(times[k, T_E], times[k, T_D]) + 1)
    for unit in range(3):
        last = len(table) - 1
        while last >= 0 and table[last, UNIT] != unit:
            last -= 1
        idle[unit] = total
        if last >= 0:
            idle[unit] = _count_tail(table, times, counts, last, state[COVERED + unit], total)
    count_fetch(table, times, state, fetch, total)
    return total
