# SPDX-License-Identifier: Apache-2.0
"""Operands of which a step has a dimension whole: indexed by numbers, by data or in part; and the
axes of a step as numbers, with immediates that follow loops.
"""

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
RNG = np.random.default_rng(0)


def wide(value):
    return te.cast("int32", value)


def extension(config, name, value, **operands):
    """An instruction of operands in the input and the weight buffer, and of immediates."""
    output = te.compute((config.batch, config.block_out), value, "acc")
    scopes = {name: tensor for name, tensor in operands.items() if isinstance(tensor, str)}
    fields = [vdla.isa.PlugInField(name, 12, "Own.") for name, scope in scopes.items() if scope == "immediate"]
    return vdla.Extension(name=name, doc="Own.", output=output, scopes={**scopes, "acc": "acc"}, fields=fields)


def require_exact(layer, config, name, exact, most=3, **arrays):
    """The first programs with an instruction are verified, and have the exact results."""
    used = [op for op in candidates(layer, config, 2).found if str(op.mapping).startswith(name)][:most]
    assert used
    for operator in used:
        result = vdla.simulate(operator.program, operator.pack(**arrays)).outputs
        assert np.array_equal(operator.unpack(result), exact), operator.mapping
        assert vdla.verify(operator.program).ok


# --- numbers --------------------------------------------------------------------------------------


def complex_pairs(flat):
    """The real part of products of complex numbers."""

    def declare(config):
        half = config.block_in // 2
        shape = (2 * half,) if flat else (half, 2)
        x = te.placeholder((config.batch, *shape), config.inp_dtype, "x")
        w = te.placeholder((config.block_out, *shape), config.wgt_dtype, "w")
        i = te.reduce_axis(half, "i")
        part = lambda t, r, k: wide(t[r, 2 * i + k] if flat else t[r, i, k])  # noqa: E731
        value = lambda b, o: te.sum(part(x, b, 0) * part(w, o, 0) - part(x, b, 1) * part(w, o, 1), axis=i)  # noqa: E731
        return extension(config, "real", value, x="inp", w="wgt")

    return declare


def pairs_layer(rows, columns, terms, flat):
    shape = (2 * terms,) if flat else (terms, 2)
    x, w = te.placeholder((rows, *shape), "int8", "x"), te.placeholder((columns, *shape), "int8", "w")
    k = te.reduce_axis(terms, "k")
    part = lambda t, r, c: wide(t[r, 2 * k + c] if flat else t[r, k, c])  # noqa: E731
    value = lambda n, m: te.sum(part(x, n, 0) * part(w, m, 0) - part(x, n, 1) * part(w, m, 1), axis=k)  # noqa: E731
    return te.compute((rows, columns), value, "layer")


@pytest.mark.sampled
@pytest.mark.parametrize("machine", list(MACHINES))
@pytest.mark.parametrize("flat", [False, True], ids=["pairs", "strided"])
@pytest.mark.parametrize("plain_flat", [False, True], ids=["plain pairs", "plain strided"])
def test_products_of_complex_numbers_are_exact(machine, flat, plain_flat):
    layer = pairs_layer(6, 7, 10, plain_flat)
    x, w = RNG.integers(-128, 128, (6, 10, 2)), RNG.integers(-128, 128, (7, 10, 2))
    exact = x[..., 0] @ w[..., 0].T - x[..., 1] @ w[..., 1].T
    arrays = {"x": x.reshape(6, -1), "w": w.reshape(7, -1)} if plain_flat else {"x": x, "w": w}
    require_exact(layer, vdla.extend(MACHINES[machine], complex_pairs(flat)), "real", exact, **arrays)


def test_another_number_is_another_operand():
    x, w, k = te.placeholder((6, 8, 2), "int8", "x"), te.placeholder((7, 8, 2), "int8", "w"), te.reduce_axis(8, "k")
    value = lambda n, m: te.sum(wide(x[n, k, 0]) * wide(w[m, k, 1]) - wide(x[n, k, 1]) * wide(w[m, k, 1]), axis=k)  # noqa: E731
    swapped = te.compute((6, 7), value, "swapped")
    with pytest.raises(MapError, match=r"real.*: the value must have the form"):
        candidates(swapped, vdla.extend(TINY, complex_pairs(False)), 1)


# --- data -----------------------------------------------------------------------------------------


