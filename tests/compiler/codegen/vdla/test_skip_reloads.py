# SPDX-License-Identifier: Apache-2.0
"""Loads of private state that change nothing are left out, and no others."""

import numpy as np
import pytest
from helpers.stateful import table

import vdla
from vdla.compiler.codegen.vdla.macro_op import BufferTile, MacroOp
from vdla.compiler.codegen.vdla.macro_ops import MacroOps
from vdla.compiler.codegen.vdla.state_loads import skip_reloads
from vdla.hardware.config import Buffer, Config
from vdla.hardware.isa import Gemm, Load, MicroOp, isa_of

TABLE_LOAD = isa_of(vdla.extend(Config.preset("tiny"), table)).format_named("table_load").cls
TILE, OTHER = BufferTile("table", Buffer.WGT, 32), BufferTile("other", Buffer.WGT, 32)
FILL, PRODUCT = MacroOp(Load(Buffer.WGT), {"sram": (TILE, 0)}), MacroOp(Gemm(), {"wgt": (OTHER, 0)}, (MicroOp(),))
COPY, COPY_OTHER = (MacroOp(TABLE_LOAD(loop0=64), {"wgt": (tile, 0)}, (MicroOp(),)) for tile in (TILE, OTHER))


def ops(*rows, forms=(FILL, COPY, PRODUCT, COPY_OTHER)):
    """Operations of (form, offset)."""
    form, offsets = (np.array(values, np.int64) for values in zip(*rows, strict=True))
    return MacroOps(tuple(forms[: form.max() + 1]), form, offsets.reshape(-1, 1), np.zeros(len(rows), np.int64))


@pytest.mark.parametrize(
    ("rows", "kept"),
    [
        ([(0, 0), (1, 0), (2, 0), (1, 0), (2, 0), (1, 0)], [0, 1, 2, 4]),
        ([(0, 0), (1, 0), (1, 64), (1, 0), (1, 0)], [0, 1, 2, 3]),  # another table, and the first again
        ([(0, 0), (1, 0), (0, 0), (1, 0)], [0, 1, 2, 3]),  # the tile is filled anew
        ([(0, 0), (1, 0), (3, 0), (1, 0)], [0, 1, 2, 3]),  # something else writes the state
        ([(0, 0), (2, 0), (2, 0)], [0, 1, 2]),
    ],
)
def test_only_what_changes_nothing_is_left_out(rows, kept):
    found = skip_reloads(ops(*rows))
    assert found.form.tolist() == [rows[k][0] for k in kept]
    assert found.offsets.ravel().tolist() == [rows[k][1] for k in kept]
