# SPDX-License-Identifier: Apache-2.0
"""Loads of state: a table is copied from the weight buffer before the results that go through it.

Every nest whose results go through a stage loads its state first. Copies that change nothing are
left out: in a function by `skip_reloads`, in a chain, where functions take turns, from the order of
all operations, after it is known. Until then a copy and its reader stay together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.macro_ops import NO_TILE, MacroOps, TiledOps
from vdla.hardware.isa import Extended, Load

Ints = NDArray[np.int64]


def skip_reloads(ops: MacroOps) -> MacroOps:
    """The operations in order, without loads of state that change nothing."""
    loaders = [number for number, form in enumerate(ops.forms) if _loads_state(form)]
    if not loaders:
        return ops
    writers = Counter(state for form in ops.forms for state in written_states(form))
    filled = Counter[BufferTile]()
    for number, rows in ops.rows():
        form = ops.forms[number]
        if isinstance(form.instruction, Load):
            filled.update({tile: len(rows) for tile in form.tiles()})
    keep = np.ones(len(ops), np.bool_)
    for number, rows in ops.rows():
        form = ops.forms[number]
        alone = all(writers[state] == 1 for state in written_states(form))
        if number in loaders and alone and all(filled[tile] == 1 for tile in form.tiles()):
            keep[rows[1:]] = (ops.offsets[rows[1:]] != ops.offsets[rows[:-1]]).any(axis=1)
    return MacroOps(ops.forms, ops.form[keep], ops.offsets[keep], ops.dram[keep])


def _loads_state(form: MacroOp) -> bool:
    """Whether a form does nothing but write states from tiles."""
    match form.instruction:
        case Extended(plug_in=plug_in):
            return not plug_in.has_result and all(port.operand is None for port in plug_in.states)
    return False


def written_states(form: MacroOp) -> tuple[object, ...]:
    """The private states that a form writes rows of."""
    match form.instruction:
        case Extended(plug_in=plug_in):
            written: tuple[object, ...] = plug_in.written_states
            return written
    return ()


# --- in chains ------------------------------------------------------------------------------------


def is_state_load(ops: MacroOps) -> NDArray[np.bool_]:
    """Of each operation, whether it does nothing but write states from tiles."""
    return np.array([_loads_state(form) for form in ops.forms], np.bool_)[ops.form]


def with_readers(ops: TiledOps) -> TiledOps:
    """The operations in groups: loads of state with the operation behind them."""
    loads = is_state_load(ops.ops)
    if not loads.any():
        return ops
    begins = np.concatenate([[True], ~loads[:-1]])
    return replace(ops, group=np.cumsum(begins) - 1)


def contents(ops: TiledOps, first: int) -> Ints:
    """The number of what each load of state reads, counted from `first`: that of its tile; 0 where
    the tile is filled several times, and for other operations.
    """
    result = np.zeros(len(ops), np.int64)
    fills = np.zeros(len(ops.entries), np.int64)
    for number, rows in ops.ops.rows():
        if isinstance(ops.ops.forms[number].instruction, Load):
            tiles = ops.tile[rows]
            np.add.at(fills, tiles[tiles != NO_TILE], 1)
    loads = np.flatnonzero(is_state_load(ops.ops))
    for row in loads.tolist():
        tiles = ops.tile[row][ops.tile[row] != NO_TILE]
        if len(tiles) == 1 and fills[tiles[0]] == 1:
            result[row] = first + int(tiles[0]) + 1
    return result


def changes_state(ops: MacroOps, content: Sequence[int]) -> NDArray[np.bool_]:
    """Of each operation in order, whether it is anything but a load of what its states hold."""
    written = [written_states(form) for form in ops.forms]
    loads = is_state_load(ops)
    keep = np.ones(len(ops), np.bool_)
    held: dict[object, tuple[object, ...]] = {}
    touching = np.array([bool(states) for states in written], np.bool_)[ops.form]
    for row in np.flatnonzero(touching).tolist():
        states = written[ops.form[row]]
        key = (ops.forms[ops.form[row]].instruction, content[row], tuple(ops.offsets[row].tolist()))
        known = bool(loads[row]) and content[row] > 0
        keep[row] = not (known and all(held.get(state) == key for state in states))
        held.update(dict.fromkeys(states, key if known else ()))
    return keep
