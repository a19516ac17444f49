# SPDX-License-Identifier: Apache-2.0
"""The largest and the smallest elements of rows and their places, by an instruction on keys."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import vdla
from vdla import te
from vdla.compiler.certificates.certify import certify
from vdla.compiler.map import MapError, candidates
from vdla.compiler.map.keys import keys_of
from vdla.hardware.config import Config

TINY = Config.preset("tiny")
MACHINES = {
    "tiny": TINY,
    "batched": replace(TINY, batch=2, inp_kib=2, acc_kib=2, out_kib=2),
    "wide": replace(TINY, block_out=8, acc_kib=2, out_kib=2, wgt_kib=2),
}
NUMPY = {"argmax": np.argmax, "argmin": np.argmin}


def best(config, name):
    """acc[b, o] = the best key of a row of weights."""
    w, i = (
        te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w"),
        te.reduce_axis(config.block_in, "i"),
    )
    first = te.placeholder((1,), "int32", "first")

    def value(b, o):
        high, place = te.cast("int32", w[o, i]) << 16, i + first[0]
        return te.max(high - place, axis=i) if name == "argmax" else te.min(high + place, axis=i)

    return vdla.Extension(
        name=f"best_{name}",
        doc="The best key of a row.",
        output=te.compute((config.batch, config.block_out), value, "acc"),
        scopes={"w": "wgt", "first": "immediate", "acc": "acc"},
        fields=[vdla.isa.PlugInField("first", 16, "The place of the first element.")],
    )


def pair(name, shape, axes=(-1,), dtype="int8"):
    """Value and place of the best elements over some axes."""
    chosen = sorted(axis % len(shape) for axis in axes)
    reduced = {axis: te.reduce_axis(shape[axis], f"k{axis}") for axis in chosen}
    x = te.placeholder(shape, dtype, "x")
    outer = [extent for axis, extent in enumerate(shape) if axis not in reduced]

    def value(*at):
        index = iter(at)
        element = x[tuple(reduced[axis] if axis in reduced else next(index) for axis in range(len(shape)))]
        return getattr(te, name)(element, axis=[reduced[axis] for axis in chosen])

    return te.compute(outer or [1], value, "best") if outer else te.compute([1], lambda one: value(), "best")


def wanted(name, x, axes=(-1,)):
    """NumPy's value and place, row-major over several axes."""
    chosen = sorted(axis % x.ndim for axis in axes)
    outer = [axis for axis in range(x.ndim) if axis not in chosen]
    rows = x.transpose([*outer, *chosen]).reshape([*(x.shape[axis] for axis in outer), -1])
    place = NUMPY[name](rows, axis=-1)
    values = np.take_along_axis(rows, place[..., None], -1)[..., 0]
    return np.atleast_1d(values), np.atleast_1d(place).astype(np.int32)


@pytest.mark.sampled
@pytest.mark.parametrize("machine", list(MACHINES))
@pytest.mark.parametrize("name", list(NUMPY))
@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3, 5), (-1,)),
        ((1, 4), (-1,)),
        ((6, 33), (-1,)),
        ((7, 8), (0,)),
        ((2, 3, 4), (1, 2)),
        ((9,), (0,)),
    ],
)
def test_value_and_place_are_those_of_numpy(machine, name, shape, axes):
    config = vdla.extend(MACHINES[machine], partial(best, name=name))
    x = np.random.default_rng(len(shape)).integers(-3, 3, shape).astype(np.int8)
    x.flat[0], x.flat[-1] = -128, 127
    for part, expected in enumerate(wanted(name, x, axes)):
        operator = candidates(pair(name, shape, axes)[part], config).found[0]
        result = operator.unpack(vdla.simulate(operator.program, operator.pack(x=x)).outputs)
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result, expected)
        assert certify(operator).holds


def test_ties_go_to_the_lowest_position_that_is_given():
    config = vdla.extend(TINY, partial(best, name="argmax"))
    x, k = te.placeholder((2, 6), "int8", "x"), te.reduce_axis(6, "k")
    last = te.compute((2,), lambda n: te.argmax(x[n, k], axis=k, position=5 - k), "last")
    with pytest.raises(MapError, match=r"to be vk \* -1 \+ 5, got another order"):
        candidates(last[1], config)
    some = te.compute((2,), lambda n: te.argmax(x[n, k], axis=k, position=k + 100), "some")
    operator = candidates(some[1], config).found[0]
    data = np.array([[1, 7, 7, 0, 7, 2], [0, 0, 0, 0, 0, 0]], np.int8)
    result = operator.unpack(vdla.simulate(operator.program, operator.pack(x=data)).outputs)
    assert result.tolist() == [101, 100]


@pytest.mark.parametrize("name", list(NUMPY))
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_a_pair_is_better_just_if_its_key_is(name, dtype):
    """All pairs of elements, with the least and the greatest places between them."""
    keys = keys_of(pair(name, (2, 8), dtype=dtype)[1])
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    values = np.arange(low, high + 1)
    a, b = values[:, None, None, None], values[None, :, None, None]
    places = np.array([0, 1, 2, 65534, 65535])
    p, q = places[None, None, :, None], places[None, None, None, :]
    ours, theirs = (a << 16) + keys.sign * p, (b << 16) + keys.sign * q
    better = (a > b) | ((a == b) & (p < q)) if name == "argmax" else (a < b) | ((a == b) & (p < q))
    np.testing.assert_array_equal(ours > theirs if name == "argmax" else ours < theirs, better)
    assert ours.min() >= -(1 << 31) and ours.max() < 1 << 31
    read = keys.read(ours.astype(np.int32))
    np.testing.assert_array_equal(read, np.broadcast_to(p, read.shape))


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (
            lambda: pair("argmax", (2, 8), dtype="float32")[1],
            "elements of te.argmax must be integers for a key, got float32",
        ),
        (
            lambda: pair("argmax", (2, 8), dtype="int16")[1],
            "elements of te.argmax must fit a key of 32 bits with their positions, got int16",
        ),
        (
            lambda: pair("argmin", (2, 8), dtype="int32")[1],
            "elements of te.argmin must fit a key of 32 bits with their positions, got int32",
        ),
        (
            lambda: pair("argmax", (2, 65537))[1],
            "positions of te.argmax must be in 0..65535 for a key, got 0..65536",
        ),
        (lambda: pair("argmin", (5, 1))[1], "positions of te.argmin must differ to be chosen from, got 0 alone"),
    ],
)
def test_pairs_without_keys_are_refused(output, message):
    with pytest.raises(MapError) as error:
        candidates(output(), TINY)
    assert str(error.value) == message


def test_elements_of_sixteen_bits_have_keys_for_the_smallest():
    assert keys_of(pair("argmin", (2, 8), dtype="int16")[1]).sums.dtype == "int32"


def test_the_plain_machine_computes_values_and_no_places():
    operator = candidates(pair("argmax", (2, 8))[0], TINY).found[0]
    x = np.array([[3, 9, -1, 9, 0, 1, 2, 3], [-7, -8, -7, -9, -10, -128, -8, -9]], np.int8)
    assert operator.unpack(vdla.simulate(operator.program, operator.pack(x=x)).outputs).tolist() == [9, -7]
    with pytest.raises(MapError, match="some intrinsic must cover the expression, got none"):
        candidates(pair("argmax", (2, 8))[1], TINY)