def sparse(flat):
    """Two of four: six bits of a weight are its value, two say which input it is for."""

    def declare(config):
        half = config.block_in // 2
        i, j = te.reduce_axis(half, "i"), te.reduce_axis(2, "j")
        k = te.reduce_axis(2 * half, "k")
        x = te.placeholder((config.batch, *((4 * half,) if flat else (half, 4))), config.inp_dtype, "x")
        w = te.placeholder((config.block_out, *((2 * half,) if flat else (half, 2))), config.wgt_dtype, "w")

        def value(b, o):
            weight = wide(w[o, k] if flat else w[o, i, j])
            chosen = x[b, 4 * (k // 2) + (weight & 3)] if flat else x[b, i, weight & 3]
            return te.sum((weight >> 2) * wide(chosen), axis=k if flat else [i, j])

        return extension(config, "sparse", value, x="inp", w="wgt")

    return declare


def densified(w):
    """[..., groups, 4] of [..., groups, 2] weights with their indices."""
    dense = np.zeros((*w.shape[:-1], 4), np.int64)
    for j in range(2):
        chosen = np.arange(4) == (w[..., j, None] & 3)
        dense += np.where(chosen, w[..., j, None] >> 2, 0)
    return dense


@pytest.mark.sampled
@pytest.mark.parametrize("machine", list(MACHINES))
@pytest.mark.parametrize("flat", [False, True], ids=["groups", "flat"])
def test_sparse_products_are_exact(machine, flat):
    x, w = te.placeholder((6, 44), "int8", "x"), te.placeholder((7, 22), "int8", "w")
    k = te.reduce_axis(22, "k")

    def value(n, m):
        weight = wide(w[m, k])
        return te.sum((weight >> 2) * wide(x[n, 4 * (k // 2) + (weight & 3)]), axis=k)

    layer = te.compute((6, 7), value, "layer")
    data, weights = RNG.integers(-128, 128, (6, 44)), RNG.integers(-128, 128, (7, 22))
    exact = data @ densified(weights.reshape(7, 11, 2)).reshape(7, 44).T
    require_exact(layer, vdla.extend(MACHINES[machine], sparse(flat)), "sparse", exact, x=data, w=weights)


def test_a_sparse_convolution_is_exact():
    x, w = te.placeholder((5, 4, 6, 6), "int8", "x"), te.placeholder((7, 3, 3, 5, 2), "int8", "w")
    c, j = te.reduce_axis(5, "c"), te.reduce_axis(2, "j")
    ky, kx = te.reduce_axis(3, "ky"), te.reduce_axis(3, "kx")

    def value(o, y, col):
        weight = wide(w[o, ky, kx, c, j])
        return te.sum((weight >> 2) * wide(x[c, weight & 3, y + ky, col + kx]), axis=[c, j, ky, kx])

    layer = te.compute((7, 4, 4), value, "layer")
    data, weights = RNG.integers(-128, 128, (5, 4, 6, 6)), RNG.integers(-128, 128, (7, 3, 3, 5, 2))
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), axis=(2, 3))
    exact = np.einsum("cqyxij,oijcq->oyx", windows, densified(weights))
    require_exact(layer, vdla.extend(MACHINES["batched"], sparse(False)), "sparse", exact, x=data, w=weights)


# --- parts of a dimension -------------------------------------------------------------------------


def block_floating(config):
    """The last element of an entry is the exponent of the others."""
    terms = config.block_in - 1
    x = te.placeholder((config.batch, terms + 1), config.inp_dtype, "x")
    w = te.placeholder((config.block_out, terms + 1), config.wgt_dtype, "w")
    i = te.reduce_axis(terms, "i")
    value = lambda b, o: te.sum(  # noqa: E731
        wide(x[b, i]) * wide(w[o, i]) << (wide(x[b, terms]) + wide(w[o, terms])), axis=i
    )
    return extension(config, "blocks", value, x="inp", w="wgt")


@pytest.mark.parametrize("machine", list(MACHINES))
def test_block_floating_point_is_exact(machine):
    size = MACHINES[machine].block_in
    x, w = te.placeholder((6, 5, size), "int8", "x"), te.placeholder((7, 5, size), "int8", "w")
    k, i = te.reduce_axis(5, "k"), te.reduce_axis(size - 1, "i")
    exponent = lambda n, m: wide(x[n, k, size - 1]) + wide(w[m, k, size - 1])  # noqa: E731
    value = lambda n, m: te.sum(wide(x[n, k, i]) * wide(w[m, k, i]) << exponent(n, m), axis=[k, i])  # noqa: E731
    layer = te.compute((6, 7), value, "layer")
    data, weights = RNG.integers(-128, 128, (6, 5, size)), RNG.integers(-128, 128, (7, 5, size))
    data[..., -1], weights[..., -1] = RNG.integers(0, 4, (6, 5)), RNG.integers(0, 4, (7, 5))
    sums = np.einsum("nki,mki->nmk", data[..., :-1], weights[..., :-1])
    exact = (sums << (data[:, None, :, -1] + weights[None, :, :, -1])).sum(axis=-1)
    require_exact(layer, vdla.extend(MACHINES[machine], block_floating), "blocks", exact, x=data, w=weights)


def test_fewer_terms_than_a_part_are_refused():
    x, w = te.placeholder((6, 5, 4), "int8", "x"), te.placeholder((7, 5, 4), "int8", "w")
    k, i = te.reduce_axis(5, "k"), te.reduce_axis(2, "i")
    value = lambda n, m: te.sum(  # noqa: E731
        wide(x[n, k, i]) * wide(w[m, k, i]) << (wide(x[n, k, 3]) + wide(w[m, k, 3])), axis=[k, i]
    )
    with pytest.raises(MapError, match="vi must be the same in every step, got vi"):
        candidates(te.compute((6, 7), value, "layer"), vdla.extend(TINY, block_floating), 1)


# --- places ---------------------------------------------------------------------------------------


def bit_serial(config):
    """A plane of bits, eight for each byte, each +1 or -1."""
    x = te.placeholder((config.batch, config.block_in, 8), config.inp_dtype, "x")
    w = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w")
    plane = te.placeholder((1,), "int32", "plane")
    i, bit = te.reduce_axis(config.block_in, "i"), te.reduce_axis(8, "bit")

    def value(b, o):
        signed = te.select((wide(w[o, i]) >> bit & 1) > 0, wide(x[b, i, bit]), 0 - wide(x[b, i, bit]))
        return te.sum(signed << plane[0], axis=[i, bit])

    return extension(config, "bits", value, x="inp", w="wgt", plane="immediate")


@pytest.mark.sampled
@pytest.mark.parametrize("machine", list(MACHINES))
@pytest.mark.parametrize("width", [1, 3])
def test_weights_of_any_width_are_exact(machine, width):
    x, w = te.placeholder((6, 9, 8), "int8", "x"), te.placeholder((width, 7, 9), "int8", "w")
    k, bit, p = te.reduce_axis(9, "k"), te.reduce_axis(8, "bit"), te.reduce_axis(width, "p")

    def value(n, m):
        signed = te.select((wide(w[p, m, k]) >> bit & 1) > 0, wide(x[n, k, bit]), 0 - wide(x[n, k, bit]))
        return te.sum(signed << p, axis=[p, k, bit])

    layer = te.compute((6, 7), value, "layer")
    data, planes = RNG.integers(-128, 128, (6, 9, 8)), RNG.integers(-128, 128, (width, 7, 9))
    signs = (planes[..., None] >> np.arange(8) & 1) * 2 - 1
    weights = sum(signs[number] << number for number in range(width))
    exact = np.einsum("nkl,mkl->nm", data, weights)
    require_exact(layer, vdla.extend(MACHINES[machine], bit_serial), "bits", exact, x=data, w=planes)


def largest(later):
    """The largest element and its number; of equal ones the first, or the `later` one."""

    def declare(config):
        rows = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "rows")
        first, i = te.placeholder((1,), "int32", "first"), te.reduce_axis(config.block_in, "i")
        value = lambda b, o: te.max(keyed(wide(rows[o, i]), i + first[0], later), axis=i)  # noqa: E731
        return extension(config, "largest", value, rows="wgt", first="immediate")

    return declare


def keyed(value, place, later):
    return (value << 16) + place if later else (value << 16) - place


def rows_layer(rows, terms, later=False):
    data, k = te.placeholder((rows, terms), "int8", "data"), te.reduce_axis(terms, "k")
    return te.compute((rows,), lambda n: te.max(keyed(wide(data[n, k]), k, later), axis=k), "layer")


@pytest.mark.sampled
@pytest.mark.parametrize("machine", list(MACHINES))
@pytest.mark.parametrize(("terms", "later"), [(37, False), (3, False), (40, True)])
def test_largest_elements_and_their_places_are_exact(machine, terms, later):
    data = RNG.integers(-8, 8, (11, terms))
    keys = (data << 16) + np.arange(terms) * (1 if later else -1)
    layer, config = rows_layer(11, terms, later), vdla.extend(MACHINES[machine], largest(later))
    require_exact(layer, config, "largest", keys.max(axis=1), data=data)
    if not later:
        assert np.array_equal(-keys.max(axis=1) & 0xFFFF, data.argmax(axis=1))


def test_a_later_place_that_wins_must_fill_entries():
    rule = r"terms must be a multiple of 4, since the place of a term beyond the last one may be the result, got 37"
    with pytest.raises(MapError, match=rule):
        candidates(rows_layer(11, 37, later=True), vdla.extend(TINY, largest(True)), 1)


def test_an_immediate_must_hold_every_place():
    with pytest.raises(MapError, match="first must be from 0 to 4095, got 0 to 4096"):
        candidates(rows_layer(4, 4100), vdla.extend(TINY, largest(False)), 1)


# --- no sums --------------------------------------------------------------------------------------


@pytest.mark.sampled
@pytest.mark.parametrize("machine", list(MACHINES))
@pytest.mark.parametrize("flat", [False, True], ids=["pairs", "strided"])
def test_differences_of_elements_of_a_lane_are_exact(machine, flat):
    def declare(config):
        shape = (2 * config.block_out,) if flat else (config.block_out, 2)
        x = te.placeholder((config.batch, *shape), config.inp_dtype, "x")
        part = lambda b, o, k: wide(x[b, 2 * o + k] if flat else x[b, o, k])  # noqa: E731
        return extension(config, "folded", lambda b, o: part(b, o, 0) - part(b, o, 1), x="inp")

    x = te.placeholder((5, 13, 2), "int8", "x")
    layer = te.compute((5, 13), lambda n, m: wide(x[n, m, 0]) - wide(x[n, m, 1]), "layer")
    data = RNG.integers(-128, 128, (5, 13, 2))
    require_exact(layer, vdla.extend(MACHINES[machine], declare), "folded", data[..., 0] - data[..., 1], x=data)
