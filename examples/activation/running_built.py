# SPDX-License-Identifier: Apache-2.0
"""The running sums of running.py, with a datapath."""

import vdla
from vdla import te


def declare(config):
    pixel = (config.batch, config.block_out)
    sums = vdla.State("sums", 4, pixel, "int32")
    x, row = te.placeholder(pixel, config.inp_dtype, "x"), te.placeholder(pixel, "int32", "row")

    def more(b, o):
        return row[b, o] + te.cast("int32", x[b, o])

    add = vdla.Extension(
        name="run",
        doc="Adds a vector to a row, and gives the row.",
        output=te.compute(pixel, more, "acc"),
        scopes={"x": "inp", "row": sums, "acc": "acc"},
        updates={sums: te.compute(pixel, more, "next")},
        latency=1,
        datapath="running.sv",
    )
    clear = vdla.Extension(
        name="run_clear",
        doc="Clears a row.",
        scopes={},
        updates={sums: te.compute(pixel, lambda b, o: te.const(0, "int32"), "none")},
    )
    return [add, clear]
