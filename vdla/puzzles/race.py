# SPDX-License-Identifier: Apache-2.0
"""A race to find and to mend."""

from vdla.compiler import te
from vdla.puzzles.puzzle import Puzzle


def _result() -> te.Tensor:
    x = te.placeholder((24, 4), "int8", "x")
    return te.compute((24, 4), lambda i, j: te.cast("int32", x[i, j]) * 3, "y")


PUZZLE = Puzzle(
    name="race",
    title="A race",
    task="""\
The program below multiplies a tile of 8 entries by 3, then one of 16. It ends, and on many machines
its results are right; but whether they are depends on how long memory takes. Two instructions of
different units use the same entries, and no token orders them: a race. The verifier names both, and
the entries.

Mend it. There are two ways: a token that makes the later one wait, or other entries. One of them
takes fewer cycles.""",
    start="""\
.program "race"
.config preset=tiny
.tensor x role=input dtype=int8 shape=24x4
.tensor y role=output dtype=int32 shape=24x4
.uop first last

load uop dram=uops
load inp dram=x x_size=8 signal=compute
load inp sram=8 dram=x+8 x_size=16 signal=compute
vector mov source=inp operand=src loop1=8 acc1=1 src1=1 wait=load
vector mul operand=imm imm=3 loop1=8 acc1=1 emit=raw signal=store
store dram=y x_size=32 wait=compute
vector mov source=inp operand=src src=8 acc=8 loop1=16 acc1=1 src1=1 wait=load
vector mul operand=imm imm=3 acc=8 out=0 loop1=16 acc1=1 emit=raw signal=store
store sram=0 dram=y+32 x_size=64 wait=compute
""",
    hints=(
        "The second VECTOR mul writes entries that the first STORE may not have read yet.",
        "With a token: the first STORE signals compute, and the second VECTOR mul waits for store.",
        "With other entries: sums 8 to 23 are free. `out` counts sums, `sram` of a STORE entries, 4 for each sum.",
    ),
    result=_result,
    limit=420,
    best=359,
)
