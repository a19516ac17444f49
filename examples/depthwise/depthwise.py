# SPDX-License-Identifier: Apache-2.0
"""Depthwise convolution, fifteen taps a cycle, by the array: two rows lie in a line buffer."""

import vdla
from vdla import te
from vdla.isa import PlugInField

LONGEST = 512  # columns of the line buffer: those of an image with padding, or of several


def wide(value):
    return te.cast("int32", value)


def declare(config):
    array = vdla.array_port(config)
    if config.block_in < 15:
        raise ValueError(f"block_in must be at least 15, the products of a step, got {config.block_in}")
    if config.inp_bits != config.wgt_bits:
        raise ValueError(f"weights must be as wide as pixels, got {config.wgt_dtype} and {config.inp_dtype}")
    lanes, pixel = config.block_out, (config.batch, config.block_out)
    rows = min(LONGEST, config.acc_depth)
    taps = vdla.State("taps", rows=15, shape=(lanes,), dtype=config.wgt_dtype)
    line = vdla.State("line", rows=rows, shape=(2, *pixel), dtype=config.inp_dtype)
    window = vdla.State("window", rows=1, shape=(3, 4, *pixel), dtype=config.inp_dtype)
    zero = te.const(0, config.inp_dtype)

    x = te.placeholder(pixel, config.inp_dtype, "x")
    w = te.placeholder((15, lanes), config.wgt_dtype, "w")
    above = te.placeholder(line.shape, config.inp_dtype, "above")  # this column, in the two rows above
    left_columns = te.placeholder(window.shape, config.inp_dtype, "left")  # three rows of the columns before
    top, fill, alone = (te.placeholder((1,), "int32", name) for name in ("top", "fill", "alone"))

    def column(r, b, o):
        held = te.select(top[0] > 0, te.cast(config.inp_dtype, fill[0]), above[te.minimum(r, 1), b, o])
        return te.select(te.all_of(r < 2, alone[0] < 1), held, x[b, o])

    r, c = te.reduce_axis(3, "r"), te.reduce_axis(5, "c")

    def total(b, o):
        value = te.select(c < 4, left_columns[r, te.minimum(c, 3), b, o], column(r, b, o))
        return te.sum(wide(value) * wide(w[5 * r + c, o]), axis=[r, c])

    def moved(r, c, b, o):
        next_column = te.select(c < 3, left_columns[r, te.minimum(c + 1, 3), b, o], column(r, b, o))
        return te.select(alone[0] > 0, left_columns[r, c, b, o], next_column)

    step = vdla.Extension(
        name="dw",
        doc="Takes a pixel of each lane, and adds the products of the 3x5 that end with it.",
        output=te.compute(pixel, total, "acc"),
        scopes={
            **{"x": "inp", "w": taps, "above": line, "left": window, "acc": "acc"},
            **{"top": "immediate", "fill": "immediate", "alone": "immediate"},
        },
        updates={
            line: te.compute(line.shape, lambda r, b, o: column(r + 1, b, o), "lowered"),
            window: te.compute(window.shape, moved, "moved"),
        },
        fields=[
            PlugInField("top", 1, "Whether the rows above are padding."),
            PlugInField("fill", config.inp_bits, "The value of this padding.", signed=True),
            PlugInField("alone", 1, "Whether the pixel is in all three rows, and the window stays."),
        ],
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
    factors = te.placeholder(pixel, config.inp_dtype, "factors")
    minus, odd = (te.placeholder((1,), "int32", name) for name in ("minus", "odd"))

    def part(o):
        factor = wide(factors[0, o]) - minus[0]
        return te.cast(config.wgt_dtype, te.select(odd[0] > 0, factor & 1, factor >> 1))

    split = vdla.Extension(
        name="dw_factors",
        doc="Writes half of an entry of the input buffer, or its lowest bit, as the weights of a tap.",
        scopes={"factors": "inp", "minus": "immediate", "odd": "immediate"},
        updates={taps: te.compute((lanes,), part, "factor")},
        fields=[
            PlugInField("minus", config.inp_bits, "What is subtracted before.", signed=True),
            PlugInField("odd", 1, "Whether it is the lowest bit."),
        ],
    )
    clear = vdla.Extension(
        name="dw_clear",
        doc="Clears a column of the line buffer, a tap, and the window.",
        scopes={},
        updates={
            line: te.compute(line.shape, lambda r, b, o: zero, "empty"),
            taps: te.compute((lanes,), lambda o: te.const(0, config.wgt_dtype), "none"),
            window: te.compute(window.shape, lambda r, c, b, o: zero, "closed"),
        },
    )
    return [step, load, split, clear]
