# SPDX-License-Identifier: Apache-2.0
import vdla
from vdla import te


def declare(config):
    x = te.placeholder((config.batch, config.block_in), config.inp_dtype, "x")
    w = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w")
    i = te.reduce_axis(config.block_in, "i")

    def value(b, o):
        difference = te.cast("int32", x[b, i]) - te.cast("int32", w[o, i])
        return te.sum(difference * difference, axis=i)

    return vdla.Extension(
        name="distance",
        doc="Adds squares of differences.",
        output=te.compute((config.batch, config.block_out), value, "acc"),
        scopes={"x": "inp", "w": "wgt", "acc": "acc"},
        latency=2,
    )
