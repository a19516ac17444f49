# SPDX-License-Identifier: Apache-2.0
"""Terms beyond the last one of a sum change no result, whatever a step computes of its operands."""

from __future__ import annotations

import numpy as np
import pytest

import vdla
from vdla import te
from vdla.compiler.map import MapError, candidates
from vdla.hardware.config import Config

TINY = Config.preset("tiny")


def wide(value):
    return te.cast("int32", value)


def agreement(x, w):
    """Zero for zeros nowhere, but for a byte of which half the bits are set."""
    return 8 - 2 * wide(te.popcount(x ^ w))


def product(x, w):
    return wide(x) * wide(w)


def offset(x, w):
    """Zero where x is -3."""
    return (wide(x) + 3) * (wide(w) * wide(w) + 1)


def never_zero(x, w):
    return (wide(x) | 1) * (wide(w) | 1)


def declared(term, reduce):
    def declare(config):
        x = te.placeholder((config.batch, config.block_in), config.inp_dtype, "x")
        w = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w")
        i = te.reduce_axis(config.block_in, "i")
        output = te.compute(
            (config.batch, config.block_out), lambda b, o: reduce(term(x[b, i], w[o, i]), axis=i), "acc"
        )
        scopes = {"x": "inp", "w": "wgt", "acc": "acc"}
        return vdla.Extension(name="own", doc="Own.", output=output, scopes=scopes)

    return vdla.extend(TINY, declare)


def layer(term, reduce, terms):
    """[5, 6] results of `terms` terms each."""
    a, b = te.placeholder((5, terms), "int8", "a"), te.placeholder((6, terms), "int8", "b")
    k = te.reduce_axis(terms, "k")
    return te.compute((5, 6), lambda n, m: reduce(term(a[n, k], b[m, k]), axis=k), "layer")


EXACT = {
    agreement: lambda x, w: (
        8 - 2 * np.unpackbits((x ^ w).view(np.uint8)[..., None], axis=-1).sum(axis=-1, dtype=np.int32)
    ),
    product: lambda x, w: x.astype(np.int32) * w,
    offset: lambda x, w: (x.astype(np.int32) + 3) * (w.astype(np.int32) ** 2 + 1),
    never_zero: lambda x, w: (x.astype(np.int32) | 1) * (w | 1),
}


def result_of(operator, **arrays):
    return operator.unpack(vdla.simulate(operator.program, operator.pack(**arrays)).outputs)


@pytest.mark.sampled
@pytest.mark.parametrize("terms", [1, 3, 4, 5, 11])
@pytest.mark.parametrize(
    ("term", "reduce", "combined"),
    [
        (agreement, te.sum, np.sum),
        (product, te.sum, np.sum),
        (offset, te.sum, np.sum),
        (product, te.max, np.max),
        (never_zero, te.min, np.min),
    ],
)
def test_sums_of_any_length_are_exact(term, reduce, combined, terms):
    found = candidates(layer(term, reduce, terms), declared(term, reduce), 1).found
    rng = np.random.default_rng(terms)
    a, b = rng.integers(-128, 128, (5, terms), np.int8), rng.integers(-128, 128, (6, terms), np.int8)
    exact = combined(EXACT[term](a[:, None], b[None]), axis=2)
    used = [operator for operator in found if "own:" in str(operator.mapping)]
    assert used
    for operator in used:
        assert np.array_equal(result_of(operator, a=a, b=b), exact), operator.mapping


@pytest.mark.parametrize("fill", [0, -128, 7])
def test_a_padded_image_is_exact(fill):
    """The fill of the image also stands in the lanes beyond its channels."""
    image, taps = te.placeholder((6, 6, 3), "int8", "image"), te.placeholder((5, 3, 3, 3), "int8", "taps")
    ky, kx, c = te.reduce_axis(3, "ky"), te.reduce_axis(3, "kx"), te.reduce_axis(3, "c")
    padded = te.pad(image, (1, 1, 0), (1, 1, 0), fill, "padded")
    value = lambda y, x, o: te.sum(agreement(padded[y + ky, x + kx, c], taps[o, ky, kx, c]), axis=[ky, kx, c])  # noqa: E731
    found = candidates(te.compute((6, 6, 5), value, "layer"), declared(agreement, te.sum), 1).found
    rng = np.random.default_rng(0)
    pixels, weights = (rng.integers(-128, 128, shape, np.int8) for shape in ((6, 6, 3), (5, 3, 3, 3)))
    wider = np.pad(pixels, [(1, 1), (1, 1), (0, 0)], constant_values=fill)
    places = np.lib.stride_tricks.sliding_window_view(wider, (3, 3), axis=(0, 1))
    terms = EXACT[agreement](places[:, :, None], weights.transpose(0, 3, 1, 2)[None, None])
    for operator in found[:6]:
        assert np.array_equal(result_of(operator, image=pixels, taps=weights), terms.sum(axis=(3, 4, 5)))


def test_terms_that_no_element_makes_zero_fill_whole_entries():
    machine = declared(never_zero, te.sum)
    with pytest.raises(MapError) as error:
        candidates(layer(never_zero, te.sum, 5), machine, 1)
    assert str(error.value).endswith("terms must be a multiple of 4, since no padding of x, w makes a term 0, got 5")
    operator = candidates(layer(never_zero, te.sum, 8), machine, 1).found[0]
    rng = np.random.default_rng(1)
    a, b = rng.integers(-128, 128, (5, 8), np.int8), rng.integers(-128, 128, (6, 8), np.int8)
    assert np.array_equal(result_of(operator, a=a, b=b), EXACT[never_zero](a[:, None], b[None]).sum(axis=2))
