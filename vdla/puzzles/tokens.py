# SPDX-License-Identifier: Apache-2.0
"""Load, compute, store, and the tokens between them."""

from vdla.compiler import te
from vdla.puzzles.puzzle import Puzzle


def _result() -> te.Tensor:
    x = te.placeholder((16, 4), "int8", "x")
    return te.compute((16, 4), lambda i, j: te.cast("int32", x[i, j]), "y")


PUZZLE = Puzzle(
    name="tokens",
    title="Load, compute, store",
    task="""\
Three units run beside each other: load, compute and store. Each takes its own instructions in
order, but none of them waits for another, unless a token tells it to: `signal=UNIT` sends a token
when an instruction ends, `wait=UNIT` waits for one before an instruction starts.

The program below copies `x` to `y`, widened to 32 bits: load fills the input buffer, VECTOR moves
its entries through the accumulator to the output buffer, STORE writes them to DRAM. Without tokens
VECTOR may read entries before they are loaded, and STORE may send entries before they are computed:
two races. Add the tokens.""",
    start="""\
.program "tokens"
.config preset=tiny
.tensor x role=input dtype=int8 shape=16x4
.tensor y role=output dtype=int32 shape=16x4
.uop first last

load uop dram=uops
load inp dram=x x_size=16
vector mov source=inp operand=src loop1=16 acc1=1 src1=1 emit=raw
store dram=y x_size=64
""",
    hints=(
        "Each of the two dependences needs a pair: a `signal` on the first instruction, a `wait` on the second.",
        "Load and compute are neighbours, and compute and store. `load uop` is an instruction of compute.",
        "LOAD inp signals compute; VECTOR waits for load and signals store; STORE waits for compute.",
    ),
    result=_result,
    limit=250,
    best=244,
)
