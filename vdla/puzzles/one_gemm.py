# SPDX-License-Identifier: Apache-2.0
"""One GEMM instruction."""

from vdla.compiler import te
from vdla.puzzles.expressions import product
from vdla.puzzles.puzzle import Puzzle


def _result() -> te.Tensor:
    x, w = te.placeholder((8, 4), "int8", "x"), te.placeholder((4, 4), "int8", "w")
    i = te.reduce_axis(4, "i")
    return te.compute((8, 4), lambda m, o: te.sum(product(x[m, i], w[o, i]), axis=i), "y")


PUZZLE = Puzzle(
    name="one-gemm",
    title="One GEMM",
    task="""\
In one step GEMM multiplies an entry of the input buffer (4 elements) by an entry of the weight
buffer (4 x 4 elements, a row for each output) and adds the 4 products to an entry of the
accumulator. Two loops, `loop0` and `loop1`, repeat the step; after each iteration of `loop1` the
indices grow by `acc1`, `src1` and `wgt1`, after each of `loop0` by `acc0`, `src0` and `wgt0`.

Write the GEMM that multiplies all 8 entries of `x` by the same weights. Its sums begin anew
(`init=1`, together with the micro-op's `first`), and go to the output buffer (`emit=raw`, together
with `last`). Mind the tokens.""",
    start="""\
.program "one_gemm"
.config preset=tiny
.tensor x role=input dtype=int8 shape=8x4
.tensor w role=weight dtype=int8 shape=4x4
.tensor y role=output dtype=int32 shape=8x4
.uop first last

load uop dram=uops
load inp dram=x x_size=8
load wgt dram=w signal=compute
# your GEMM
store dram=y x_size=32 wait=compute
""",
    hints=(
        "One loop is enough: `loop1=8`. Which of acc1, src1 and wgt1 grow from one entry of `x` to the next?",
        "Each entry of `x` has a sum of its own, but all have the same weights: `acc1=1 src1=1`.",
        "The tokens are `wait=load` and `signal=store`; the fields `init=1` and `emit=raw` complete it.",
    ),
    result=_result,
    limit=210,
    best=198,
)
