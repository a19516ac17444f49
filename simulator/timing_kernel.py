"""The timing contract as one compiled event loop over the table of `work`.

The invariant: when the next burst is granted at g, everything that happens before g + 1 is known, because whatever
is still unknown depends on a grant to come, and is seen a cycle later at the earliest. So events are settled as far
as they can be, then one burst is granted, and so on; time never passes cycle by cycle. `docs/timing-contract.md` has
the rules; letters D S F C N E and R L are its symbols.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.simulator.jit import Int, compiled, helper
from vdla.simulator.work import FIELDS, KIND_CORE, KIND_READ, KIND_WRITE, NEVER, NONE, F

Ints = NDArray[np.int64]

BUSY, LATENCY, BANDWIDTH, WAIT, COMMANDS, IDLE = 0, 1, 2, 3, 7, 8

UNKNOWN = -1
FAR = 1 << 62
LOAD, COMPUTE, STORE, FETCH = np.arange(4)

# Parameters of the machine, by index of an integer array.
PARAMS = (
    "read_latency", "write_latency", "outstanding_reads", "outstanding_writes", "beat_cycles", "burst_gap",
    "burst_beats", "page_beats", "stream_base", "stream_beats", "fetch_buffer", "load_tail", "issue_overhead", "depth",
    "store_setup", "limit",
)  # fmt: skip
(
    P_READ_LATENCY, P_WRITE_LATENCY, P_READS, P_WRITES, P_BEAT, P_GAP, P_BURST, P_PAGE, P_STREAM, P_WORD,
    P_FETCH_BUFFER, P_LOAD_TAIL, P_OVERHEAD, P_DEPTH, P_STORE_SETUP, P_LIMIT,
) = range(len(PARAMS))  # fmt: skip

# Times of an instruction, by column. Q: first cycle in which it requests bursts. COVER: last cycle covered by read
# bursts of its unit before it.
TIMES = ("arrival", "D", "S", "F", "C", "E", "Q", "COVER")
T_A, T_D, T_S, T_F, T_C, T_E, T_Q, T_COVER = np.arange(
    len(TIMES)
)  # not literals, which would compile helpers once for each

U, KINDC, PREV, POP_PREV, POP_NEXT, ROOM_PREV, ROOM_NEXT, COMMAND, LIMIT = (F[name] for name in FIELDS[:9])
PADS, CYCLES, BASE, RUN, Y_RUNS, Y_STRIDE, Z_RUNS, Z_STRIDE, PUSH_PREV, PUSH_NEXT = (F[name] for name in FIELDS[9:])

# State, by index: where each unit is in its list, and the two memory channels.
NEXT_S, NEXT_E, NEXT_D = 0, 3, 6  # per unit: instruction to start, to end; the one to dispatch
COVERED = 7  # per requester, by unit number (FETCH = 3): last cycle covered by its read bursts
R_LAST, R_GRANT, R_COUNT, W_LAST, W_COUNT = 11, 12, 13, 14, 15
F_BEATS, F_GRANT, F_COUNTED, F_MARK = (
    16,
    17,
    18,
    19,
)  # fetch: beats granted, last grant, dispatches counted, next cycle to count
ACTIVE = 20  # per unit: its LOAD with bursts to request, or NONE
PENDING = 23  # per unit: its LOAD which has started and not begun to write or request, or NONE
STATE_SIZE = 26
ITERATOR = 5  # request time, z, y, beats left of the run, address

DONE, DEADLOCK, TIMEOUT = range(3)


@helper
def _after(times: Ints, index: Int, event: Int) -> Int:
    """The cycle from which an event is seen: 0 for none, UNKNOWN when it is not settled."""
    if index == NONE:
        return 0
    if index == NEVER or times[index, event] == UNKNOWN:
        return UNKNOWN
    return times[index, event] + 1


@helper
def _latest(known: Int, other: Int) -> Int:
    return UNKNOWN if known == UNKNOWN or other == UNKNOWN else max(known, other)


@helper
def _dispatch(work: Ints, times: Ints, state: Ints) -> bool:
    k = state[NEXT_D]
    if k >= len(work) or times[k, T_A] == UNKNOWN:
        return False
    at = _after(times, work[k, COMMAND], T_S)
    if at == UNKNOWN:
        return False
    previous = times[k - 1, T_D] + 1 if k > 0 else 0
    times[k, T_D] = max(at, max(times[k, T_A], previous))
    state[NEXT_D] = k + 1
    return True


@helper
def _start_time(work: Ints, times: Ints, k: Int) -> Int:
    at = _after(times, k, T_D)
    if work[k, PREV] != NONE:
        at = _latest(at, times[work[k, PREV], T_F])
    at = _latest(at, _after(times, work[k, POP_PREV], T_E))
    at = _latest(at, _after(times, work[k, POP_NEXT], T_E))
    return _latest(at, _after(times, work[k, LIMIT], T_E))


@helper
def _start(
    work: Ints, times: Ints, state: Ints, requests: Ints, ring: Ints, counts: Ints, params: Ints, unit: Int
) -> bool:
    k = state[NEXT_S + unit]
    if k >= len(work):
        return False
    at = _start_time(work, times, k)
    if at == UNKNOWN:
        return False
    times[k, T_S] = at
    times[k, T_COVER] = state[COVERED + unit]
    kind = work[k, KINDC]
    if kind == KIND_READ:
        state[PENDING + unit] = k
    elif kind == KIND_WRITE:
        _write(work, times, state, requests, ring, counts, params, k)
    elif kind == KIND_CORE:
        times[k, T_F] = at + work[k, CYCLES] + params[P_OVERHEAD]
        times[k, T_C] = times[k, T_F] + params[P_DEPTH]
    else:
        times[k, T_F] = times[k, T_C] = at + 1
    state[NEXT_S + unit] = _next_of_unit(work, k)
    return True


@helper
def _next_of_unit(work: Ints, k: Int) -> Int:
    unit = work[k, U]
    k += 1
    while k < len(work) and work[k, U] != unit:
        k += 1
    return k


@helper
def _begin_read(work: Ints, times: Ints, state: Ints, requests: Ints, params: Ints, unit: Int) -> bool:
    """Once it is known when padding can begin: padding, and the first request."""
    k = state[PENDING + unit]
    if k == NONE:
        return False
    q = times[k, T_S] + 1
    if work[k, PADS] > 0:
        previous = _after(times, work[k, PREV], T_E)
        if previous == UNKNOWN:
            return False
        q = max(q, previous) + work[k, PADS]
    times[k, T_Q] = q
    state[PENDING + unit] = NONE
    if work[k, RUN] == 0:
        times[k, T_F] = q
        times[k, T_C] = q - 1 + params[P_LOAD_TAIL]
        return True
    state[ACTIVE + unit] = k
    requests[unit, 0] = q
    requests[unit, 1] = 0
    requests[unit, 2] = 0
    requests[unit, 3] = work[k, RUN]
    requests[unit, 4] = work[k, BASE]
    return True


@helper
def _end(work: Ints, times: Ints, state: Ints, unit: Int) -> bool:
    k = state[NEXT_E + unit]
    if k >= len(work) or times[k, T_C] == UNKNOWN:
        return False
    at = max(times[k, T_C], _after(times, work[k, PREV], T_E))
    at = _latest(at, _after(times, work[k, ROOM_PREV], T_S))
    at = _latest(at, _after(times, work[k, ROOM_NEXT], T_S))
    if at == UNKNOWN:
        return False
    times[k, T_E] = at
    state[NEXT_E + unit] = _next_of_unit(work, k)
    return True


@helper
def _burst(left: Int, address: Int, params: Ints) -> Int:
    return min(left, min(params[P_BURST], params[P_PAGE] - address % params[P_PAGE]))


@helper
def _advance(work: Ints, request: Ints, k: Int, beats: Int) -> bool:
    """The iterator after `beats` more beats; False at the end of the instruction's last run."""
    request[3] -= beats
    request[4] += beats
    if request[3] > 0:
        return True
    request[2] += 1
    if request[2] == work[k, Y_RUNS]:
        request[2] = 0
        request[1] += 1
    request[3] = work[k, RUN]
    request[4] = work[k, BASE] + request[1] * work[k, Z_STRIDE] + request[2] * work[k, Y_STRIDE]
    return bool(request[1] < work[k, Z_RUNS])


