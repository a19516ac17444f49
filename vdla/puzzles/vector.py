# SPDX-License-Identifier: Apache-2.0
"""The vector unit: an average and a maximum."""

from vdla.compiler import te
from vdla.puzzles.puzzle import Puzzle


def _result() -> te.Tensor:
    x = te.placeholder((8, 4, 4), "int8", "x")
    r = te.reduce_axis(4, "r")
    sums = te.compute((8, 4), lambda p, i: te.sum(te.cast("int32", x[p, r, i]), axis=r), "sums")
    return te.compute((8, 4), lambda p, i: te.maximum((sums[p, i] + 2) >> 2, 0), "y")


PUZZLE = Puzzle(
    name="vector",
    title="An average, and its positive part",
    task="""\
VECTOR computes element by element: `acc = acc OP b`, where OP is add, sub, mul, min, max, shl, shr,
clip or mov, and `b` an entry of a buffer (`operand=src`) or a number (`operand=imm imm=N`). With
`init`, the step of a micro-op marked `first` does not read the accumulator: its result is `b`.

Compute `y[p] = max(average of x[p, 0] ... x[p, 3], 0)`. An average of four is a sum and a `shr` by
2, which rounds half up. The program below needs four instructions for the sum. Each VECTOR of
another kind drains the unit before it begins, so fewer of them are better; a sum of four entries
can be one, by micro-ops.""",
    start="""\
.program "vector"
.config preset=tiny
.tensor x role=input dtype=int8 shape=8x4x4
.tensor y role=output dtype=int32 shape=8x4
.uop first last

load uop dram=uops
load inp dram=x x_size=32 signal=compute
vector mov source=inp operand=src src=0 loop1=8 acc1=1 src1=4 wait=load
vector add source=inp operand=src src=1 loop1=8 acc1=1 src1=4
vector add source=inp operand=src src=2 loop1=8 acc1=1 src1=4
vector add source=inp operand=src src=3 loop1=8 acc1=1 src1=4
vector shr operand=imm imm=2 loop1=8 acc1=1
# the positive part, and the results to the output buffer
store dram=y x_size=32 wait=compute
""",
    hints=(
        "The positive part is `vector max operand=imm imm=0`, which also emits the results and signals store.",
        "Four micro-ops `src=0` to `src=3` in one `vector add` with `init=1`; only the first is marked `first`.",
        "`shr` and `max` need one micro-op only, whichever: the one with src=0 has acc=0, as all of them do. "
        "The one that max uses must be marked `last`: `uop_begin=3 uop_end=4`, whose src is not read.",
    ),
    result=_result,
    limit=330,
    best=308,
)
