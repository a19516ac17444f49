# SPDX-License-Identifier: Apache-2.0
"""Runs of beats as bursts, and those of a STORE, by section 2 of the contract."""

from __future__ import annotations

from vdla.simulator.support.jit import Int, helper, inline_helper
from vdla.simulator.timing.layout import (
    BANDWIDTH,
    BASE,
    BUSY,
    P_BEAT,
    P_BURST,
    P_BUS,
    P_GAP,
    P_PAGE,
    P_PORT_DELAY,
    P_PORTS,
    P_STORE_SETUP,
    P_STORE_TAIL,
    P_WRITE_LATENCY,
    P_WRITES,
    POSTED_AT,
    POSTED_BEAT,
    POSTED_BEATS,
    RUN,
    STORE,
    T_C,
    T_F,
    T_S,
    W_COUNT,
    W_LAST,
    Y_RUNS,
    Y_STRIDE,
    Z_RUNS,
    Z_STRIDE,
)
from vdla.support.arrays import Ints


@inline_helper
def burst_beats(remaining: Int, address: Int, params: Ints) -> Int:
    """The beats of the next burst of a run, from its address and what remains of it."""
    return min(remaining, min(params[P_BURST], params[P_PAGE] - address % params[P_PAGE]))


@inline_helper
def advance(table: Ints, request: Ints, k: Int, beats: Int) -> bool:
    """Advance the burst iterator by `beats`; False at the end of the last run."""
    request[3] -= beats
    request[4] += beats
    if request[3] > 0:
        return True
    request[2] += 1
    if request[2] == table[k, Y_RUNS]:
        request[2] = 0
        request[1] += 1
    request[3] = table[k, RUN]
    request[4] = table[k, BASE] + request[1] * table[k, Z_STRIDE] + request[2] * table[k, Y_STRIDE]
    return bool(request[1] < table[k, Z_RUNS])


@helper
def write_bursts(
    table: Ints,
    times: Ints,
    state: Ints,
    requests: Ints,
    ring: Ints,
    posted: Ints,
    counts: Ints,
    params: Ints,
    k: Int,
) -> None:
    """Issue all bursts of a STORE: no other unit writes, so its start determines them."""
    request = requests[STORE]
    request[1] = request[2] = 0
    request[3] = table[k, RUN]
    request[4] = table[k, BASE]
    ready = times[k, T_S] + params[P_STORE_SETUP]
    beats = 0
    more = True
    while more:
        n = burst_beats(request[3], request[4], params)
        slot = state[W_COUNT] % params[P_WRITES]
        at = max(ready, ring[slot] + 1)
        if state[W_COUNT] > 0:
            at = max(at, state[W_LAST] + params[P_BEAT] + params[P_GAP])
        if params[P_BUS] > 0:
            write = posted[state[W_COUNT]]
            write[POSTED_AT], write[POSTED_BEAT], write[POSTED_BEATS] = at, request[4], n
        state[W_LAST] = at + (n * params[P_PORTS] - 1) * params[P_BEAT]
        ring[slot] = state[W_LAST] + params[P_WRITE_LATENCY] + params[P_PORT_DELAY]
        state[W_COUNT] += 1
        ready = state[W_LAST] + 1
        beats += n
        more = advance(table, request, k, n)
    times[k, T_F] = state[W_LAST] + 1
    times[k, T_C] = state[W_LAST] + params[P_WRITE_LATENCY] + params[P_STORE_TAIL]
    counts[k, BUSY] += params[P_STORE_SETUP] + beats
    counts[k, BANDWIDTH] += times[k, T_F] - times[k, T_S] - params[P_STORE_SETUP] - beats