@helper
def _write(
    work: Ints, times: Ints, state: Ints, requests: Ints, ring: Ints, counts: Ints, params: Ints, k: Int
) -> None:
    """All bursts of a STORE: no other unit writes, so they follow from its start alone."""
    request = requests[STORE]
    request[1] = request[2] = 0
    request[3] = work[k, RUN]
    request[4] = work[k, BASE]
    ready = times[k, T_S] + params[P_STORE_SETUP]
    beats = 0
    more = True
    while more:
        n = _burst(request[3], request[4], params)
        slot = state[W_COUNT] % params[P_WRITES]
        at = max(ready, ring[slot] + 1)
        if state[W_COUNT] > 0:
            at = max(at, state[W_LAST] + params[P_BEAT] + params[P_GAP])
        state[W_LAST] = at + (n - 1) * params[P_BEAT]
        ring[slot] = state[W_LAST] + params[P_WRITE_LATENCY]
        state[W_COUNT] += 1
        ready = state[W_LAST] + 1
        beats += n
        more = _advance(work, request, k, n)
    times[k, T_F] = state[W_LAST] + 1
    times[k, T_C] = state[W_LAST] + params[P_WRITE_LATENCY] + 1
    counts[k, BUSY] += params[P_STORE_SETUP] + beats
    counts[k, BANDWIDTH] += times[k, T_F] - times[k, T_S] - params[P_STORE_SETUP] - beats


