# SPDX-License-Identifier: Apache-2.0
"""Operands that are groups of entries with a dimension of their own, as pixels before lanes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import vdla
from vdla import te
from vdla.compiler.map import candidates
from vdla.hardware.config import Config

TINY = Config.preset("tiny")
MACHINES = {
    "tiny": TINY,
    "batched": replace(TINY, batch=2, inp_kib=2, acc_kib=2, out_kib=2),
    "wide": replace(TINY, block_out=8, acc_kib=2, out_kib=2, wgt_kib=2),
}


def reducing(reduce, count=4):
    """acc[b, o] combined with the elements of a lane of `count` pixels."""

    def declare(config):
        x = te.placeholder((config.batch, count, config.block_out), config.inp_dtype, "x")
        j = te.reduce_axis(count, "j")
        value = lambda b, o: reduce(te.cast("int32", x[b, j, o]), axis=j)  # noqa: E731
        output = te.compute((config.batch, config.block_out), value, "acc")
        return vdla.Extension(name="pixels", doc="Own.", output=output, scopes={"x": "inp", "acc": "acc"})

    return declare


def flat(place):
    """acc[b, o] = the largest over j of four pixels in one row of elements."""

    def declare(config):
        lanes, j = config.block_out, te.reduce_axis(4, "j")
        x = te.placeholder((config.batch, 4 * lanes), config.inp_dtype, "x")
        value = lambda b, o: te.max(te.cast("int32", x[b, place(j, o, lanes)]), axis=j)  # noqa: E731
        output = te.compute((config.batch, lanes), value, "acc")
        return vdla.Extension(name="pixels", doc="Own.", output=output, scopes={"x": "inp", "acc": "acc"})

    return declare


def result_of(operator, **arrays):
    return operator.unpack(vdla.simulate(operator.program, operator.pack(**arrays)).outputs)


@pytest.mark.sampled
@pytest.mark.parametrize("machine", list(MACHINES))
@pytest.mark.parametrize(("kernel", "strides", "pads"), [(2, 2, 0), (3, 2, 1), (2, 1, 0)])
def test_pooling_by_groups_of_pixels_is_exact(machine, kernel, strides, pads):
    config = vdla.extend(MACHINES[machine], reducing(te.max))
    layer = vdla.definitions.pooling(
        batch=1, channels=6, size=(9, 9), kernel=kernel, strides=strides, pads=pads, kind="max"
    )
    x = np.random.default_rng(kernel).integers(-128, 128, (1, 6, 9, 9), np.int8)
    padded = np.pad(x, [(0, 0), (0, 0), (pads, pads), (pads, pads)], constant_values=-128)
    places = np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), axis=(2, 3))
    exact = places[:, :, ::strides, ::strides].max(axis=(4, 5))
    used = [op for op in candidates(layer.output, config, 2).found if str(op.mapping).startswith("pixels")]
    for operator in used[:4]:
        assert np.array_equal(result_of(operator, data=x), exact), operator.mapping
        assert vdla.verify(operator.program).ok
    assert used


@pytest.mark.parametrize("terms", [1, 4, 6, 9])
def test_sums_along_a_group_are_exact(terms):
    config = vdla.extend(TINY, reducing(te.sum, count=2))
    rows, k = te.placeholder((terms, 7), "int8", "rows"), te.reduce_axis(terms, "k")
    sums = te.compute((7,), lambda n: te.sum(te.cast("int32", rows[k, n]), axis=k), "sums")
    data = np.random.default_rng(terms).integers(-128, 128, (terms, 7), np.int8)
    used = [op for op in candidates(sums, config, 1).found if str(op.mapping).startswith("pixels")]
    assert used and all(np.array_equal(result_of(op, rows=data), data.sum(axis=0, dtype=np.int32)) for op in used)


def test_sums_along_two_dimensions_of_an_entry_are_exact():
    def declare(config):
        x = te.placeholder((config.batch, config.block_in // 2, 2), config.inp_dtype, "x")
        i, c = te.reduce_axis(config.block_in // 2, "i"), te.reduce_axis(2, "c")
        value = lambda b, o: te.sum(te.cast("int32", x[b, i, c]), axis=[i, c])  # noqa: E731
        output = te.compute((config.batch, config.block_out), value, "acc")
        return vdla.Extension(name="pairs", doc="Own.", output=output, scopes={"x": "inp", "acc": "acc"})

    rows, k, c = te.placeholder((6, 5, 2), "int8", "rows"), te.reduce_axis(5, "k"), te.reduce_axis(2, "c")
    layer = te.compute((6,), lambda n: te.sum(te.cast("int32", rows[n, k, c]), axis=[k, c]), "layer")
    config = vdla.extend(replace(TINY, batch=2, inp_kib=2, acc_kib=2, out_kib=2), declare)
    used = [op for op in candidates(layer, config, 1).found if str(op.mapping).startswith("pairs")]
    data = np.random.default_rng(0).integers(-128, 128, (6, 5, 2), np.int8)
    assert used and all(np.array_equal(result_of(op, rows=data), data.sum(axis=(1, 2))) for op in used)


@pytest.mark.sampled
@pytest.mark.parametrize("machine", list(MACHINES))
@pytest.mark.parametrize(
    "place", [lambda j, o, lanes: j * lanes + o, lambda j, o, lanes: 4 * o + j], ids=["groups", "interleaved"]
)
def test_an_index_of_several_axes_is_an_index_for_each(machine, place):
    config = vdla.extend(MACHINES[machine], flat(place))
    layer = vdla.definitions.pooling(batch=1, channels=5, size=(8, 8), kernel=2, strides=2, kind="max")
    x = np.random.default_rng(0).integers(-128, 128, (1, 5, 8, 8), np.int8)
    exact = x.reshape(1, 5, 4, 2, 4, 2).max(axis=(3, 5))
    used = [op for op in candidates(layer.output, config, 1).found if str(op.mapping).startswith("pixels")]
    assert used and all(np.array_equal(result_of(op, data=x), exact) for op in used[:4])


@pytest.mark.parametrize(
    "place",
    [
        lambda j, o, lanes: 2 * j + o,  # elements of two lanes
        lambda j, o, lanes: (j * lanes + o) % (4 * lanes - 1),
        lambda j, o, lanes: j * lanes,  # no lane of its own
    ],
)
def test_other_indices_have_no_mapping(place):
    config = vdla.extend(TINY, flat(place))
    layer = vdla.definitions.pooling(batch=1, channels=5, size=(8, 8), kernel=2, strides=2, kind="max")
    found = candidates(layer.output, config, 1).found
    assert found and not any(str(op.mapping).startswith("pixels") for op in found)
