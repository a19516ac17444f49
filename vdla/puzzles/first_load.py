# SPDX-License-Identifier: Apache-2.0
"""The first puzzle: one LOAD."""

from vdla.compiler import te
from vdla.puzzles.puzzle import Puzzle


def _result() -> te.Tensor:
    x = te.placeholder((8, 4), "int8", "x")
    return te.compute((8, 4), lambda i, j: te.cast("int32", x[i, j]) + 1, "y")


PUZZLE = Puzzle(
    name="first-load",
    title="One load",
    task="""\
The machine has no caches: an instruction reads and writes buffers on the chip, and a LOAD fills a
buffer from DRAM. The program below adds 1 to every element of `x`, 8 entries of 4 elements, and
stores the sums. VECTOR works on the accumulator (`acc`), 8 entries from entry 0 on, but nothing has
loaded them: the verifier calls them uninitialised.

Add the LOAD. In DRAM an element of `x` has 8 bits, in the accumulator 32; the field `widen`
converts. LOADs to `acc` and to `uop` belong to the unit compute, as VECTOR does, so that no tokens
are needed.""",
    start="""\
.program "first_load"
.config preset=tiny
.tensor x role=input dtype=int8 shape=8x4
.tensor y role=output dtype=int32 shape=8x4
.uop first last                      # what VECTOR repeats: one step on one entry

load uop dram=uops
# your LOAD of x
vector add operand=imm imm=1 loop1=8 acc1=1 emit=raw signal=store
store dram=y x_size=32 wait=compute  # an entry of sums fills 4 entries of the output buffer
""",
    hints=(
        "A LOAD names the buffer that it fills, then fields: `load BUFFER dram=TENSOR FIELD=VALUE`.",
        "`x_size` counts entries that are contiguous in DRAM; without it, one entry is loaded.",
        "The buffer is `acc`, the tensor `x`; two fields are needed, `x_size` and `widen=1`.",
    ),
    result=_result,
    limit=190,
    best=184,
)
