# SPDX-License-Identifier: Apache-2.0
"""A table in the weight buffer, in which elements of accumulator entries are looked up."""

import vdla
from vdla import te


def declare(config):
    last = config.block_out * config.block_in - 1
    old = te.placeholder((config.batch, config.block_out), "int32", "old")
    table = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "table")
    shift = te.placeholder((1,), "int32", "shift")

    def value(b, o):
        at = te.clip(old[b, o] >> shift[0], 0, last)
        return te.cast("int32", table[at // config.block_in, at % config.block_in])

    return vdla.Extension(
        name="lut",
        doc="Replaces every element of an accumulator entry by an element of a table.",
        output=te.compute(old.shape, value, "acc"),
        scopes={"old": "acc", "table": "wgt", "shift": "immediate", "acc": "acc"},
        in_place="old",
        fields=[vdla.isa.PlugInField("shift", 5, "Bits that are dropped from a sum.")],
        interval=1,
        latency=2,
    )
