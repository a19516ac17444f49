# SPDX-License-Identifier: Apache-2.0
"""Load a tile while the one before it is computed."""

from vdla.compiler import te
from vdla.puzzles.expressions import product
from vdla.puzzles.puzzle import Puzzle


def _result() -> te.Tensor:
    x, w = te.placeholder((4, 4, 32, 4), "int8", "x"), te.placeholder((4, 4, 4), "int8", "w")
    k, i = te.reduce_axis(4, "k"), te.reduce_axis(4, "i")
    return te.compute((4, 32, 4), lambda t, m, o: te.sum(product(x[t, k, m, i], w[k, o, i]), axis=[k, i]), "y")


PUZZLE = Puzzle(
    name="double-buffering",
    title="Double buffering",
    task="""\
Four tiles of 32 rows are multiplied by the same weights. Each tile has 128 entries of the input
buffer, which holds 256. The program below is right, but its tiles share the first 128 entries, so
that the units take turns: while one of them works, the others wait.

Let tiles use the two halves of the input buffer in turn, and those of the output buffer (32 sums,
128 entries each) as well. Then load can fetch tile 1 while compute works on tile 0, and store can
write tile 0 meanwhile. A half may be overwritten when the tile before the last one has left it: the
tokens must say that, and no more.""",
    start="""\
.program "double_buffering"
.config preset=tiny
.tensor x role=input dtype=int8 shape=4x4x32x4
.tensor w role=weight dtype=int8 shape=4x4x4
.tensor y role=output dtype=int32 shape=4x32x4
.uop src=0 wgt=0 first
.uop src=32 wgt=1
.uop src=64 wgt=2
.uop src=96 wgt=3 last

load uop dram=uops x_size=4
load wgt dram=w x_size=4

load inp dram=x x_size=128 signal=compute
gemm init=1 uop_end=4 loop1=32 acc1=1 src1=1 emit=raw wait=load signal=load,store
store dram=y x_size=128 wait=compute signal=compute

load inp dram=x+128 x_size=128 wait=compute signal=compute
gemm init=1 uop_end=4 loop1=32 acc1=1 src1=1 emit=raw wait=load,store signal=load,store
store dram=y+128 x_size=128 wait=compute signal=compute

load inp dram=x+256 x_size=128 wait=compute signal=compute
gemm init=1 uop_end=4 loop1=32 acc1=1 src1=1 emit=raw wait=load,store signal=load,store
store dram=y+256 x_size=128 wait=compute signal=compute

load inp dram=x+384 x_size=128 wait=compute signal=compute
gemm init=1 uop_end=4 loop1=32 acc1=1 src1=1 emit=raw wait=load,store signal=store
store dram=y+384 x_size=128 wait=compute
""",
    hints=(
        "Tiles 1 and 3 use `sram=128` in LOAD and STORE, `src=128 out=32` in GEMM.",
        "The first two LOADs wait for nothing, nor do the first two GEMMs wait for store. "
        "Tile 2 waits for what tile 0 signals, tile 3 for tile 1.",
        "GEMM 0 and 1 signal load and store, GEMM 2 and 3 store only; STORE 0 and 1 signal compute, 2 and 3 nothing; "
        "GEMM 2 and 3 wait for load and store.",
    ),
    result=_result,
    limit=1700,
    best=1634,
)
