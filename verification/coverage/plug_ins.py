# SPDX-License-Identifier: Apache-2.0
"""Coverage of the instructions of extensions, from their ports and fields.

Bins are named after the instruction. What an instruction computes counts only if its results are
compared; what happens in time always counts. The bins of a machine leave out what its rules
exclude, such as a value of a field for which the interval would be 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import (
    COL,
    EXTENSION,
    Format,
    IsaError,
    OldSum,
    Opcode,
    PlugIn,
    Unit,
    check_rules,
    instruction_columns,
    isa_of,
)
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats
from vdla.simulator.timing.vector_stalls import load_uops
from vdla.support.arrays import Ints
from vdla.verification.coverage.fields import TOKENS
from vdla.verification.coverage.liveness import ComparedData

COUNTS = ("1", "2 to 4", "5 or more")
_FIRST, _LAST = 3, 4


def bins(config: Config) -> tuple[str, ...]:
    """The goals of a machine; none without extensions."""
    formats = [encoding for encoding in isa_of(config).formats.values() if encoding.plug_in is not None]
    return tuple(f"{encoding.name}{name}" for encoding in formats for name in _bins(config, encoding))


def _bins(config: Config, encoding: Format) -> Iterator[str]:
    plug_in = encoding.plug_in
    assert plug_in is not None, "the format of an extension"
    for name, values in _field_values(config, encoding).items():
        yield from (f".{name} {value}" for value in values)
    yield from (f" of {count} {what}" for count in COUNTS for what in ("micro-ops", "iterations"))
    yield from (f" {index} at {end}" for index in index_limits(config, plug_in) for end in ("the first", "the last"))
    yield from (f" {index}{loop} moves" for index in index_limits(config, plug_in) for loop in "01")
    yield from (f" {emit}" for emit in _emits(config, encoding))
    if plug_in.old is OldSum.ACCUMULATE:
        yield from (" begins a sum", " continues a sum")
    yield from (f" {token}" for token in TOKENS)
    yield from (" follows its own kind without draining", " follows another kind", " waits for a token from load")


# --- what a machine allows ------------------------------------------------------------------------


def _field_values(config: Config, encoding: Format) -> dict[str, dict[str, int]]:
    """The values to cover of a format's own fields, by field and name: those that rules allow."""
    assert encoding.plug_in is not None, "the format of an extension"
    names = {field.name for field in encoding.plug_in.fields}
    values: dict[str, dict[str, int]] = {}
    for slot in encoding.values:
        if slot.field.name in names:
            sought = {"min": slot.low, "zero": 0, "one": 1, "max": slot.high}
            allowed = {name: value for name, value in sought.items() if slot.low <= value <= slot.high}
            allowed = allowed if slot.field.signed else {k: v for k, v in allowed.items() if k != "min"}
            values[slot.field.name] = {
                k: v for k, v in allowed.items() if is_valid(config, encoding, {slot.field.name: v})
            }
    return values


def is_valid(config: Config, encoding: Format, fields: dict[str, Any]) -> bool:
    """Whether the rules of a format allow an instruction with these fields."""
    try:
        check_rules(config, instruction_columns(config, [encoding.cls(**fields)]))
    except IsaError:
        return False
    return True


def _emits(config: Config, encoding: Format) -> tuple[str, ...]:
    """What the format may send on its way out."""
    enum = next(slot.field.enum for slot in encoding.values if slot.field.name == "emit")
    assert enum is not None, "emit has names"
    return tuple(f"emits {code.name}" for code in enum if is_valid(config, encoding, {"emit": code}))


def index_limits(config: Config, plug_in: PlugIn) -> dict[str, int]:
    """The places that each index in use can have."""
    inputs = config.inp_depth if plug_in.writes_inputs else config.acc_depth
    limits = {"acc": min(inputs, config.acc_depth)} if plug_in.has_result else {}
    for index, port in (("src", plug_in.src), ("wgt", plug_in.wgt)):
        if port is not None:
            vectors = config.inp_vectors if port.buffer is Buffer.INP else config.wgt_vectors
            limits[index] = vectors if port.vector else config.depths[port.buffer] // port.entries
    return limits | {held.index: held.state.rows for held in plug_in.states if held.index is not None}


