# SPDX-License-Identifier: Apache-2.0
"""Merges LOADs of weights that lie behind one another in DRAM: fewer instructions, longer bursts.

Each of these fills a tile that nothing else fills, so that the tiles can be one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.codegen.vdla.macro_op import field_unit
from vdla.compiler.codegen.vdla.macro_ops import FormTable, TiledOps
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Load
from vdla.support.arrays import occurrences

Ints = NDArray[np.int64]

MOST_BYTES = 2048
"""Bytes of a merged LOAD: more would hold up the space of the buffer and what is loaded next."""


def merge_loads(config: Config, ops: TiledOps) -> TiledOps:
    """The operations with one LOAD in place of several, where the first one is."""
    runs = [run for run in _runs(config, ops) if len(run) > 1]
    if not runs:
        return ops
    table = FormTable()
    number = np.array([table.number(form) for form in ops.ops.forms], np.int64)
    form, entries = number[ops.ops.form], ops.entries.copy()
    target, shift = np.arange(len(entries)), np.zeros(len(entries), np.int64)
    keep = np.ones(len(ops), np.bool_)
    for run in runs:
        tiles = ops.tile[run, 0]
        sizes = ops.entries[tiles]
        target[tiles], shift[tiles] = tiles[0], np.cumsum(sizes) - sizes
        entries[tiles[0]], keep[run[1:]] = sizes.sum(), False
        load: Any = ops.ops.forms[ops.ops.form[run[0]]]
        whole = replace(load.instruction, x_size=int(sizes.sum()))
        form[run[0]] = table.number(replace(load, instruction=whole))
    moved = replace(ops.ops, offsets=ops.ops.offsets + _shifts(config, ops, shift))
    changed = replace(moved, forms=tuple(table.forms), form=form).take(np.flatnonzero(keep))
    tile = np.where(ops.tile < 0, ops.tile, target[ops.tile])
    _, group = np.unique(ops.group[keep], return_inverse=True)
    return replace(ops, ops=changed, tile=tile[keep], entries=entries, group=group)


def _runs(config: Config, ops: TiledOps) -> Iterator[list[int]]:
    """Rows of LOADs that can be one, in order."""
    most = MOST_BYTES // config.wgt_entry_bytes
    beats = config.wgt_entry_bytes // config.axi_bytes
    rows = np.flatnonzero([_loads_weights(form.instruction) for form in np.array(ops.ops.forms, object)[ops.ops.form]])
    fills = occurrences(ops.tile[rows, 0], len(ops.entries))
    run, size, ending = list[int](), 0, (None, -1)
    for row in rows.tolist():
        form, tile = ops.ops.forms[ops.ops.form[row]], ops.tile[row, 0]
        count, place = int(ops.entries[tile]), (form.tensor, int(ops.ops.dram[row]))
        alone = fills[tile] == 1 and _fills(form.instruction, count) and ops.ops.offsets[row, 0] == 0
        if not alone or place != ending or size + count > most:
            yield run
            run, size = [], 0
        if alone:
            run.append(row)
            size, ending = size + count, (form.tensor, place[1] + count * beats)
    yield run


def _loads_weights(instruction: object) -> bool:
    return isinstance(instruction, Load) and instruction.buffer == Buffer.WGT


def _fills(load: Any, entries: int) -> bool:  # noqa: ANN401  a Load
    """Whether a LOAD is of one row, which fills its tile."""
    padded = load.y_before or load.y_after or load.x_before or load.x_after
    return not padded and load.y_size == load.z_size == 1 and load.x_size == entries


def _shifts(config: Config, ops: TiledOps, shift: Ints) -> Ints:
    """How far each base moves, in the units of its field; `shift` has entries by tile."""
    result = np.zeros(ops.ops.offsets.shape, np.int64)
    for number, rows in ops.ops.rows():
        form = ops.ops.forms[number]
        for position, name in enumerate(form.bases):
            unit = field_unit(config, form.instruction, name)
            result[rows, position] = shift[ops.tile[rows, position]] * unit.denominator // unit.numerator
    return result
