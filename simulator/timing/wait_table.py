# SPDX-License-Identifier: Apache-2.0
"""The wait table of a program: what each instruction waits for and costs, as integers for the
timing kernel.

The invariant: everything that follows from the program, the queue depths and the limits of the
units alone is resolved here, with whole arrays, into "instruction k waits for event e of
instruction j". Only the read channel is left to the kernel.
"""

from __future__ import annotations

import numpy as np

from vdla.hardware import timing as contract
from vdla.hardware.config import Config
from vdla.hardware.isa import (
    COL,
    EXTENSION,
    EXTENSION_COLUMN,
    QUEUES,
    SIDES,
    Opcode,
    Unit,
    instruction_bytes,
    popped_queue,
)
from vdla.simulator.stats.moved_bytes import entry_beats
from vdla.support.arrays import Ints

NONE = -1  # waits for nothing
NEVER = -2  # waits for an event that no instruction causes


# Columns of the table. PREV: the unit's previous instruction. POP_*: the instruction whose end
# pushes the token popped from that side. ROOM_*: the instruction whose start makes room for the
# token pushed to that side. COMMAND: the instruction whose start makes room in the command queue.
# LIMIT: the instruction that must have ended before this one starts.
FIELDS = (
    "unit", "kind", "prev", "pop_prev", "pop_next", "room_prev", "room_next", "command", "limit",
    "pads", "cycles", "tail", "base", "run", "y_runs", "y_stride", "z_runs", "z_stride", "push_prev", "push_next",
)  # fmt: skip
F = {name: index for index, name in enumerate(FIELDS)}

_LOOPED = (Opcode.GEMM, Opcode.VECTOR, EXTENSION)
_KIND_SYNC, KIND_CORE, KIND_READ, KIND_WRITE = range(4)

# The queue on each side of each unit, for popping and for pushing; -1 at the ends of the chain of
# units.
POP_QUEUE = np.array([[popped_queue(unit, side) for side in SIDES] for unit in Unit], np.int64)


def wait_table(config: Config, columns: Ints, stalls: Ints) -> Ints:
    """The table, `np.int64[n, len(FIELDS)]`, of linked instructions under the queue depths of
    `config`.

    `stalls[k]` are the extra cycles of a VECTOR instruction.
    """
    table = np.full((len(columns), len(FIELDS)), NONE, np.int64)
    table[:, F["unit"]] = columns[:, COL["unit"]]
    _fill_kinds(table, columns)
    _fill_cycles(config, table, columns, stalls)
    _fill_dma(config, table, columns)
    _fill_order(config, table, columns)
    for number in range(len(QUEUES)):
        _fill_queue(config, table, columns, number)
    return table


def _fill_kinds(table: Ints, columns: Ints) -> None:
    kinds = np.full(8, _KIND_SYNC, np.int64)
    kinds[list(_LOOPED)] = KIND_CORE
    kinds[Opcode.LOAD] = KIND_READ
    kinds[Opcode.STORE] = KIND_WRITE
    table[:, F["kind"]] = kinds[columns[:, COL["opcode"]]]


def _fill_cycles(config: Config, table: Ints, columns: Ints, stalls: Ints) -> None:
    """The cycles of compute instructions in the issue stage, and from there to their completion."""
    loops = columns[:, COL["loop0"]] * columns[:, COL["loop1"]]
    iterations = loops * (columns[:, COL["uop_end"]] - columns[:, COL["uop_begin"]])
    vectors = columns[:, COL["opcode"]] == Opcode.VECTOR
    table[:, F["cycles"]] = iterations + stalls + np.where(vectors, contract.ISSUE_DELAY, 0)
    table[:, F["tail"]] = np.where(vectors, 0, contract.ISSUE_DELAY) + contract.compute_depth(config)
    for rows, cycles in contract.extension_rows(config, columns, iterations):
        table[rows, F["cycles"]] = cycles
        table[rows, F["tail"]] = contract.compute_depth(config)


