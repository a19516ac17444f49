# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution, nine taps a cycle, by the array: two rows lie in a line buffer."""

import vdla
from vdla import te
from vdla.isa import PlugInField

LONGEST = 128  # columns of an image, one of padding included


def wide(value):
    return te.cast("int32", value)


def declare(config):
    array = vdla.array_port(config)
    if config.block_in < 9:
        raise ValueError(f"block_in must be at least 9, the products of a result, got {config.block_in}")
    if config.inp_bits != config.wgt_bits:
        raise ValueError(f"weights must be as wide as pixels, got {config.wgt_dtype} and {config.inp_dtype}")
    lanes, pixel = config.block_out, (config.batch, config.block_out)
    rows = min(LONGEST, config.acc_depth)
    taps = vdla.State("taps", rows=9, shape=(lanes,), dtype=config.wgt_dtype)
    line = vdla.State("line", rows=rows, shape=(2, *pixel), dtype=config.inp_dtype)
    window = vdla.State("window", rows=1, shape=(3, 2, *pixel), dtype=config.inp_dtype)
    zero = te.const(0, config.inp_dtype)

    x = te.placeholder(pixel, config.inp_dtype, "x")
    w = te.placeholder((9, lanes), config.wgt_dtype, "w")
    above = te.placeholder(line.shape, config.inp_dtype, "above")  # this column, in the two rows above
    left_columns = te.placeholder(window.shape, config.inp_dtype, "left")  # three rows of the columns before
    top = te.placeholder((1,), "int32", "top")

    def column(r, b, o):
        held = te.select(top[0] > 0, zero, above[te.minimum(r, 1), b, o])
        return te.select(r < 2, held, x[b, o])

    r, c = te.reduce_axis(3, "r"), te.reduce_axis(3, "c")

    def total(b, o):
        value = te.select(c < 2, left_columns[r, te.minimum(c, 1), b, o], column(r, b, o))
        return te.sum(wide(value) * wide(w[3 * r + c, o]), axis=[r, c])

    def moved(r, c, b, o):
        return te.select(c < 1, left_columns[r, 1, b, o], column(r, b, o))

    step = vdla.Extension(
        name="dw",
        doc="Takes a pixel of each lane, and adds the products of the nine that end with it.",
        output=te.compute(pixel, total, "acc"),
        scopes={"x": "inp", "w": taps, "above": line, "left": window, "top": "immediate", "acc": "acc"},
        updates={
            line: te.compute(line.shape, lambda r, b, o: column(r + 1, b, o), "lowered"),
            window: te.compute(window.shape, moved, "moved"),
        },
        fields=[PlugInField("top", 1, "Whether the rows above are padding.")],
        latency=2 * array.columns + array.latency + 2,
        datapath="depthwise.sv",
        array=True,
        program="layer.py",
    )
    vector = te.placeholder((lanes,), config.wgt_dtype, "vector")
    load = vdla.Extension(
        name="dw_taps",
        doc="Writes the weights of a tap.",
        scopes={"vector": "wgt"},
        updates={taps: te.compute((lanes,), lambda o: vector[o], "tap")},
    )
    clear = vdla.Extension(
        name="dw_clear",
        doc="Clears a column of the line buffer, and the window.",
        scopes={},
        updates={
            line: te.compute(line.shape, lambda r, b, o: zero, "empty"),
            window: te.compute(window.shape, lambda r, c, b, o: zero, "closed"),
        },
    )
    return [step, load, clear]
