# SPDX-License-Identifier: Apache-2.0
"""An instruction of one's own."""

from vdla.puzzles.extended import distances, from_extension
from vdla.puzzles.puzzle import Puzzle

PUZZLE = Puzzle(
    name="instruction",
    title="An instruction of your own",
    task="""\
No machine computes everything well: for the nearest of many vectors,

    y[m, o] = sum over i of (x[m, i] - w[o, i])^2

GEMM multiplies `x` and `w`, but does not subtract. Give the machine an instruction that does: a
function `declare(config)` returns a `vdla.Extension`, whose `output` is what one step computes from
one entry of inputs and one of weights. From this, decoder, simulator, verifier and compiler follow.

The start declares absolute differences. Declare squares of differences, in 32 bits. A step may
begin in every cycle (`interval` 1), and its result takes two cycles more (`latency=2`): one to
multiply, one to add.""",
    start="""\
import vdla
from vdla import te


def declare(config):
    x = te.placeholder((config.batch, config.block_in), config.inp_dtype, "x")
    w = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w")
    i = te.reduce_axis(config.block_in, "i")

    def value(b, o):
        return te.sum(te.abs(te.cast("int32", x[b, i]) - te.cast("int32", w[o, i])), axis=i)

    return vdla.Extension(
        name="distance",
        doc="Adds squares of differences.",
        output=te.compute((config.batch, config.block_out), value, "acc"),
        scopes={"x": "inp", "w": "wgt", "acc": "acc"},
        latency=2,
    )
""",
    hints=(
        "Only `value` must change; `te.sum` makes the machine add the results of steps.",
        "A square is a product of the difference with itself; name the difference first.",
        '`difference = te.cast("int32", x[b, i]) - te.cast("int32", w[o, i])`, then '
        "`te.sum(difference * difference, axis=i)`. Cast before you subtract: the difference needs 9 bits.",
    ),
    result=distances,
    limit=400,
    best=384,
    build=from_extension,
    suffix=".py",
)
