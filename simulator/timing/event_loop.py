# SPDX-License-Identifier: Apache-2.0
"""The timing contract as a compiled event loop over the wait table.

The invariant: when a burst is granted at g, every event before g + 1 is known, because unknown
events depend on later grants and take effect a cycle after them. So the loop settles all events it
can, grants one burst, and repeats; it never steps single cycles. `docs/timing-contract.md` has the
rules and the symbols D S F C N E and R L.
"""

from __future__ import annotations

from vdla.simulator.support.jit import Int, entry_point, helper, inline_helper
from vdla.simulator.timing.bursts import advance, burst_beats, write_bursts
from vdla.simulator.timing.cycle_counts import account, after, count_fetch
from vdla.simulator.timing.layout import (
    ACTIVE,
    BANDWIDTH,
    BASE,
    BUSY,
    COMMAND,
    COMPUTE,
    COVERED,
    CYCLES,
    DEADLOCK,
    DONE,
    F_BEATS,
    F_GRANT,
    F_MARK,
    FAR,
    FETCH,
    KIND,
    LATENCY,
    LIMIT,
    LOAD,
    NEXT_D,
    NEXT_E,
    NEXT_S,
    P_BEAT,
    P_BUS,
    P_COMMAND_DELAY,
    P_DISPATCH_DELAY,
    P_FETCH_BUFFER,
    P_GAP,
    P_LIMIT,
    P_LOAD_SETUP,
    P_LOAD_TAIL,
    P_MERGE_DELAY,
    P_PORTS,
    P_READ_DELAY,
    P_READ_LATENCY,
    P_READS,
    P_STREAM,
    P_WORD,
    PADS,
    PENDING,
    POP_NEXT,
    POP_PREV,
    PORT_LAST,
    PREV,
    R_COUNT,
    R_GRANT,
    R_LAST,
    R_PORT,
    R_SLOT,
    ROOM_NEXT,
    ROOM_PREV,
    RUN,
    T_A,
    T_C,
    T_COVER,
    T_D,
    T_E,
    T_F,
    T_Q,
    T_S,
    TAIL,
    TIMEOUT,
    UNIT,
    UNKNOWN,
)
from vdla.simulator.timing.pages import read_wait
from vdla.simulator.timing.wait_table import KIND_CORE, KIND_READ, KIND_WRITE, NONE
from vdla.support.arrays import Ints


@inline_helper
def _latest(known: Int, other: Int) -> Int:
    return UNKNOWN if known == UNKNOWN or other == UNKNOWN else max(known, other)


@helper
def _dispatch(table: Ints, times: Ints, state: Ints) -> bool:
    k = state[NEXT_D]
    if k >= len(table) or times[k, T_A] == UNKNOWN:
        return False
    at = after(times, table[k, COMMAND], T_S)
    if at == UNKNOWN:
        return False
    previous = times[k - 1, T_D] + 1 if k > 0 else 0
    times[k, T_D] = max(at, max(times[k, T_A], previous))
    state[NEXT_D] = k + 1
    return True


@helper
def _start_time(table: Ints, times: Ints, params: Ints, k: Int) -> Int:
    if times[k, T_D] == UNKNOWN:
        return UNKNOWN
    at = times[k, T_D] + params[P_COMMAND_DELAY]
    if table[k, PREV] != NONE:
        at = _latest(at, times[table[k, PREV], T_F])
    at = _latest(at, after(times, table[k, POP_PREV], T_E))
    at = _latest(at, after(times, table[k, POP_NEXT], T_E))
    return _latest(at, after(times, table[k, LIMIT], T_E))


@helper
def _start(
    table: Ints,
    times: Ints,
    state: Ints,
    requests: Ints,
    ring: Ints,
    posted: Ints,
    counts: Ints,
    params: Ints,
    unit: Int,
) -> bool:
    k = state[NEXT_S + unit]
    if k >= len(table):
        return False
    at = _start_time(table, times, params, k)
    if at == UNKNOWN:
        return False
    times[k, T_S] = at
    times[k, T_COVER] = state[COVERED + unit]
    kind = table[k, KIND]
    if kind == KIND_READ:
        state[PENDING + unit] = k
    elif kind == KIND_WRITE:
        write_bursts(table, times, state, requests, ring, posted, counts, params, k)
    elif kind == KIND_CORE:
        times[k, T_F] = at + table[k, CYCLES]
        times[k, T_C] = times[k, T_F] + table[k, TAIL]
    else:
        times[k, T_F] = times[k, T_C] = at + 1
    state[NEXT_S + unit] = _next_of_unit(table, k)
    return True


@helper
def _next_of_unit(table: Ints, k: Int) -> Int:
    unit = table[k, UNIT]
    k += 1
    while k < len(table) and table[k, UNIT] != unit:
        k += 1
    return k


