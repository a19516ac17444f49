# SPDX-License-Identifier: Apache-2.0
"""Softmax over rows of scores: their maximum, powers of two, and the sum of these."""

import numpy as np

import vdla
from vdla import te

ONE = 256  # 1.0 in fixed point
STEPS = 16  # of scores, in an exponent of 1


def wide(value):
    return te.cast("int32", value)


def power(difference):
    t = te.minimum(te.maximum(0 - difference, 0), 16 * STEPS - 1)
    return (2 * ONE - t % STEPS * (ONE // STEPS)) >> (t // STEPS + 1)


def formulation(layer, config):
    """The largest elements of rows in a network, with a mask of zeros."""
    layer.definition.require("row_reduction", kind="max")
    (data,) = layer.definition.inputs
    matrices, rows, keys = data.shape
    mask, k = te.placeholder((keys,), "int8", "mask"), te.reduce_axis(keys, "k")
    most = te.compute((matrices, rows), lambda m, q: te.max(wide(mask[k]) + wide(data[m, q, k]), axis=k), "most")
    return vdla.Formulation(most, {"mask": np.zeros(keys, np.int8)})


def powers(layer, config):
    """A table of a network that has half the powers, of differences with the zero point 127."""
    layer.definition.require("look_up")
    data = layer.definition.inputs[0]
    below = 127 - np.arange(-128, 128)
    every = (2 * ONE - below % STEPS * (ONE // STEPS)) >> (below // STEPS + 2)
    if not np.array_equal(layer.constants["table"], np.minimum(every, 127)):
        raise vdla.LayerError("table must have powers of two, 64 for a half, of sixteenths, got others")
    sums = te.compute(data.shape, lambda *i: power(wide(data[i]) - 127 - STEPS), "powers")
    return vdla.Formulation(vdla.definitions.requantised(sums, len(data.shape) - 1)[1])


def declare(config):
    shape = (config.batch, config.block_out)
    mask = te.placeholder((config.batch, config.block_in), config.inp_dtype, "mask")
    rows = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "rows")
    i = te.reduce_axis(config.block_in, "i")
    largest = te.compute(shape, lambda b, o: te.max(wide(mask[b, i]) + wide(rows[o, i]), axis=i), "acc")
    old = te.placeholder(shape, "int32", "old")
    return [
        vdla.Extension(
            name="row_max",
            doc="The largest element of each row of a weight entry, with a mask added to all rows.",
            output=largest,
            scopes={"mask": "inp", "rows": "wgt", "acc": "acc"},
            latency=2,
            formulation=formulation,
        ),
        vdla.Extension(
            name="power",
            doc="2 ** (sum / 16) of sums up to 0, where 256 is 1: a line between powers of two.",
            output=te.compute(shape, lambda b, o: power(old[b, o]), "acc"),
            scopes={"old": "acc", "acc": "acc"},
            in_place="old",
            latency=2,
            formulation=powers,
        ),
    ]


TOKENS, SIZE = 64, 32


def scores():
    definition = vdla.definitions.attention_scores(batch=1, heads=1, tokens=TOKENS, size=SIZE)
    return vdla.definitions.requantised(definition.output, 1)[1]


def largest(queries=TOKENS, keys=TOKENS):
    score, mask = te.placeholder((queries, keys), "int8", "score"), te.placeholder((keys,), "int8", "mask")
    k = te.reduce_axis(keys, "k")
    return te.compute((queries,), lambda q: te.max(wide(mask[k]) + wide(score[q, k]), axis=k), "largest")


def shares(queries=TOKENS, keys=TOKENS):
    score, most = te.placeholder((queries, keys), "int8", "score"), te.placeholder((queries,), "int8", "most")
    return te.compute((queries, keys), lambda q, k: power(wide(score[q, k]) - wide(most[q])), "shares")


def stored():
    return vdla.definitions.requantised(shares(), 0)[1]


def totals():
    return vdla.definitions.matrix_vector(rows=TOKENS, columns=TOKENS).output


def values():
    definition = vdla.definitions.attention_values(batch=1, heads=1, tokens=TOKENS, size=SIZE)
    return vdla.definitions.requantised(definition.output, 3)[1]