@helper
def _settle(work: Ints, times: Ints, state: Ints, requests: Ints, write_ring: Ints, counts: Ints, params: Ints) -> None:
    """Every event whose causes are settled."""
    moved = True
    while moved:
        moved = False
        while _dispatch(work, times, state):
            moved = True
        for unit in range(3):
            while _start(work, times, state, requests, write_ring, counts, params, unit):
                moved = True
                _begin_read(work, times, state, requests, params, unit)
            if _begin_read(work, times, state, requests, params, unit):
                moved = True
            while _end(work, times, state, unit):
                moved = True


@helper
def _fetch_request(work: Ints, times: Ints, state: Ints, params: Ints) -> tuple[Int, Int]:
    """(first cycle in which fetch requests its next burst or FAR, its beats)."""
    beats = state[F_BEATS]
    left = len(work) * params[P_WORD] - beats
    if left == 0:
        return FAR, 0
    n = _burst(left, params[P_STREAM] + beats, params)
    needed = (beats + n - params[P_FETCH_BUFFER] + params[P_WORD] - 1) // params[P_WORD]
    if needed <= 0:
        return state[F_GRANT] + 1, n
    if times[needed - 1, T_D] == UNKNOWN:
        return FAR, n
    return max(state[F_GRANT], times[needed - 1, T_D]) + 1, n


@helper
def _grant(state: Ints, ring: Ints, counts: Ints, params: Ints, who: Int, g: Int, n: Int) -> tuple[Int, Int]:
    """Account for one read burst of `who` in `counts` and return its first and last beat."""
    first = g + params[P_READ_LATENCY]
    due = first
    if state[R_COUNT] > 0:
        first = max(first, state[R_LAST] + params[P_BEAT] + params[P_GAP])
    last = first + (n - 1) * params[P_BEAT]
    lo = max(g, state[COVERED + who] + 1)
    latency = max(0, due - lo)
    counts[LATENCY] += latency
    counts[BANDWIDTH] += last + 1 - lo - latency - n
    counts[BUSY] += n
    state[COVERED + who] = state[R_LAST] = last
    state[R_GRANT] = g
    ring[state[R_COUNT] % params[P_READS]] = last
    state[R_COUNT] += 1
    return first, last


@helper
def _grant_fetch(work: Ints, times: Ints, state: Ints, ring: Ints, fetch: Ints, params: Ints, g: Int, n: Int) -> None:
    _count_fetch(work, times, state, fetch, g)
    first, last = _grant(state, ring, fetch, params, FETCH, g, n)
    state[F_MARK] = last + 1
    k = state[F_BEATS] // params[P_WORD]
    start = state[F_BEATS]
    state[F_BEATS] += n
    state[F_GRANT] = g
    while (k + 1) * params[P_WORD] <= state[F_BEATS]:
        times[k, T_A] = first + ((k + 1) * params[P_WORD] - 1 - start) * params[P_BEAT] + 1
        k += 1


