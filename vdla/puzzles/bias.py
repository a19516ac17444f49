# SPDX-License-Identifier: Apache-2.0
"""Sums that begin from a bias."""

from vdla.compiler import te
from vdla.puzzles.expressions import product
from vdla.puzzles.puzzle import Puzzle


def _result() -> te.Tensor:
    x, w = te.placeholder((16, 4), "int8", "x"), te.placeholder((4, 4), "int8", "w")
    bias = te.placeholder((4,), "int32", "bias")
    i = te.reduce_axis(4, "i")
    sums = te.compute((16, 4), lambda m, o: te.sum(product(x[m, i], w[o, i]), axis=i), "sums")
    return te.compute((16, 4), lambda m, o: sums[m, o] + bias[o], "y")


PUZZLE = Puzzle(
    name="bias",
    title="A bias",
    task="""\
`y[m] = x[m] . w + bias`: the same bias, 4 numbers of 32 bits, for every row. The program below
leaves it out. A sum need not begin at 0: without `init`, GEMM adds to what is in the accumulator.

So the bias must be in all 16 entries first. One LOAD can do that: it takes `y_size` rows of
`x_size` entries, whose distance in DRAM is `y_stride` beats, and the distance may be 0. But each
row is a burst, and memory takes its time for each of them. Load the bias once, to a spare entry,
and copy it on the chip: `vector mov source=acc operand=src src=...` needs no memory, and can run
while the inputs are loaded.""",
    start="""\
.program "bias"
.config preset=tiny
.tensor x role=input dtype=int8 shape=16x4
.tensor w role=weight dtype=int8 shape=4x4
.tensor bias role=input dtype=int32 shape=4
.tensor y role=output dtype=int32 shape=16x4
.uop first last

load wgt dram=w
load inp dram=x x_size=16 signal=compute
load uop dram=uops
gemm init=1 loop1=16 acc1=1 src1=1 emit=raw wait=load signal=store
store dram=y x_size=64 wait=compute
""",
    hints=(
        "`load acc` and VECTOR belong to compute: no token is needed between them and GEMM.",
        "`load acc sram=32 dram=bias`, then a VECTOR mov from entry 32 to entries 0 to 15, then GEMM without `init`. "
        "Entries 0 to 31 are one half of the accumulator; a step that reads two entries of one half takes longer.",
        "`vector mov source=acc operand=src src=32 loop1=16 acc1=1`, before the instruction that waits for load.",
    ),
    result=_result,
    limit=350,
    best=318,
)
