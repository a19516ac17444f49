# SPDX-License-Identifier: Apache-2.0
"""Instructions whose only operand lies in the weight buffer: windows move over it there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import vdla
from vdla import te
from vdla.compiler.map import MapError, candidates
from vdla.hardware.config import Config

TINY = Config.preset("tiny")
MACHINES = {
    "tiny": TINY,
    "batched": replace(TINY, batch=2, inp_kib=2, acc_kib=2, out_kib=2),
    "wide": replace(TINY, block_out=8, acc_kib=2, out_kib=2, wgt_kib=2),
}


def wide(value):
    return te.cast("int32", value)


def squares(config):
    """acc[b, o] += the squares of a row of weights: norms."""
    w, i = (
        te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w"),
        te.reduce_axis(config.block_in, "i"),
    )
    value = lambda b, o: te.sum(wide(w[o, i]) * wide(w[o, i]), axis=i)  # noqa: E731
    output = te.compute((config.batch, config.block_out), value, "acc")
    return vdla.Extension(name="squares", doc="Own.", output=output, scopes={"w": "wgt", "acc": "acc"})


def result_of(operator, **arrays):
    return operator.unpack(vdla.simulate(operator.program, operator.pack(**arrays)).outputs)


def norms(shape):
    *outer, terms = shape
    rows, k = te.placeholder(shape, "int8", "rows"), te.reduce_axis(terms, "k")
    return te.compute(tuple(outer), lambda *at: te.sum(wide(rows[(*at, k)]) * wide(rows[(*at, k)]), axis=k), "norms")


@pytest.mark.sampled
@pytest.mark.parametrize("machine", list(MACHINES))
@pytest.mark.parametrize("shape", [(10, 8), (1, 10, 8), (3, 5, 9), (2, 3, 4, 5), (40, 64)])
def test_norms_of_rows_are_exact(machine, shape):
    found = candidates(norms(shape), vdla.extend(MACHINES[machine], squares), 2).found
    used = [operator for operator in found if str(operator.mapping).startswith("squares")]
    rows = np.random.default_rng(0).integers(-128, 128, shape, np.int8)
    assert used
    for operator in used[:4]:
        assert np.array_equal(result_of(operator, rows=rows), (rows.astype(np.int32) ** 2).sum(axis=-1))
        assert vdla.verify(operator.program).ok


def test_rows_larger_than_the_weight_buffer_are_read_in_tiles():
    config = vdla.extend(TINY, squares)
    shape = (2 * config.wgt_depth, 12)
    operator = next(op for op in candidates(norms(shape), config, 2).found if str(op.mapping).startswith("squares"))
    rows = np.random.default_rng(1).integers(-128, 128, shape, np.int8)
    assert np.array_equal(result_of(operator, rows=rows), (rows.astype(np.int32) ** 2).sum(axis=-1))


def test_a_vector_that_is_less_than_an_entry_is_refused():
    def declare(config):
        w, step = te.placeholder((config.block_out,), config.wgt_dtype, "w"), te.reduce_axis(1, "step")
        value = lambda b, o: te.sum(wide(w[o]) * 3 - 1, axis=step)  # noqa: E731
        output = te.compute((config.batch, config.block_out), value, "acc")
        return vdla.Extension(name="vectors", doc="Own.", output=output, scopes={"w": "wgt", "acc": "acc"})

    rows, k = te.placeholder((6, 8), "int8", "rows"), te.reduce_axis(6, "k")
    layer = te.compute((8,), lambda n: te.sum(wide(rows[k, n]) * 3 - 1, axis=k), "layer")
    with pytest.raises(MapError, match=r"vectors of w must fill entries of 128 bits of the weight buffer, got 32"):
        candidates(layer, vdla.extend(TINY, declare), 1)
