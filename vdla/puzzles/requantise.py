# SPDX-License-Identifier: Apache-2.0
"""Sums of 32 bits as results of 8."""

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics.requantise import requantisation
from vdla.puzzles.expressions import product
from vdla.puzzles.puzzle import Puzzle


def _result() -> te.Tensor:
    x, w = te.placeholder((16, 4), "int8", "x"), te.placeholder((4, 4), "int8", "w")
    i = te.reduce_axis(4, "i")
    sums = te.compute((16, 4), lambda m, o: te.sum(product(x[m, i], w[o, i]), axis=i), "sums")
    lane = te.const(10 << 56 | 3 << 32 | 100, "int64")
    zero_point, low, high = (te.const(value, "int64") for value in (5, 0, 100))
    return te.compute((16, 4), lambda m, o: requantisation(sums[m, o], lane, zero_point, low, high, "int8"), "y")


PUZZLE = Puzzle(
    name="requantise",
    title="Eight bits again",
    task="""\
Sums have 32 bits, the inputs of the next layer 8. With `emit=requant` a finished sum passes a
requantiser on its way to the output buffer, without a cycle more:

    y = min(max(round((sum + bias) * multiplier / 2^shift) + zero_point, clip_lo), clip_hi)

Bias, multiplier and shift come from the buffer `scl`, whose entries have 4 lanes of 64 bits, one
for each output: bits 31:0 the bias, 55:32 the multiplier, 61:56 the shift. The others are fields of
the instruction.

Compute `y = min(max(round((x . w + 100) * 3 / 2^10) + 5, 0), 100)`. The program below loads lanes
that are 0, and clips at 127. `.data` has bytes, the lowest first.""",
    start="""\
.program "requantise"
.config preset=tiny
.tensor x role=input dtype=int8 shape=16x4
.tensor w role=weight dtype=int8 shape=4x4
.tensor scale role=constant dtype=int64 shape=1x4
.tensor y role=output dtype=int8 shape=16x4
.data scale 0000000000000000
.data scale 0000000000000000
.data scale 0000000000000000
.data scale 0000000000000000
.uop first last

load wgt dram=w
load scl dram=scale
load inp dram=x x_size=16 signal=compute
load uop dram=uops
gemm init=1 loop1=16 acc1=1 src1=1 emit=requant clip_lo=-128 clip_hi=127 wait=load signal=store
store dram=y x_size=16 wait=compute
""",
    hints=(
        "The fields are `zero_point=5 clip_lo=0 clip_hi=100`; the rest of the formula is in the lanes.",
        "A lane is four bytes of bias, three of multiplier, one of shift, the lowest byte first: 100 is 64000000.",
        "Each lane is `64000000 030000 0a`, written without spaces.",
    ),
    result=_result,
    limit=240,
    best=232,
)