# --- counting -------------------------------------------------------------------------------------


def count(program: Program, stats: RunStats, compared: ComparedData) -> Counter[str]:
    """Instructions in each bin; `stats` belongs to a run of this program."""
    counts: Counter[str] = Counter()
    if not program.config.extensions:
        return counts
    isa = isa_of(program.config)
    uops = np.zeros((program.config.uop_depth, 5), np.int64)
    for index, row in enumerate(program.columns):
        if row[COL["opcode"]] == Opcode.LOAD and row[COL["buffer"]] == Buffer.UOP:
            load_uops(program, row, int(program.tensor_of[index]), uops)
        if row[COL["opcode"]] != EXTENSION:
            continue
        encoding = isa.format_at(row)
        hit = [token for token in TOKENS if row[COL[token]]]
        names = [f" {token}" for token in hit]
        if compared.instructions[index]:
            kernel = uops[row[COL["uop_begin"]] : row[COL["uop_end"]]]
            names += [*_values(program.config, encoding, row), *_forms(program.config, encoding, row, kernel)]
        counts.update(f"{encoding.name}{name}" for name in names)
    counts.update(_followed(program, stats))
    return counts


def _values(config: Config, encoding: Format, row: Ints) -> Iterator[str]:
    for name, values in _field_values(config, encoding).items():
        got = int(row[encoding.column(name)])
        yield from (f".{name} {value}" for value, number in values.items() if got == number)


def _forms(config: Config, encoding: Format, row: Ints, kernel: Ints) -> Iterator[str]:
    plug_in = encoding.plug_in
    assert plug_in is not None, "the format of an extension"
    loops = int(row[COL["loop0"]]), int(row[COL["loop1"]])
    yield f" of {_count(len(kernel))} micro-ops"
    yield f" of {_count(len(kernel) * loops[0] * loops[1])} iterations"
    for column, (index, limit) in zip(_columns(config, plug_in), index_limits(config, plug_in).items(), strict=True):
        steps = [int(row[COL[f"{index}{loop}"]]) for loop in "01"]
        yield from (
            f" {index}{loop} moves" for loop, step in zip("01", steps, strict=True) if step and loops[int(loop)] > 1
        )
        base, reach = int(row[COL[index]]), sum((loops[loop] - 1) * step for loop, step in enumerate(steps))
        if base + int(kernel[:, column].min()) == 0:
            yield f" {index} at the first"
        if base + reach + int(kernel[:, column].max()) == limit - 1:
            yield f" {index} at the last"
    enum = next(slot.field.enum for slot in encoding.values if slot.field.name == "emit")
    if enum is not None and (row[COL["emit"]] == 0 or kernel[:, _LAST].any()):
        yield f" emits {enum(int(row[COL['emit']])).name}"
    if plug_in.old is OldSum.ACCUMULATE:
        begins = kernel[:, _FIRST] * row[COL["init"]] > 0
        yield from [" begins a sum"] * bool(begins.any()) + [" continues a sum"] * bool((~begins).any())


def _columns(config: Config, plug_in: PlugIn) -> list[int]:
    return [("acc", "src", "wgt").index(index) for index in index_limits(config, plug_in)]


def _count(number: int) -> str:
    return COUNTS[0] if number == 1 else COUNTS[1] if number < 5 else COUNTS[2]


def _followed(program: Program, stats: RunStats) -> Iterator[str]:
    """What comes before each instruction in its unit, and whether both overlap."""
    isa, rows = isa_of(program.config), program.columns
    order = np.flatnonzero(rows[:, COL["unit"]] == Unit.COMPUTE).tolist()
    codes = isa.codes_of_columns(rows)
    for before, now in pairwise(order):
        if rows[now, COL["opcode"]] != EXTENSION:
            continue
        name = isa.formats[int(codes[now])].name
        if codes[before] != codes[now]:
            yield f"{name} follows another kind"
        elif stats.starts[now] <= stats.ends[before]:
            yield f"{name} follows its own kind without draining"
        if rows[now, COL["pop_prev"]] and stats.starts[now] > stats.ends[before] + 1:
            yield f"{name} waits for a token from load"
