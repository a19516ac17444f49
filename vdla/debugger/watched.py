# SPDX-License-Identifier: Apache-2.0
"""The instructions that read or write a place, by their footprints."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from vdla.debugger.errors import DebugError
from vdla.debugger.places import BUFFERS, DRAM, Location, states
from vdla.hardware.config import Buffer
from vdla.hardware.isa import COL, Opcode, PlugInState, Where
from vdla.hardware.program import Program
from vdla.simulator.verify.accesses import AccessWalk

RAW = "raw"


def accessing(place: Location, program: Program, *, writes: bool) -> list[int]:
    """The instructions that read or write what a place names.

    DebugError for an index outside, and for one of a tensor, whose accesses are not told apart.
    """
    if place.name.startswith(DRAM):
        return _in_dram(place, program, writes=writes)
    state = next((state for state in states(program) if state.label == place.name), None)
    if state is not None:
        return _in_state(state, place.entries(state.rows), program, writes=writes)
    if place.name != RAW:
        buffer = BUFFERS[place.name]
        return _on_chip(buffer, place.entries(program.config.depths[buffer]), program, writes=writes)
    slots, size = place.entries(program.config.out_slots), program.config.out_depth // program.config.out_slots
    return _on_chip(Buffer.OUT, range(slots.start * size, slots.stop * size), program, writes=writes)


def _on_chip(buffer: Buffer, entries: range, program: Program, *, writes: bool) -> list[int]:
    walk, result = AccessWalk(program), []
    for index, row in enumerate(program.columns.tolist()):
        accesses = [access for _, access in walk.visit(index, row)]
        if _meets((one.where for one in accesses if one.buffer == buffer and one.writes == writes), entries):
            result.append(index)
    return result


def _in_state(state: PlugInState, rows: range, program: Program, *, writes: bool) -> list[int]:
    walk, result = AccessWalk(program), []
    for index, row in enumerate(program.columns.tolist()):
        walk.visit(index, row)
        accesses = walk.footprints.state_accesses(row, walk.kernel(row))
        if _meets((one.where for one in accesses if one.state == state and one.writes == writes), rows):
            result.append(index)
    return result


def _in_dram(place: Location, program: Program, *, writes: bool) -> list[int]:
    if place.index:
        raise DebugError(f"debug: a tensor must be watched as a whole, got an index; write {place.name}")
    names = [f"{DRAM}{tensor.name}" for tensor in program.tensors]
    stores = program.columns[:, COL["opcode"]] == Opcode.STORE
    chosen: list[int] = np.flatnonzero((program.tensor_of == names.index(place.name)) & (stores == writes)).tolist()
    return chosen


def _meets(wheres: Iterable[Where], entries: range) -> bool:
    """Whether one of some sets of entries has one of a range."""
    return any(_meet(where, entries) for where in wheres)


def _meet(where: Where, entries: range) -> bool:
    if isinstance(where, slice):
        return bool(range(max(where.start, entries.start), min(where.stop, entries.stop)))
    return bool(((where >= entries.start) & (where < entries.stop)).any())