@helper
def _begin_read(table: Ints, times: Ints, state: Ints, requests: Ints, params: Ints, unit: Int) -> bool:
    """Pad and request the first burst, once the start of padding is known."""
    k = state[PENDING + unit]
    if k == NONE:
        return False
    q = times[k, T_S] + params[P_LOAD_SETUP]
    if table[k, PADS] > 0:
        previous = after(times, table[k, PREV], T_E)
        if previous == UNKNOWN:
            return False
        q = max(q, previous) + table[k, PADS]
    times[k, T_Q] = q
    state[PENDING + unit] = NONE
    if table[k, RUN] == 0:
        times[k, T_F] = q
        times[k, T_C] = q - 1 + params[P_LOAD_TAIL]
        return True
    state[ACTIVE + unit] = k
    requests[unit, 0] = q
    requests[unit, 1] = 0
    requests[unit, 2] = 0
    requests[unit, 3] = table[k, RUN]
    requests[unit, 4] = table[k, BASE]
    return True


@helper
def _end(table: Ints, times: Ints, state: Ints, unit: Int) -> bool:
    k = state[NEXT_E + unit]
    if k >= len(table) or times[k, T_C] == UNKNOWN:
        return False
    at = max(times[k, T_C], after(times, table[k, PREV], T_E))
    at = _latest(at, after(times, table[k, ROOM_PREV], T_S))
    at = _latest(at, after(times, table[k, ROOM_NEXT], T_S))
    if at == UNKNOWN:
        return False
    times[k, T_E] = at
    state[NEXT_E + unit] = _next_of_unit(table, k)
    return True


@helper
def _settle(
    table: Ints,
    times: Ints,
    state: Ints,
    requests: Ints,
    write_ring: Ints,
    posted: Ints,
    counts: Ints,
    params: Ints,
) -> None:
    """Settle every event whose causes are known."""
    moved = True
    while moved:
        moved = False
        while _dispatch(table, times, state):
            moved = True
        for unit in range(3):
            while _start(table, times, state, requests, write_ring, posted, counts, params, unit):
                moved = True
                _begin_read(table, times, state, requests, params, unit)
            if _begin_read(table, times, state, requests, params, unit):
                moved = True
            while _end(table, times, state, unit):
                moved = True


@helper
def _fetch_request(table: Ints, times: Ints, state: Ints, params: Ints) -> tuple[Int, Int]:
    """(the first cycle in which fetch requests its next burst, or FAR; its beats)."""
    beats = state[F_BEATS]
    remaining = len(table) * params[P_WORD] - beats
    if remaining == 0:
        return FAR, 0
    n = burst_beats(remaining, params[P_STREAM] + beats, params)
    needed = (beats + n - params[P_FETCH_BUFFER] + params[P_WORD] - 1) // params[P_WORD]
    if needed <= 0:
        return state[F_GRANT] + 1, n
    if times[needed - 1, T_D] == UNKNOWN:
        return FAR, n
    return max(state[F_GRANT], times[needed - 1, T_D]) + 1, n


@inline_helper
def _following(number: Int, count: Int) -> Int:
    """The number after this one of `count` that take turns."""
    return 0 if number + 1 == count else number + 1


@inline_helper
def _grant(state: Ints, ring: Ints, counts: Ints, params: Ints, who: Int, g: Int, n: Int, wait: Int) -> tuple[Int, Int]:
    """Grant a read burst of `who`, which waits for the memory, and count its cycles; the cycles in
    which its first beat could come at the earliest, by the burst's port, and comes.
    """
    due = g + params[P_READ_LATENCY] + params[P_READ_DELAY]
    ready = due + wait + (params[P_PORTS] - 1) * (params[P_BEAT] - 1)
    port = PORT_LAST + state[R_PORT]
    if state[R_COUNT] >= params[P_PORTS]:
        next_burst = state[port] + params[P_BEAT] + params[P_GAP]
        ready = max(ready, next_burst + (params[P_PORTS] - 1) * params[P_BEAT] + params[P_MERGE_DELAY])
    first = max(ready, state[R_LAST] + 1)
    last = _beat(ready, first, n - 1, params)
    state[port] = ready + (n - 1) * params[P_PORTS] * params[P_BEAT] - params[P_MERGE_DELAY]
    lo = max(g, state[COVERED + who] + 1)
    latency = max(0, due - lo)
    counts[LATENCY] += latency
    counts[BANDWIDTH] += last + 1 - lo - latency - n
    counts[BUSY] += n
    state[COVERED + who] = state[R_LAST] = last
    state[R_GRANT] = g
    ring[state[R_SLOT]] = last
    state[R_COUNT] += 1
    state[R_SLOT] = _following(state[R_SLOT], params[P_READS])
    state[R_PORT] = _following(state[R_PORT], params[P_PORTS])
    return ready, first


@inline_helper
def _beat(ready: Int, first: Int, number: Int, params: Ints) -> Int:
    """The cycle of a beat of a burst: when its port has delivered it, one a cycle."""
    return max(ready + number * params[P_PORTS] * params[P_BEAT], first + number)


