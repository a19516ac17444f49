# SPDX-License-Identifier: Apache-2.0
"""Small extensions for tests: a look-up table, sums of absolute differences, odd arithmetic.

All are declared for any configuration, as a user's file would.
"""

from vdla import te
from vdla.compiler.extensions import Extension
from vdla.hardware.isa import PlugInField

LUT_FIELDS = (PlugInField("shift", 5, "Bits that are dropped from a sum."),)


def lut(config):
    """acc[b, o] = table[clip(acc[b, o] >> shift)]: reads and writes the accumulator."""
    last = config.block_out * config.block_in - 1
    old = te.placeholder((config.batch, config.block_out), "int32", "old")
    table = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "table")
    shift = te.placeholder((1,), "int32", "shift")

    def value(b, o):
        at = te.clip(old[b, o] >> shift[0], 0, last)
        return te.cast("int32", table[at // config.block_in, at % config.block_in])

    return Extension(
        name="lut",
        doc="Replaces every element of an accumulator entry by an element of a table.",
        output=te.compute(old.shape, value, "acc"),
        scopes={"old": "acc", "table": "wgt", "shift": "immediate", "acc": "acc"},
        in_place="old",
        fields=LUT_FIELDS,
        interval="1 + shift // 8",
        latency=2,
    )


def sad(config):
    """acc[b, o] += sum over i of abs(inp[b, i] - wgt[o, i]): fed by inp and wgt alone."""
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    i = te.reduce_axis(config.block_in, "i")

    def difference(b, o):
        return te.sum(te.abs(te.cast("int32", inp[b, i]) - te.cast("int32", wgt[o, i])), axis=i)

    return Extension(
        name="sad",
        doc="Adds absolute differences of an input entry and the rows of a weight entry.",
        output=te.compute((config.batch, config.block_out), difference, "acc"),
        scopes={"inp": "inp", "wgt": "wgt", "acc": "acc"},
        latency=3,
    )


def mix(config):
    """acc[b, o] = a vector of inputs times a vector of weights, arithmetic at its limits."""
    x = te.placeholder((config.batch, config.block_out), config.inp_dtype, "x")
    w = te.placeholder((config.block_out,), config.wgt_dtype, "w")
    by = te.placeholder((1,), "int32", "by")

    def value(b, o):
        wide = te.cast("int32", x[b, o]) << (te.cast("int32", w[o]) + 20)
        quotient = wide // by[0] + wide % by[0]
        return te.select(wide > 0, quotient ^ te.cast("int32", w[o]), te.maximum(wide - by[0], -(1 << 20)))

    return Extension(
        name="mix",
        doc="Computes with shifts, quotients and a choice.",
        output=te.compute(x.shape, value, "acc"),
        scopes={"x": "inp", "w": "wgt", "by": "immediate", "acc": "acc"},
        fields=(PlugInField("by", 8, "The divisor.", signed=True),),
    )


def axpy(config):
    """acc[b, o] = acc[b, o] + x[b, o] * by: a vector of inputs, scaled by a field."""
    old = te.placeholder((config.batch, config.block_out), "int32", "old")
    x = te.placeholder((config.batch, config.block_out), config.inp_dtype, "x")
    by = te.placeholder((1,), "int32", "by")
    return Extension(
        name="axpy",
        doc="Adds a vector of inputs, scaled by a field.",
        output=te.compute(old.shape, lambda b, o: old[b, o] + te.cast("int32", x[b, o]) * by[0], "acc"),
        scopes={"old": "acc", "x": "inp", "by": "immediate", "acc": "acc"},
        in_place="old",
        fields=(PlugInField("by", 8, "The factor.", signed=True),),
    )


def narrow(config):
    """acc[b, o] += inp . wgt over two input entries and weights of half the machine's width."""
    terms = 2 * config.block_in
    inp = te.placeholder((config.batch, terms), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, terms), f"int{config.wgt_bits // 2}", "wgt")
    i = te.reduce_axis(terms, "i")

    def product(b, o):
        return te.sum(te.cast("int32", inp[b, i]) * te.cast("int32", wgt[o, i]), axis=i)

    return Extension(
        name="narrow",
        doc="Multiplies two input entries by a weight entry of elements of half the width.",
        output=te.compute((config.batch, config.block_out), product, "acc"),
        scopes={"inp": "inp", "wgt": "wgt", "acc": "acc"},
        latency=3,
    )


def pair(config):
    """acc[b, o] = the largest product of x and two weight entries side by side."""
    x = te.placeholder((config.batch, 2 * config.block_in), config.inp_dtype, "x")
    w = te.placeholder((config.block_out, 2 * config.block_in), config.wgt_dtype, "w")
    i = te.reduce_axis(2 * config.block_in, "i")
    product = lambda b, o: te.max(te.cast("int32", x[b, i]) * te.cast("int32", w[o, i]), axis=i)  # noqa: E731
    output = te.compute((config.batch, config.block_out), product, "acc")
    return Extension(
        name="pair", doc="Keeps the largest product.", output=output, scopes={"x": "inp", "w": "wgt", "acc": "acc"}
    )


def tally(config):
    """acc[b, o] += table[x[b, o]] >> by: a sum of looked-up values."""
    mask = config.block_out * config.block_in - 1
    x = te.placeholder((config.batch, config.block_out), config.inp_dtype, "x")
    table = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "table")
    by, step = te.placeholder((1,), "int32", "by"), te.reduce_axis(1, "step")

    def value(b, o):
        at = te.cast("int32", x[b, o]) & mask
        found = te.cast("int32", table[at // config.block_in, at % config.block_in])
        return te.sum(found >> by[0], axis=step)

    return Extension(
        name="tally",
        doc="Adds looked-up values.",
        output=te.compute(x.shape, value, "acc"),
        scopes={"x": "inp", "table": "wgt", "by": "immediate", "acc": "acc"},
        fields=(PlugInField("by", 3, "Bits that are dropped from a value."),),
        interval=2,
    )


def bits(config):
    """acc[b, o] += agreeing bits of x and w, told apart by odd counts: functions of every width."""
    x = te.placeholder((config.batch, config.block_in), config.inp_dtype, "x")
    w = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w")
    i = te.reduce_axis(config.block_in, "i")

    def value(b, o):
        one, other = te.cast("int32", x[b, i]), te.cast("int32", w[o, i])
        by_width = [
            te.cast("int32", te.popcount(te.cast(dtype, one ^ other << 7))) * (3 + n)
            for n, dtype in enumerate(("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64"))
        ]
        total = by_width[0]
        for count in by_width[1:]:
            total = total + count
        return te.sum(total - te.abs(te.popcount(one) - 5), axis=i)

    return Extension(
        name="bits",
        doc="Adds counts of bits.",
        output=te.compute((config.batch, config.block_out), value, "acc"),
        scopes={"x": "inp", "w": "wgt", "acc": "acc"},
    )


def lanes(config):
    """acc[b, o] = the largest over j of x[b, j, o] - w[o, o, j]: groups of entries with
    more dimensions than two.
    """
    x = te.placeholder((config.batch, 2, config.block_in), config.inp_dtype, "x")
    w = te.placeholder((config.block_out, config.block_in, 2), config.wgt_dtype, "w")
    j = te.reduce_axis(2, "j")

    def largest(b, o):
        at = o % config.block_in
        return te.max(te.cast("int32", x[b, j, at]) - te.cast("int32", w[o, at, j]), axis=j)

    output = te.compute((config.batch, config.block_out), largest, "acc")
    return Extension(
        name="lanes", doc="Keeps the largest difference.", output=output, scopes={"x": "inp", "w": "wgt", "acc": "acc"}
    )
