# SPDX-License-Identifier: Apache-2.0
"""Softmax over rows of scores: their maximum, powers of two, and the sum of these."""

import vdla
from vdla import te

ONE = 256  # 1.0 in fixed point
STEPS = 16  # of scores, in an exponent of 1


def wide(value):
    return te.cast("int32", value)


def power(difference):
    t = te.minimum(te.maximum(0 - difference, 0), 16 * STEPS - 1)
    return (2 * ONE - t % STEPS * (ONE // STEPS)) >> (t // STEPS + 1)


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
        ),
        vdla.Extension(
            name="power",
            doc="2 ** (sum / 16) of sums up to 0, where 256 is 1: a line between powers of two.",
            output=te.compute(shape, lambda b, o: power(old[b, o]), "acc"),
            scopes={"old": "acc", "acc": "acc"},
            in_place="old",
            latency=2,
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
