# SPDX-License-Identifier: Apache-2.0
"""Sums of squares, computed by the array of multipliers."""

import vdla
from vdla import te


def declare(config):
    x = te.placeholder((config.batch, config.block_in), config.inp_dtype, "x")
    i = te.reduce_axis(config.block_in, "i")

    def square(b, i):
        return te.cast("int32", x[b, i]) * te.cast("int32", x[b, i])

    return vdla.Extension(
        name="power",
        doc="Adds the squares of inputs.",
        output=te.compute((config.batch, config.block_out), lambda b, o: te.sum(square(b, i), axis=i), "acc"),
        scopes={"x": "inp", "acc": "acc"},
        latency=vdla.array_port(config).latency,
        datapath="power.sv",
        array=True,
    )
