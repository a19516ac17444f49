# SPDX-License-Identifier: Apache-2.0
"""A token that is missing."""

from vdla.compiler import te
from vdla.puzzles.puzzle import Puzzle


def _result() -> te.Tensor:
    x = te.placeholder((2, 8, 4), "int8", "x")
    return te.compute((2, 8, 4), lambda t, i, j: te.maximum(te.cast("int32", x[t, i, j]), 0), "y")


PUZZLE = Puzzle(
    name="deadlock",
    title="A program that hangs",
    task="""\
The program below computes the ReLU of two tiles of 8 entries. Both tiles pass through the same
entries of the input buffer, so the second LOAD must not overwrite the first tile before VECTOR has
read it. That is a dependence against the direction of the data: load waits for compute.

As it is, the program hangs for ever. The verifier shows which instruction waits for what. Mend it;
the tiles can go on sharing their entries.""",
    start="""\
.program "deadlock"
.config preset=tiny
.tensor x role=input dtype=int8 shape=2x8x4
.tensor y role=output dtype=int32 shape=2x8x4
.uop first last

load uop dram=uops
load inp dram=x x_size=8 signal=compute
vector mov source=inp operand=src loop1=8 acc1=1 src1=1 wait=load
vector max operand=imm imm=0 loop1=8 acc1=1 emit=raw signal=store
load inp dram=x+8 x_size=8 wait=compute signal=compute
vector mov source=inp operand=src acc=8 loop1=8 acc1=1 src1=1 wait=load
vector max operand=imm imm=0 acc=8 loop1=8 acc1=1 out=8 emit=raw signal=store
store dram=y x_size=32 wait=compute
store sram=32 dram=y+32 x_size=32 wait=compute
""",
    hints=(
        "A wait needs a signal. Count for each pair of units how often one signals and the other waits.",
        "The second LOAD waits for compute, and no instruction of compute signals load.",
        "The last instruction that reads the first tile from the input buffer is the first VECTOR mov.",
    ),
    result=_result,
    limit=340,
    best=319,
)
