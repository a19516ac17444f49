# SPDX-License-Identifier: Apache-2.0
"""An instruction for absolute differences, and expressions to evaluate it on."""

import vdla
from vdla import te


def wide(value):
    return te.cast("int32", value)


def declare(config):
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    i = te.reduce_axis(config.block_in, "i")

    def difference(b, o):
        return te.sum(te.abs(wide(inp[b, i]) - wide(wgt[o, i])), axis=i)

    output = te.compute((config.batch, config.block_out), difference, "acc")
    scopes = {"inp": "inp", "wgt": "wgt", "acc": "acc"}
    return vdla.Extension(name="differences", doc="Adds absolute differences.", output=output, scopes=scopes)


def pairs(term, name):
    a, b = te.placeholder((6, 16), "int8", "a"), te.placeholder((8, 16), "int8", "b")
    k = te.reduce_axis(16, "k")
    return te.compute((6, 8), lambda n, m: te.sum(term(wide(a[n, k]), wide(b[m, k])), axis=k), name)


def matching():
    return pairs(lambda a, b: te.abs(a - b), "matching")


def product():
    return vdla.definitions.dense(rows=6, in_features=16, out_features=8)


def search():
    return pairs(lambda a, b: a * b, "correlation"), matching()
