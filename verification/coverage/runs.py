# SPDX-License-Identifier: Apache-2.0
"""Coverage of run-time events: hazards by distance, stalls, full queues, limits in effect.

The distance of a hazard is the number of iterations between two uses of an accumulator entry, from
the micro-ops; it counts if the later instruction's results are compared. Queue states come from the
times and counters of a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from vdla.hardware import timing as contract
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Buffer, Opcode, Operand, Source, Unit, VectorOp
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats
from vdla.simulator.timing.vector_stalls import load_uops
from vdla.support.arrays import Bools, Ints
from vdla.verification.coverage.liveness import ComparedData

DISTANCES = range(1, 6)
FACTOR_DISTANCES = range(1, 4)
LIMITS = {
    "LOAD": contract.LOADS_IN_FLIGHT,
    "GEMM": contract.COMPUTES_IN_FLIGHT,
    "VECTOR": contract.COMPUTES_IN_FLIGHT,
    "STORE": contract.STORES_IN_FLIGHT,
}
COMMON = ("busy", "memory_latency", "memory_bandwidth", "commands", "idle")
WAITS = {
    "load": ("wait_load_to_compute", "wait_compute_to_load"),
    "compute": ("wait_load_to_compute", "wait_compute_to_load", "wait_compute_to_store", "wait_store_to_compute"),
    "store": ("wait_compute_to_store", "wait_store_to_compute"),
}
PUSHED = {("load", "wait_load_to_compute"), ("compute", "wait_compute_to_load")} | {
    ("compute", "wait_compute_to_store"),
    ("store", "wait_store_to_compute"),
}
PAIRS = ("conflict, conflict", "conflict, none", "none, conflict", "conflict on an entry just written")
PRODUCTS = ("dependent product alone", "dependent product with a conflict")
BACK_TO_BACK = (
    "GEMM starts in the cycle of the last read of the GEMM before",
    "GEMM of one iteration starts a cycle after a GEMM of one iteration",
)
MOST_ITERATIONS = 1 << 13
FIRST = 3

BINS: tuple[str, ...] = (
    *(f"{opcode} reads the sum written {d} before" for opcode in ("GEMM", "VECTOR") for d in DISTANCES),
    *(f"VECTOR reads as source the sum written {d} before" for d in DISTANCES),
    *(f"{opcode} reads the last sum of the {opcode} before" for opcode in ("GEMM", "VECTOR")),
    *(f"VECTOR multiplies the entry written {d} before" for d in FACTOR_DISTANCES),
    *(f"VECTOR {pair}" for pair in (*PAIRS, *PRODUCTS)),
    *(f"{unit} counts {counter}" for unit in ("fetch", *WAITS) for counter in COMMON),
    *(f"{unit} {'pushes to full' if (unit, wait) in PUSHED else 'pops from empty'} {wait.removeprefix('wait_')}"
      for unit, waits in WAITS.items() for wait in waits),
    *(f"command queue of {unit} full" for unit in WAITS),
    *(f"{limit} {name} in flight" for name, limit in LIMITS.items()),
    *(f"{name} held by the limit in flight" for name in LIMITS),
    *BACK_TO_BACK,
)  # fmt: skip


def count(program: Program, stats: RunStats, compared: ComparedData) -> Counter[str]:
    """Instructions (for counters: cycles) in each bin; `stats` belongs to a run of this program."""
    counts: Counter[str] = Counter(_hazards(program, compared))
    for unit, counters in stats.counters.items():
        counts.update({f"{unit} counts {name}": counters[name] for name in COMMON})
        counts.update({_wait(unit, name): counters[name] for name in WAITS.get(unit, ())})
    counts.update(_queues(program, stats))
    return +counts


def _wait(unit: str, name: str) -> str:
    verb = "pushes to full" if (unit, name) in PUSHED else "pops from empty"
    return f"{unit} {verb} {name.removeprefix('wait_')}"


# --- queues ---------------------------------------------------------------------------------------


def _queues(program: Program, stats: RunStats) -> Iterator[str]:
    opcodes = program.columns[:, COL["opcode"]]
    for unit in Unit:
        order = np.flatnonzero(program.columns[:, COL["unit"]] == unit)
        starts, ends, dispatches = stats.starts[order], stats.ends[order], stats.dispatches[order]
        depth = stats.config.command_depth - 1
        if (starts[: -depth or None] > dispatches[depth:]).any():
            yield f"command queue of {unit.name.lower()} full"
        yield from _in_flight(opcodes[order], starts, ends)
        if unit == Unit.COMPUTE:
            yield from _back_to_back(program.columns[order], starts)


def _in_flight(opcodes: Ints, starts: Ints, ends: Ints) -> Iterator[str]:
    for name, limit in LIMITS.items():
        near = limit - 1
        full = (ends[:-near] > starts[near:]) & (opcodes[near:] == Opcode[name])
        yield from [f"{limit} {name} in flight"] * bool(full.any())
        held = (ends[:-limit] + 1 == starts[limit:]) & full[:-1] & (opcodes[limit:] == Opcode[name])
        yield from [f"{name} held by the limit in flight"] * bool(held.any())


def _back_to_back(columns: Ints, starts: Ints) -> Iterator[str]:
    loops = columns[:, COL["loop0"]] * columns[:, COL["loop1"]]
    iterations = loops * (columns[:, COL["uop_end"]] - columns[:, COL["uop_begin"]])
    gemm = columns[:, COL["opcode"]] == Opcode.GEMM
    touching = gemm[:-1] & gemm[1:] & (starts[1:] == starts[:-1] + iterations[:-1])
    ones = touching & (iterations[:-1] == 1) & (iterations[1:] == 1)
    for name, mask in zip(BACK_TO_BACK, (touching, ones), strict=True):
        yield from [name] * bool(mask.any())


# --- hazards --------------------------------------------------------------------------------------


def _hazards(program: Program, compared: ComparedData) -> Iterator[str]:
    uops = np.zeros((program.config.uop_depth, 5), np.int64)
    before: tuple[int, int] | None = None  # opcode and last entry written
    for index, row in enumerate(program.columns):
        if row[COL["unit"]] != Unit.COMPUTE:
            continue
        if row[COL["opcode"]] not in (Opcode.GEMM, Opcode.VECTOR):
            before = None
            if row[COL["opcode"]] == Opcode.LOAD and row[COL["buffer"]] == Buffer.UOP:
                load_uops(program, row, int(program.tensor_of[index]), uops)
            continue
        opcode, sums, reads, source = _iterations(row, uops)
        previous, before = before, (opcode, int(sums[-1]))
        if not compared.instructions[index]:
            continue
        if previous == (opcode, int(sums[0])) and reads[0]:
            yield f"{Opcode(opcode).name} reads the last sum of the {Opcode(opcode).name} before"
        yield from _distances(f"{Opcode(opcode).name} reads the sum", sums, np.where(reads, sums, -1))
        if source is not None:
            yield from _distances("VECTOR reads as source the sum", sums, source)
            yield from _conflicts(program.config, sums, reads, source)
        yield from _products(program.config, row, sums, reads, source)


def _iterations(row: Ints, uops: Ints) -> tuple[int, Ints, Bools, Ints | None]:
    """(opcode, [entry written, whether its old value is read, source entry] of each iteration)."""
    kernel = uops[row[COL["uop_begin"]] : row[COL["uop_end"]]]
    first, second = (np.arange(row[COL[name]])[:MOST_ITERATIONS] for name in ("loop0", "loop1"))
    shape = (len(first), len(second), len(kernel))

    def entries(name: str, column: int) -> Ints:
        moved = first[:, None, None] * row[COL[f"{name}0"]] + second[:, None] * row[COL[f"{name}1"]]
        return np.asarray(np.broadcast_to(row[COL[name]] + moved + kernel[:, column], shape).ravel()[:MOST_ITERATIONS])

    sums = entries("acc", 0)
    vector = row[COL["opcode"]] == Opcode.VECTOR
    starts = np.broadcast_to(kernel[:, FIRST] * row[COL["init"]] > 0, shape).ravel()[:MOST_ITERATIONS]
    reads = ~starts & (not vector or row[COL["op"]] != VectorOp.MOV)
    used = vector and row[COL["source"]] == Source.ACC
    used = used and (row[COL["operand"]] == Operand.SRC or row[COL["op"]] == VectorOp.MAC)
    return int(row[COL["opcode"]]), sums, reads, entries("src", 1) if used else None


def _distances(what: str, written: Ints, read: Ints, distances: range = DISTANCES) -> Iterator[str]:
    """Counts a read at the distance of the latest write of its entry."""
    fresh = np.zeros(len(read), np.bool_)
    for distance in distances:
        matches = np.zeros(len(read), np.bool_)
        matches[distance:] = written[:-distance] == read[distance:]
        yield from [f"{what} written {distance} before"] * bool((matches & ~fresh).any())
        fresh |= matches


def _conflict(config: Config, sums: Ints, reads: Bools, source: Ints) -> Bools:
    half = config.acc_depth // 2
    return np.asarray(reads & (sums // half == source // half), np.bool_)


def _products(config: Config, row: Ints, sums: Ints, reads: Bools, source: Ints | None) -> Iterator[str]:
    """Counts products by the latest write of a factor, and those that wait for it."""
    op = row[COL["op"]]
    if row[COL["opcode"]] != Opcode.VECTOR or op not in (VectorOp.MUL, VectorOp.MAC):
        return
    multiplies = reads | (op == VectorOp.MAC)
    factors = [sums] if op == VectorOp.MUL else []
    factors += [] if source is None else [source]
    dependent = np.zeros(len(sums), np.bool_)
    for factor in factors:
        read = np.where(multiplies, factor, -1)
        yield from _distances("VECTOR multiplies the entry", sums, read, FACTOR_DISTANCES)
        dependent[1:] |= sums[:-1] == read[1:]
    conflict = np.zeros_like(dependent) if source is None else _conflict(config, sums, reads, source)
    masks = (dependent & ~conflict, dependent & conflict)
    yield from (f"VECTOR {product}" for product, where in zip(PRODUCTS, masks, strict=True) if where.any())


def _conflicts(config: Config, sums: Ints, reads: Bools, source: Ints) -> Iterator[str]:
    conflict = _conflict(config, sums, reads, source)
    now, then = conflict[:-1], conflict[1:]
    just = conflict[1:] & ((sums[:-1] == sums[1:]) | (sums[:-1] == source[1:]))
    masks = (now & then, now & ~then, ~now & then, just)
    yield from (f"VECTOR {pair}" for pair, where in zip(PAIRS, masks, strict=True) if where.any())
