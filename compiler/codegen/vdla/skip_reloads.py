"""Leaves out instructions that load private state with what it holds already.

The lowering of each nest loads the state that it needs, such as the table of a stage, from a tile
of weights. Where the tile is loaded once and nothing else writes the state, the first load serves
all nests.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.macro_ops import MacroOps
from vdla.hardware.isa import Extended, Load


def skip_reloads(ops: MacroOps) -> MacroOps:
    """The operations in order, without loads of state that change nothing."""
    loaders = [number for number, form in enumerate(ops.forms) if _loads_state(form)]
    if not loaders:
        return ops
    writers = Counter(state for form in ops.forms for state in _written(form))
    filled = Counter[BufferTile]()
    for number, rows in ops.rows():
        form = ops.forms[number]
        if isinstance(form.instruction, Load):
            filled.update({tile: len(rows) for tile in form.tiles()})
    keep = np.ones(len(ops), np.bool_)
    for number, rows in ops.rows():
        form = ops.forms[number]
        alone = all(writers[state] == 1 for state in _written(form))
        if number in loaders and alone and all(filled[tile] == 1 for tile in form.tiles()):
            keep[rows[1:]] = (ops.offsets[rows[1:]] != ops.offsets[rows[:-1]]).any(axis=1)
    return MacroOps(ops.forms, ops.form[keep], ops.offsets[keep], ops.dram[keep])


def _loads_state(form: MacroOp) -> bool:
    """Whether a form does nothing but write states from tiles."""
    match form.instruction:
        case Extended(plug_in=plug_in):
            return not plug_in.writes_sums and all(port.operand is None for port in plug_in.states)
    return False


def _written(form: MacroOp) -> tuple[object, ...]:
    match form.instruction:
        case Extended(plug_in=plug_in):
            written: tuple[object, ...] = plug_in.written_states
            return written
    return ()
