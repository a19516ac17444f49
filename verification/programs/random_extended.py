# SPDX-License-Identifier: Apache-2.0
"""What is drawn for an instruction of an extension, from its plug-in: operands and own fields.

Nothing here knows an extension: ports say which entries a step reads, formats and rules which
values its fields may have, formulas what they cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import (
    Emit,
    Format,
    IsaError,
    OldSum,
    PlugIn,
    Port,
    Slot,
    StagedEmit,
    StatePort,
    check_rules,
    instruction_columns,
    isa_of,
    own_fields,
    reader,
)
from vdla.hardware.timing import extension_step
from vdla.support.arrays import Bools
from vdla.verification.programs.random_state import Drawn, RandomState

Mask = Bools

DRAWS = 8
"""Draws of an instruction's own fields: some break a rule or take too long."""
MOST_CYCLES = 1 << 16
"""The most cycles of all steps; for most instructions 64 for each allowed iteration."""
_CYCLES_EACH = 64


def draws_init(encoding: Format) -> bool:
    """Whether an instruction of the format may begin sums anew."""
    return encoding.plug_in is None or encoding.plug_in.old is OldSum.ACCUMULATE


def reads_old_sum(plug_in: PlugIn) -> bool:
    """Whether a step reads the entry that it writes."""
    return plug_in.old in (OldSum.READ, OldSum.ACCUMULATE)


def writes_inputs(encoding: Format) -> bool:
    """Whether a step of the format computes an entry of the input buffer."""
    return encoding.plug_in is not None and encoding.plug_in.writes_inputs


def writes_sums(encoding: Format) -> bool:
    """Whether a step of the format computes an accumulator entry."""
    return encoding.plug_in is None or encoding.plug_in.writes_sums


def emit_of(config: Config, emit: StagedEmit) -> Emit | StagedEmit:
    """What is sent on its way out, as the formats of a machine name it."""
    return Emit(emit) if config.stage is None else emit


# --- operands -------------------------------------------------------------------------------------


def operand_masks(state: RandomState, plug_in: PlugIn) -> Iterator[tuple[str, Mask]]:
    """Each index in use except for that of sums, and which of its places may be used."""
    for index, port in (("src", plug_in.src), ("wgt", plug_in.wgt)):
        if port is not None:
            yield index, _places(state, port)
    for held in plug_in.states:
        if held.index is not None:
            rows = state.rows(held.state)
            yield held.index, rows if held.operand is not None else np.ones_like(rows)


def _places(state: RandomState, port: Port) -> Mask:
    if port.vector:
        return vectors_of(state, port.buffer)
    return np.asarray(state.written[port.buffer].reshape(-1, port.entries).all(axis=1), np.bool_)


def vectors_of(state: RandomState, buffer: Buffer) -> Mask:
    """Which vectors of block_out elements a buffer of activations or weights holds."""
    config = state.config
    entry, vector = config.entry_bytes[buffer], config.out_entry_bytes
    if buffer == Buffer.WGT:
        vector = config.wgt_vector_bytes
    entries = state.written[buffer]
    if vector <= entry:
        return np.repeat(entries, entry // vector)
    return np.asarray(entries.reshape(-1, vector // entry).all(axis=1), np.bool_)


# --- private state --------------------------------------------------------------------------------


def fill_states(state: RandomState, count: int) -> None:
    """Admits instructions that write all rows of private states, as far as `count` goes.

    Two rounds, since those of one state may read another.
    """
    for encoding in [*_writers(state.config), *_writers(state.config)]:
        for held in encoding.plug_in.states if encoding.plug_in is not None else ():
            if held.writes and not state.rows(held.state).all() and len(state.drawn) < count:
                drawn = _filling(state, encoding, held)
                if drawn is not None:
                    state.admit(drawn)


def _writers(config: Config) -> list[Format]:
    return [item for item in isa_of(config).formats.values() if item.plug_in is not None and item.plug_in.states]


def _filling(state: RandomState, encoding: Format, held: StatePort) -> Drawn | None:
    """An instruction with a step for each row of a state, its operands at one place."""
    still = np.flatnonzero((state.uops[:, :3] == 0).all(axis=1) & state.written[Buffer.UOP])
    if not len(still) or encoding.plug_in is None:
        return None
    fields: dict[str, Any] = {"uop_begin": int(still[0]), "uop_end": int(still[0]) + 1, "loop0": held.state.rows}
    fields |= {index: int(mask.argmax()) for index, mask in operand_masks(state, encoding.plug_in)}
    if encoding.plug_in.writes_sums:
        fields["acc"] = int(state.written[Buffer.ACC].argmax())
    if held.index is not None:
        fields |= {held.index: 0, f"{held.index}0": 1}
    values = own_values(state, encoding, {**fields, "loop1": 1}, held.state.rows)
    if values is None:
        return None
    fields |= values
    return Drawn(encoding.cls(**fields))


# --- fields ---------------------------------------------------------------------------------------


def own_values(state: RandomState, encoding: Format, fields: Mapping[str, Any], most: int) -> dict[str, int] | None:
    """Values of the fields of a format's own beside `fields`: of extremes, 0, 1 and any.

    None if no draw keeps the rules of the format and a cost in proportion to `most` iterations.
    """
    if encoding.plug_in is None:
        return {}
    names = {field.name for field in encoding.plug_in.fields}
    slots = [slot for slot in encoding.values if slot.field.name in names]
    for _ in range(DRAWS):
        drawn = {slot.field.name: _value(state, slot) for slot in slots}
        if _allowed(state, encoding, {**fields, **drawn}, most):
            return drawn
    return None


def _value(state: RandomState, slot: Slot) -> int:
    anything = int(state.rng.integers(slot.low, slot.high + 1))
    return state.one((slot.low, slot.high, 0, min(1, slot.high), anything, anything))


def _allowed(state: RandomState, encoding: Format, fields: Mapping[str, Any], most: int) -> bool:
    columns = instruction_columns(state.config, [encoding.cls(**fields)])
    try:
        check_rules(state.config, columns)
    except IsaError:
        return False
    assert encoding.plug_in is not None, "the format of an extension"
    step = extension_step(encoding.plug_in, own_fields(encoding.plug_in, reader(columns, isa_of(state.config).col)))
    iterations = fields["loop0"] * fields["loop1"] * (fields["uop_end"] - fields["uop_begin"])
    return bool(np.max(step) * iterations <= (MOST_CYCLES if state.chance(0.1) else _CYCLES_EACH * most))
