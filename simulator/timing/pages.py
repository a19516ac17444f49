# SPDX-License-Identifier: Apache-2.0
"""The memory behind the ports, by the part of section 2 of the contract on pages: its bus, its
banks, its refresh.

Positions on the bus are in bytes since cycle 0, at P_BUS bytes a cycle, so that they are integers.
"""

from __future__ import annotations

from vdla.simulator.support.jit import Int, helper
from vdla.simulator.timing.layout import (
    BANK_FREE,
    BANK_REFRESH,
    BANK_ROW,
    BANK_SIZE,
    BUS_FREE,
    BUS_SIZE,
    BUS_WRITES,
    P_BANKS,
    P_BEAT_BYTES,
    P_BUS,
    P_MEMORY_PAGE,
    P_MISS,
    P_REFRESH,
    P_REFRESH_INTERVAL,
    P_TURNAROUND,
    POSTED_AT,
    POSTED_BEAT,
    POSTED_BEATS,
    W_COUNT,
    W_SERVED,
)
from vdla.support.arrays import Ints


@helper
def serve(memory: Ints, params: Ints, at: Int, beat: Int, beats: Int, writes: Int) -> Int:
    """Serve a burst that comes at a cycle, after all earlier ones; the cycle in which it begins."""
    rate = params[P_BUS]
    page = beat // params[P_MEMORY_PAGE]
    row = page // params[P_BANKS]
    bank = BUS_SIZE + BANK_SIZE * (page % params[P_BANKS])
    turn = params[P_TURNAROUND] if memory[BUS_WRITES] != writes else 0
    begin = max(at * rate, memory[BUS_FREE] + turn * rate)
    refresh = 0
    refreshed = 0
    if params[P_REFRESH_INTERVAL] > 0:
        refresh = begin // (params[P_REFRESH_INTERVAL] * rate)
        if refresh > 0:
            refreshed = refresh * params[P_REFRESH_INTERVAL] + params[P_REFRESH]
            begin = max(begin, refreshed * rate)
    if memory[bank + BANK_ROW] != row or memory[bank + BANK_REFRESH] != refresh:
        opened = max(at, max(memory[bank + BANK_FREE], refreshed)) + params[P_MISS]
        begin = max(begin, opened * rate)
    memory[BUS_FREE] = begin + beats * params[P_BEAT_BYTES]
    memory[BUS_WRITES] = writes
    memory[bank + BANK_ROW] = row
    memory[bank + BANK_REFRESH] = refresh
    memory[bank + BANK_FREE] = -(-memory[BUS_FREE] // rate)
    return -(-begin // rate)


@helper
def read_wait(memory: Ints, posted: Ints, state: Ints, params: Ints, grant: Int, beat: Int, beats: Int) -> Int:
    """The cycles that a read burst waits for the memory, which serves writes before it first."""
    while state[W_SERVED] < state[W_COUNT] and posted[state[W_SERVED], POSTED_AT] <= grant:
        write = posted[state[W_SERVED]]
        serve(memory, params, write[POSTED_AT], write[POSTED_BEAT], write[POSTED_BEATS], 1)
        state[W_SERVED] += 1
    return serve(memory, params, grant + 1, beat, beats, 0) - (grant + 1)