@helper
def _count_fetch(work: Ints, times: Ints, state: Ints, fetch: Ints, end: Int) -> None:
    """Count fetch's uncovered cycles before `end`; every dispatch before `end` is settled."""
    k = state[F_COUNTED]
    while k < len(work) and times[k, T_D] != UNKNOWN and times[k, T_D] < end:
        if times[k, T_D] >= state[F_MARK]:
            _count_blocked(times, state, fetch, k, times[k, T_D])
            fetch[BUSY] += 1
            state[F_MARK] += 1
        k += 1
    state[F_COUNTED] = k
    _count_blocked(times, state, fetch, k, end)


@helper
def _count_blocked(times: Ints, state: Ints, fetch: Ints, k: Int, end: Int) -> None:
    """Cycles from the mark to before `end`, in which instruction k is the next to dispatch."""
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
def _grant_read(
    work: Ints,
    times: Ints,
    state: Ints,
    requests: Ints,
    ring: Ints,
    counts: Ints,
    params: Ints,
    unit: Int,
    g: Int,
    n: Int,
) -> bool:
    """Grant the unit's burst; True when it was the instruction's last."""
    k = state[ACTIVE + unit]
    counts[k, BANDWIDTH] += max(0, g - max(times[k, T_Q], state[COVERED + unit] + 1))
    _, last = _grant(state, ring, counts[k], params, unit, g, n)
    requests[unit, 0] = g + 1
    if _advance(work, requests[unit], k, n):
        return False
    state[ACTIVE + unit] = NONE
    times[k, T_F] = g + 1
    times[k, T_C] = last + params[P_LOAD_TAIL]
    return True


@helper
def _first_of_unit(work: Ints, unit: Int) -> Int:
    k = 0
    while k < len(work) and work[k, U] != unit:
        k += 1
    return k


@helper
def _initialise(work: Ints, state: Ints) -> None:
    for unit in range(3):
        state[NEXT_S + unit] = state[NEXT_E + unit] = _first_of_unit(work, unit)
        state[COVERED + unit] = -1
        state[ACTIVE + unit] = state[PENDING + unit] = NONE
    state[COVERED + FETCH] = state[R_GRANT] = state[F_GRANT] = -1


@helper
def _run(
    work: Ints,
    params: Ints,
    times: Ints,
    counts: Ints,
    fetch: Ints,
    state: Ints,
    requests: Ints,
    read_ring: Ints,
    write_ring: Ints,
) -> Int:
    """Every event of the run; how it went. `state[R_GRANT]` is the cycle of the last grant."""
    _settle(work, times, state, requests, write_ring, counts, params)
    fetch_at, fetch_n = _fetch_request(work, times, state, params)
    while True:
        compute_at = requests[COMPUTE, 0] if state[ACTIVE + COMPUTE] != NONE else FAR
        load_at = requests[LOAD, 0] if state[ACTIVE + LOAD] != NONE else FAR
        g = min(fetch_at, min(compute_at, load_at))
        if g == FAR:
            break
        g = max(g, max(state[R_GRANT], read_ring[state[R_COUNT] % params[P_READS]]) + 1)
        if g > params[P_LIMIT]:
            state[R_GRANT] = g
            return TIMEOUT
        if fetch_at <= g:
            _grant_fetch(work, times, state, read_ring, fetch, params, g, fetch_n)
            settled = False
        else:
            unit = COMPUTE if compute_at <= g else LOAD
            n = _burst(requests[unit, 3], requests[unit, 4], params)
            settled = not _grant_read(work, times, state, requests, read_ring, counts, params, unit, g, n)
        if not settled:
            _settle(work, times, state, requests, write_ring, counts, params)
            fetch_at, fetch_n = _fetch_request(work, times, state, params)
    n = len(work)
    done = state[NEXT_D] == n and state[NEXT_E] == n and state[NEXT_E + 1] == n and state[NEXT_E + 2] == n
    return DONE if done else DEADLOCK


# --- counting, once every time is known ------------------------------------------------------------------------------


