# SPDX-License-Identifier: Apache-2.0
"""Accumulation over a reduction."""

from vdla.compiler import te
from vdla.puzzles.expressions import product
from vdla.puzzles.puzzle import Puzzle


def _result() -> te.Tensor:
    x, w = te.placeholder((4, 16, 4), "int8", "x"), te.placeholder((4, 4, 4), "int8", "w")
    k, i = te.reduce_axis(4, "k"), te.reduce_axis(4, "i")
    return te.compute((16, 4), lambda m, o: te.sum(product(x[k, m, i], w[k, o, i]), axis=[k, i]), "y")


PUZZLE = Puzzle(
    name="reduction",
    title="A sum of products",
    task="""\
A product with 16 inputs is a sum over 4 blocks of 4:

    y[m] = x[0, m] . w[0] + x[1, m] . w[1] + x[2, m] . w[2] + x[3, m] . w[3]

Block k of the inputs lies in entries 16 k to 16 k + 15 of the input buffer, block k of the weights
in entry k of the weight buffer.

The program below computes one block after the other, but every GEMM begins its sums anew, and sends
each of them to the output buffer. A sum must begin in its first step only, and leave in its last.
`init` and `emit` of the instruction apply to micro-ops that are marked `first` and `last`. Mend it,
in fewer instructions, since each of them is fetched: an instruction repeats a list of micro-ops,
and a micro-op adds its own `src` and `wgt` to the indices.""",
    start="""\
.program "reduction"
.config preset=tiny
.tensor x role=input dtype=int8 shape=4x16x4
.tensor w role=weight dtype=int8 shape=4x4x4
.tensor y role=output dtype=int32 shape=16x4
.uop first last

load uop dram=uops
load wgt dram=w x_size=4
load inp dram=x x_size=64 signal=compute
gemm init=1 loop1=16 acc1=1 src=0 src1=1 wgt=0 emit=raw wait=load
gemm init=1 loop1=16 acc1=1 src=16 src1=1 wgt=1 emit=raw
gemm init=1 loop1=16 acc1=1 src=32 src1=1 wgt=2 emit=raw
gemm init=1 loop1=16 acc1=1 src=48 src1=1 wgt=3 emit=raw signal=store
store dram=y x_size=64 wait=compute
""",
    hints=(
        "With four GEMMs, `init=1` belongs to the first only and `emit=raw` to the last: right, but too slow.",
        "One GEMM with `uop_end=4` and a micro-op for each block: `.uop first`, `.uop src=16 wgt=1`, and so on to "
        "`.uop src=48 wgt=3 last`; their LOAD needs `x_size=4`.",
        "Fewer cycles still: two GEMMs, each for 8 rows, with LOADs and STOREs of their own, so that the first half "
        "is stored while the second is computed.",
    ),
    result=_result,
    limit=460,
    best=414,
)
