# SPDX-License-Identifier: Apache-2.0
"""Names of the indices in the event loop's arrays: parameters, times of instructions, state.

The invariant: arrays are indexed by these names only.
"""

from __future__ import annotations

import numpy as np

from vdla.simulator.timing.wait_table import FIELDS, F

BUSY, LATENCY, BANDWIDTH, WAIT, COMMANDS, IDLE = 0, 1, 2, 3, 7, 8

UNKNOWN = -1
FAR = 1 << 62
LOAD, COMPUTE, STORE, FETCH = np.arange(4)

# Parameters of the machine, by index of an integer array.
PARAMS = (
    "read_latency", "write_latency", "outstanding_reads", "outstanding_writes", "beat_cycles", "burst_gap",
    "burst_beats", "page_beats", "stream_base", "stream_beats", "fetch_buffer", "load_tail",
    "store_setup", "limit", "dispatch_delay", "command_delay", "load_setup", "store_tail", "ports", "merge_delay",
    "read_delay", "port_delay", "bus_bytes", "banks", "memory_page", "page_miss", "refresh_interval", "refresh_cycles",
    "turnaround", "beat_bytes",
)  # fmt: skip
(
    P_READ_LATENCY, P_WRITE_LATENCY, P_READS, P_WRITES, P_BEAT, P_GAP, P_BURST, P_PAGE, P_STREAM, P_WORD,
    P_FETCH_BUFFER, P_LOAD_TAIL, P_STORE_SETUP, P_LIMIT,
    P_DISPATCH_DELAY, P_COMMAND_DELAY, P_LOAD_SETUP, P_STORE_TAIL, P_PORTS, P_MERGE_DELAY, P_READ_DELAY,
    P_PORT_DELAY, P_BUS, P_BANKS, P_MEMORY_PAGE, P_MISS, P_REFRESH_INTERVAL, P_REFRESH, P_TURNAROUND, P_BEAT_BYTES,
) = range(len(PARAMS))  # fmt: skip

# Times of an instruction, by column. Q: the first cycle in which it requests bursts. COVER: the
# last cycle covered by read bursts of its unit before it.
TIMES = ("arrival", "D", "S", "F", "C", "E", "Q", "COVER")
# Not literals: Numba would compile the helpers once for each.
T_A, T_D, T_S, T_F, T_C, T_E, T_Q, T_COVER = np.arange(len(TIMES))

UNIT, KIND, PREV, POP_PREV, POP_NEXT, ROOM_PREV, ROOM_NEXT, COMMAND, LIMIT, PADS = (F[name] for name in FIELDS[:10])
CYCLES, TAIL, BASE, RUN, Y_RUNS, Y_STRIDE, Z_RUNS, Z_STRIDE, PUSH_PREV, PUSH_NEXT = (F[name] for name in FIELDS[10:])

# State, by index: the progress of each unit and of the two memory channels.
NEXT_S, NEXT_E, NEXT_D = 0, 3, 6  # per unit: instruction to start, to end; the one to dispatch
COVERED = 7  # per requester, by unit number (FETCH = 3): last cycle covered by its read bursts
R_LAST, R_GRANT, R_COUNT, W_LAST, W_COUNT = 11, 12, 13, 14, 15
# Fetch: beats granted, last grant, dispatches counted, next cycle to count.
F_BEATS, F_GRANT, F_COUNTED, F_MARK = 16, 17, 18, 19
ACTIVE = 20  # per unit: its LOAD with bursts to request, or NONE
PENDING = 23  # per unit: its LOAD that has started but neither padded nor requested, or NONE
PORT_LAST = 26  # per port: the last port beat of its bursts so far
R_SLOT, R_PORT = 30, 31  # of the next read burst: its place among outstanding ones, its port
W_SERVED = 32  # write bursts that the memory behind the ports has served
STATE_SIZE = 33
ITERATOR = 5  # request time, z, y, beats left in the run, address

# The memory behind the ports: the end of what its bus has moved, whether that was a write; then by
# bank the open row, the number of refreshes before it was opened, and when it was last used.
BUS_FREE, BUS_WRITES, BUS_SIZE = range(3)
BANK_ROW, BANK_REFRESH, BANK_FREE, BANK_SIZE = range(4)

# A write burst that the memory has taken: when its first beat came, its address, its length.
POSTED_AT, POSTED_BEAT, POSTED_BEATS, POSTED_SIZE = range(4)

DONE, DEADLOCK, TIMEOUT = range(3)