@helper
def _count_pushes(work: Ints, times: Ints, counts: Ints, to: Int, last: Int, lo: Int, hi: Int) -> Int:
    """How many cycles lo..hi-1 an instruction up to `last` is blocked in its push; they count in row `to`."""
    blocked = 0
    j = last
    while j != NONE and times[j, T_E] >= lo:
        n = max(times[j, T_C], _after(times, work[j, PREV], T_E))
        room = max(n, _after(times, work[j, ROOM_PREV], T_S))
        before = max(0, min(room, hi) - max(n, lo))
        after = max(0, min(times[j, T_E], hi) - max(room, lo))
        if before > 0:
            counts[to, WAIT + work[j, PUSH_PREV]] += before
        if after > 0:
            counts[to, WAIT + work[j, PUSH_NEXT]] += after
        blocked += before + after
        j = work[j, PREV]
    return blocked


@helper
def _count_waiting(work: Ints, times: Ints, counts: Ints, k: Int, queues: Ints) -> None:
    """The cycles between the issue stage's becoming free and the start of k."""
    unit = work[k, U]
    lo = times[k, T_COVER] + 1
    if work[k, PREV] != NONE:
        lo = max(lo, times[work[k, PREV], T_F])
    hi = times[k, T_S]
    at = min(max(lo, times[k, T_D] + 1), hi)
    counts[k, COMMANDS] += max(0, at - lo)
    at = max(lo, at)
    for side in range(2):
        seen = min(_after(times, work[k, POP_PREV + side], T_E), hi)
        if seen > at:
            counts[k, WAIT + queues[unit, side]] += seen - at
            at = seen
    if at < hi:
        blocked = _count_pushes(work, times, counts, k, work[k, PREV], at, hi)
        counts[k, LATENCY if unit == STORE else BUSY] += hi - at - blocked


@helper
def _count_current(work: Ints, times: Ints, counts: Ints, k: Int) -> None:
    """The cycles from the start of k that its bursts do not account for."""
    if work[k, KINDC] == KIND_WRITE:
        return
    if work[k, KINDC] != KIND_READ:
        counts[k, BUSY] += max(0, times[k, T_F] - max(times[k, T_S], times[k, T_COVER] + 1))
        return
    lo = max(times[k, T_S], times[k, T_COVER] + 1)
    hi = times[k, T_Q]
    if lo >= hi:
        return
    p = hi - work[k, PADS]
    blocked = 0
    if work[k, PADS] > 0 and lo < p:
        blocked = _count_pushes(work, times, counts, k, work[k, PREV], lo, p)
    counts[k, BUSY] += hi - lo - blocked


@helper
def _count_tail(work: Ints, times: Ints, counts: Ints, last: Int, covered: Int, total: Int) -> Int:
    """The cycles of a unit after its last instruction's issue; returned are those in which it is idle."""
    lo = max(times[last, T_F], covered + 1)
    hi = times[last, T_E] + 1
    if lo < hi:
        blocked = _count_pushes(work, times, counts, last, last, lo, hi)
        counts[last, LATENCY if work[last, U] == STORE else BUSY] += hi - lo - blocked
    return total - max(lo, hi)


@helper
def _account(work: Ints, times: Ints, counts: Ints, fetch: Ints, idle: Ints, state: Ints, queues: Ints) -> Int:
    """Count the cycles that the events left open; the total."""
    total = np.int64(0)
    for k in range(len(work)):
        _count_waiting(work, times, counts, k, queues)
        _count_current(work, times, counts, k)
        total = max(total, max(times[k, T_E], times[k, T_D]) + 1)
    for unit in range(3):
        last = len(work) - 1
        while last >= 0 and work[last, U] != unit:
            last -= 1
        idle[unit] = total
        if last >= 0:
            idle[unit] = _count_tail(work, times, counts, last, state[COVERED + unit], total)
    _count_fetch(work, times, state, fetch, total)
    return total


@compiled
def run(
    work: Ints,
    params: Ints,
    times: Ints,
    counts: Ints,
    fetch: Ints,
    idle: Ints,
    state: Ints,
    requests: Ints,
    rings: Ints,
    queues: Ints,
) -> tuple[Int, Int]:
    """(status, total cycles, or the last cycle known of a run that does not end); fills `times` and the counters."""
    _initialise(work, state)
    status = _run(work, params, times, counts, fetch, state, requests, rings[0], rings[1])
    if status != DONE:
        return status, state[R_GRANT]
    return status, _account(work, times, counts, fetch, idle, state, queues)
