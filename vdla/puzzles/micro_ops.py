# SPDX-License-Identifier: Apache-2.0
"""A tile of a matrix product by two loops and micro-ops."""

from vdla.compiler import te
from vdla.puzzles.expressions import product
from vdla.puzzles.puzzle import Puzzle


def _result() -> te.Tensor:
    x, w = te.placeholder((2, 8, 4), "int8", "x"), te.placeholder((3, 2, 4, 4), "int8", "w")
    k, i = te.reduce_axis(2, "k"), te.reduce_axis(4, "i")
    return te.compute(
        (3, 8, 4),
        lambda n, m, o: te.sum(product(x[k, m, i], w[n, k, o, i]), axis=[k, i]),
        "y",
    )


PUZZLE = Puzzle(
    name="micro-ops",
    title="Three loops in one instruction",
    task="""\
A matrix product has three loops: blocks of outputs n, rows m, blocks of inputs k. An instruction
has two, `loop0` and `loop1`; the third is its list of micro-ops, from `uop_begin` to before
`uop_end`, which run inside both. A micro-op adds its own `acc`, `src` and `wgt` to the indices:

    acc + u.acc + i * acc0 + j * acc1        likewise src and wgt

The program below needs six GEMMs for `y[n, m] = sum over k of x[k, m] . w[n, k]`. Make it one. An
entry `x[k, m]` is at 8 k + m, `w[n, k]` at 2 n + k, a sum `y[n, m]` at 8 n + m.""",
    start="""\
.program "micro_ops"
.config preset=tiny
.tensor x role=input dtype=int8 shape=2x8x4
.tensor w role=weight dtype=int8 shape=3x2x4x4
.tensor y role=output dtype=int32 shape=3x8x4
.uop first                           # micro-op 0: begins a sum
.uop last                            # micro-op 1: finishes it

load uop dram=uops x_size=2
load wgt dram=w x_size=6
load inp dram=x x_size=16 signal=compute
gemm uop_begin=0 uop_end=1 init=1 loop1=8 acc1=1 src1=1 wait=load
gemm uop_begin=1 uop_end=2 src=8 wgt=1 loop1=8 acc1=1 src1=1 emit=raw
gemm uop_begin=0 uop_end=1 acc=8 wgt=2 init=1 loop1=8 acc1=1 src1=1
gemm uop_begin=1 uop_end=2 acc=8 out=8 src=8 wgt=3 loop1=8 acc1=1 src1=1 emit=raw
gemm uop_begin=0 uop_end=1 acc=16 wgt=4 init=1 loop1=8 acc1=1 src1=1
gemm uop_begin=1 uop_end=2 acc=16 out=16 src=8 wgt=5 loop1=8 acc1=1 src1=1 emit=raw signal=store
store dram=y x_size=96 wait=compute
""",
    hints=(
        "Let the micro-ops be k: the sum is then finished before the loops go on, so one begins it and one ends it.",
        "Micro-op 1 is block k = 1: its inputs are 8 entries further, its weights 1 entry: `.uop src=8 wgt=1 last`.",
        "`loop0=3` for n: `acc0=8 wgt0=2`; `loop1=8` for m: `acc1=1 src1=1`; `uop_end=2`, `init=1`, `emit=raw`.",
    ),
    result=_result,
    limit=400,
    best=374,
)