@helper
def _grant_fetch(
    table: Ints,
    times: Ints,
    state: Ints,
    ring: Ints,
    posted: Ints,
    memory: Ints,
    fetch: Ints,
    params: Ints,
    g: Int,
    n: Int,
) -> None:
    count_fetch(table, times, state, fetch, g)
    wait = 0
    if params[P_BUS] > 0:
        wait = read_wait(memory, posted, state, params, g, params[P_STREAM] + state[F_BEATS], n)
    ready, first = _grant(state, ring, fetch, params, FETCH, g, n, wait)
    state[F_MARK] = state[R_LAST] + 1
    k = state[F_BEATS] // params[P_WORD]
    start = state[F_BEATS]
    state[F_BEATS] += n
    state[F_GRANT] = g
    while (k + 1) * params[P_WORD] <= state[F_BEATS]:
        beats = (k + 1) * params[P_WORD] - 1 - start
        times[k, T_A] = _beat(ready, first, beats, params) + params[P_DISPATCH_DELAY]
        k += 1


@inline_helper
def _grant_read(
    table: Ints,
    times: Ints,
    state: Ints,
    requests: Ints,
    ring: Ints,
    posted: Ints,
    memory: Ints,
    counts: Ints,
    params: Ints,
    unit: Int,
    g: Int,
    n: Int,
) -> bool:
    """Grant a burst of a unit; whether it was the instruction's last."""
    k = state[ACTIVE + unit]
    counts[k, BANDWIDTH] += max(0, g - max(times[k, T_Q], state[COVERED + unit] + 1))
    wait = 0
    if params[P_BUS] > 0:
        wait = read_wait(memory, posted, state, params, g, requests[unit, 4], n)
    _grant(state, ring, counts[k], params, unit, g, n, wait)
    requests[unit, 0] = g + 1
    if advance(table, requests[unit], k, n):
        return False
    state[ACTIVE + unit] = NONE
    times[k, T_F] = g + 1
    times[k, T_C] = state[R_LAST] + params[P_LOAD_TAIL]
    return True


@helper
def _first_of_unit(table: Ints, unit: Int) -> Int:
    k = 0
    while k < len(table) and table[k, UNIT] != unit:
        k += 1
    return k


@helper
def _initialise(table: Ints, state: Ints) -> None:
    for unit in range(3):
        state[NEXT_S + unit] = state[NEXT_E + unit] = _first_of_unit(table, unit)
        state[COVERED + unit] = -1
        state[ACTIVE + unit] = state[PENDING + unit] = NONE
    state[COVERED + FETCH] = state[R_GRANT] = state[F_GRANT] = state[R_LAST] = -1


@helper
def _run(
    table: Ints,
    params: Ints,
    times: Ints,
    counts: Ints,
    fetch: Ints,
    state: Ints,
    requests: Ints,
    read_ring: Ints,
    write_ring: Ints,
    posted: Ints,
    memory: Ints,
) -> Int:
    """Run to DONE, DEADLOCK or TIMEOUT; `state[R_GRANT]` is the last grant."""
    _settle(table, times, state, requests, write_ring, posted, counts, params)
    fetch_at, fetch_n = _fetch_request(table, times, state, params)
    while True:
        compute_at = requests[COMPUTE, 0] if state[ACTIVE + COMPUTE] != NONE else FAR
        load_at = requests[LOAD, 0] if state[ACTIVE + LOAD] != NONE else FAR
        g = min(fetch_at, min(compute_at, load_at))
        if g == FAR:
            break
        g = max(g, max(state[R_GRANT], read_ring[state[R_SLOT]]) + 1)
        if g > params[P_LIMIT]:
            state[R_GRANT] = g
            return TIMEOUT
        if fetch_at <= g:
            _grant_fetch(table, times, state, read_ring, posted, memory, fetch, params, g, fetch_n)
            settled = False
        else:
            unit = COMPUTE if compute_at <= g else LOAD
            n = burst_beats(requests[unit, 3], requests[unit, 4], params)
            settled = not _grant_read(
                table, times, state, requests, read_ring, posted, memory, counts, params, unit, g, n
            )
        if not settled:
            _settle(table, times, state, requests, write_ring, posted, counts, params)
            fetch_at, fetch_n = _fetch_request(table, times, state, params)
    n = len(table)
    done = state[NEXT_D] == n and state[NEXT_E] == n and state[NEXT_E + 1] == n and state[NEXT_E + 2] == n
    return DONE if done else DEADLOCK


# --- entry ----------------------------------------------------------------------------------------


@entry_point
def run(
    table: Ints,
    params: Ints,
    times: Ints,
    counts: Ints,
    fetch: Ints,
    idle: Ints,
    state: Ints,
    requests: Ints,
    rings: Ints,
    posted: Ints,
    memory: Ints,
    queues: Ints,
) -> tuple[Int, Int]:
    """Fill `times` and the counters; (status, total cycles, or the last grant)."""
    _initialise(table, state)
    status = _run(table, params, times, counts, fetch, state, requests, rings[0], rings[1], posted, memory)
    if status != DONE:
        return status, state[R_GRANT]
    return status, account(table, times, counts, fetch, idle, state, queues, params[P_COMMAND_DELAY])