def _fill_dma(config: Config, table: Ints, columns: Ints) -> None:
    for name, value in dma_runs(config, columns).items():
        table[:, F[name]] = value


def dma_runs(config: Config, columns: Ints) -> dict[str, Ints]:
    """The padding and the runs of beats of each LOAD and STORE, by section 2 of the contract."""
    z, y, x = (columns[:, COL[name]] for name in ("z_size", "y_size", "x_size"))
    rows = columns[:, COL["y_before"]] + y + columns[:, COL["y_after"]]
    width = columns[:, COL["x_before"]] + x + columns[:, COL["x_after"]]
    row = x * entry_beats(config, columns)
    y_merge = (y == 1) | (columns[:, COL["y_stride"]] == row)
    plane = np.where(y_merge, y * row, row)
    z_merge = y_merge & ((z == 1) | (columns[:, COL["z_stride"]] == plane))
    has_data = (x > 0) & (y > 0)
    return {
        "pads": z * (rows * width - y * x),
        "base": columns[:, COL["dram"]],
        "run": np.where(has_data, np.where(z_merge, z * plane, plane), 0),
        "y_runs": np.where(y_merge, 1, y),
        "y_stride": columns[:, COL["y_stride"]],
        "z_runs": np.where(z_merge, 1, z),
        "z_stride": columns[:, COL["z_stride"]],
    }


def _fill_order(config: Config, table: Ints, columns: Ints) -> None:
    in_flight = {
        Unit.LOAD: contract.LOADS_IN_FLIGHT,
        Unit.COMPUTE: contract.COMPUTES_IN_FLIGHT,
        Unit.STORE: contract.STORES_IN_FLIGHT,
    }
    for unit, limit in in_flight.items():
        order = np.flatnonzero(table[:, F["unit"]] == unit)
        table[order[1:], F["prev"]] = order[:-1]
        _shifted(table, "command", order, config.command_depth)
        _shifted(table, "limit", order, limit)
    _fill_drains(table, columns)


def _shifted(table: Ints, name: str, order: Ints, distance: int) -> None:
    table[order[distance:], F[name]] = order[:-distance] if distance < len(order) else order[:0]


def _fill_drains(table: Ints, columns: Ints) -> None:
    """Compute drains before an instruction of another kind, and around LOAD and SYNC."""
    order = np.flatnonzero(table[:, F["unit"]] == Unit.COMPUTE)
    kind = columns[order, COL["opcode"]]
    same = (kind[1:] == kind[:-1]) & np.isin(kind[1:], _LOOPED)
    if columns.shape[1] > EXTENSION_COLUMN:
        number = columns[order, EXTENSION_COLUMN]
        same &= number[1:] == number[:-1]
    drains = order[1:][~same]
    table[drains, F["limit"]] = table[drains, F["prev"]]


def _fill_queue(config: Config, table: Ints, columns: Ints, number: int) -> None:
    """Match the pushes and the pops of a queue in program order."""
    queue, unit = QUEUES[number], columns[:, COL["unit"]]
    pushes = np.flatnonzero((unit == queue.producer) & (columns[:, COL[queue.push]] > 0))
    pops = np.flatnonzero((unit == queue.consumer) & (columns[:, COL[queue.pop]] > 0))
    matched = min(len(pushes), len(pops))
    table[pops, F[queue.pop]] = NEVER
    table[pops[:matched], F[queue.pop]] = pushes[:matched]
    table[pushes, F[queue.push]] = number
    late, room = pushes[config.token_depth :], F[queue.push.replace("push", "room")]
    table[late, room] = NEVER
    matched = min(len(late), len(pops))
    table[late[:matched], room] = pops[:matched]


def stream_beats(config: Config) -> int:
    """The beats of one instruction in the stream."""
    return instruction_bytes(config) // config.axi_bytes
