# SPDX-License-Identifier: Apache-2.0
"""Small extensions with private state for tests: a table on the way out, a line buffer, a sum."""

import vdla
from vdla import te


def table(config):
    """A stage that looks results up, and the instruction that writes a row of its table."""
    values, lanes = 1 << config.out_bits, config.block_out
    held = vdla.State("table", values // lanes, (lanes,), config.out_dtype)
    vector = te.placeholder((lanes,), config.wgt_dtype, "vector")
    load = vdla.Extension(
        name="table_load",
        doc="Writes a row of the table.",
        scopes={"vector": "wgt"},
        updates={held: te.compute((lanes,), lambda o: vector[o], "row")},
        interval=2,
    )
    x = te.placeholder((config.batch, lanes), config.out_dtype, "x")
    rows = te.placeholder((values // lanes, lanes), config.out_dtype, "rows")

    def value(b, o):
        at = te.cast("int32", x[b, o]) + values // 2
        return rows[at // lanes, at % lanes]

    stage = vdla.EmitStage(
        name="table",
        doc="Replaces every result by an element of the table.",
        output=te.compute(x.shape, value, "y"),
        scopes={"x": "out", "rows": held, "y": "out"},
        latency=2,
    )
    return [stage, load]


def negated(config):
    """A stage without state, and no instruction."""
    x = te.placeholder((config.batch, config.block_out), config.out_dtype, "x")
    output = te.compute(x.shape, lambda b, o: 0 - x[b, o], "y")
    return vdla.EmitStage(name="negated", doc="Negates results.", output=output, scopes={"x": "out", "y": "out"})


LONGEST = 16


def depthwise(config):
    """3x3 products of a channel: a pixel vector a step, two rows of the image held in `line`."""
    pixel, lanes = (config.batch, config.block_out), config.block_out
    taps = vdla.State("taps", 9, (lanes,), config.wgt_dtype)
    line = vdla.State("line", LONGEST, (2, *pixel), config.inp_dtype)  # the rows above, by column
    window = vdla.State("window", 1, (3, 2, *pixel), config.inp_dtype)  # the columns to the left, by row

    vector = te.placeholder((lanes,), config.wgt_dtype, "vector")
    tap = te.compute((lanes,), lambda o: vector[o], "tap")
    load = vdla.Extension(
        name="dw_taps", doc="Writes the weights of a tap.", scopes={"vector": "wgt"}, updates={taps: tap}
    )
    zero = te.const(0, config.inp_dtype)
    clear = vdla.Extension(
        name="dw_clear",
        doc="Clears a column of the line buffer, and the window.",
        scopes={},
        updates={
            line: te.compute(line.row_shape, lambda r, b, o: zero, "cleared"),
            window: te.compute(window.row_shape, lambda r, c, b, o: zero, "closed"),
        },
    )

    x = te.placeholder(pixel, config.inp_dtype, "x")
    w = te.placeholder((9, lanes), config.wgt_dtype, "w")
    above = te.placeholder(line.row_shape, config.inp_dtype, "above")
    left = te.placeholder(window.row_shape, config.inp_dtype, "left")

    def wide(value):
        return te.cast("int32", value)

    def column(r, b, o):
        return te.select(r < 2, above[te.minimum(r, 1), b, o], x[b, o])

    def total(b, o):
        terms = [wide(left[r, c, b, o]) * wide(w[3 * r + c, o]) for r in range(3) for c in range(2)]
        terms += [wide(column(te.const(r, "int32"), b, o)) * wide(w[3 * r + 2, o]) for r in range(3)]
        return sum(terms[1:], terms[0])

    def moved(r, c, b, o):
        return te.select(c < 1, left[r, 1, b, o], column(r, b, o))

    step = vdla.Extension(
        name="dw",
        doc="Takes a pixel, and computes the products of the nine that end with it.",
        output=te.compute(pixel, total, "acc"),
        scopes={"x": "inp", "w": taps, "above": line, "left": window, "acc": "acc"},
        updates={
            line: te.compute(line.row_shape, lambda r, b, o: te.select(r < 1, above[1, b, o], x[b, o]), "lowered"),
            window: te.compute(window.row_shape, moved, "moved"),
        },
        latency=4,
    )
    return [step, load, clear]


def running(config):
    """acc[b, o] = how much was added so far: an instruction whose only state has a single row."""
    pixel = (config.batch, config.block_out)
    so_far = vdla.State("so_far", 1, pixel, "int32")
    x, old = te.placeholder(pixel, config.inp_dtype, "x"), te.placeholder(pixel, "int32", "old")

    def value(b, o):
        return old[b, o] + te.cast("int32", x[b, o])

    start = vdla.Extension(
        name="run_start",
        doc="Starts the running sum at zero.",
        scopes={},
        updates={so_far: te.compute(pixel, lambda b, o: te.const(0, "int32"), "none")},
    )
    step = vdla.Extension(
        name="run",
        doc="Adds a vector to the running sum.",
        output=te.compute(pixel, value, "acc"),
        scopes={"x": "inp", "old": so_far, "acc": "acc"},
        updates={so_far: te.compute(pixel, value, "added")},
    )
    return [step, start]
