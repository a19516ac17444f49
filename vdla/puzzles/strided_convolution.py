# SPDX-License-Identifier: Apache-2.0
"""A convolution that skips pixels."""

from vdla.compiler import te
from vdla.puzzles.expressions import product
from vdla.puzzles.puzzle import Puzzle


def _result() -> te.Tensor:
    x, w = te.placeholder((9, 9, 4), "int8", "x"), te.placeholder((3, 3, 4, 4), "int8", "w")
    r, s, i = (te.reduce_axis(extent, name) for name, extent in (("r", 3), ("s", 3), ("i", 4)))
    return te.compute(
        (4, 4, 4), lambda h, v, o: te.sum(product(x[h * 2 + r, v * 2 + s, i], w[r, s, o, i]), axis=[r, s, i]), "y"
    )


PUZZLE = Puzzle(
    name="strided-convolution",
    title="A convolution with a stride",
    task="""\
A convolution of 3 x 3 with stride 2 on an image of 9 x 9 pixels gives 4 x 4 results. Result (h, v)
begins at pixel (2 h, 2 v), and pixel (p, q) is entry 9 p + q of the input buffer. One GEMM computes
all of it: two loops over the results, and nine micro-ops, one for each tap.

The program below has the taps of the first row only, and computes the upper left results with
stride 1. Complete the micro-ops, and mend the loops.""",
    start="""\
.program "strided_convolution"
.config preset=tiny
.tensor x role=input dtype=int8 shape=9x9x4
.tensor w role=weight dtype=int8 shape=3x3x4x4
.tensor y role=output dtype=int32 shape=4x4x4
.uop src=0 wgt=0 first
.uop src=1 wgt=1
.uop src=2 wgt=2 last

load uop dram=uops x_size=3
load wgt dram=w x_size=9
load inp dram=x x_size=81 signal=compute
gemm init=1 uop_end=3 loop0=4 acc0=4 src0=9 loop1=4 acc1=1 src1=1 emit=raw wait=load signal=store
store dram=y x_size=64 wait=compute
""",
    hints=(
        "Tap (r, s) reads the pixel at 9 r + s, and entry 3 r + s of the weights; only the last one is `last`.",
        "From a result to the next in its row are 2 pixels; from a row of results to the next are 2 rows of pixels.",
        "`src1=2`, `src0=18`; nine micro-ops, so `x_size=9` in their LOAD and `uop_end=9` in the GEMM.",
    ),
    result=_result,
    limit=640,
    best=625,
)
