# SPDX-License-Identifier: Apache-2.0
"""A LOAD that pads."""

from vdla.compiler import te
from vdla.puzzles.expressions import product
from vdla.puzzles.puzzle import Puzzle

_ZERO_POINT = -3


def _result() -> te.Tensor:
    x, w = te.placeholder((4, 4, 4), "int8", "x"), te.placeholder((3, 3, 4, 4), "int8", "w")
    r, s, i = (te.reduce_axis(extent, name) for name, extent in (("r", 3), ("s", 3), ("i", 4)))

    def padded(y: te.Value, x_: te.Value, i: te.Value) -> te.Value:
        inside = te.all_of(y >= 1, y < 5, x_ >= 1, x_ < 5)
        return te.select(inside, x[y - 1, x_ - 1, i], te.const(_ZERO_POINT, "int8"))

    image = te.compute((6, 6, 4), padded, "image")
    return te.compute(
        (4, 4, 4), lambda h, v, o: te.sum(product(image[h + r, v + s, i], w[r, s, o, i]), axis=[r, s, i]), "y"
    )


PUZZLE = Puzzle(
    name="padding",
    title="An image with a border",
    task="""\
A convolution of 3 x 3 on an image of 4 x 4 pixels reads one pixel beyond each edge. The GEMM below
expects an image of 6 x 6 entries in the input buffer, whose border holds -3, the zero point of the
image. DRAM has the 4 x 4 pixels only, without a border.

Mend the LOAD: it can write entries before and after each row (`x_before`, `x_after`), rows before
and after the data (`y_before`, `y_after`), and any value into them (`pad_value`).""",
    start="""\
.program "padding"
.config preset=tiny
.tensor x role=input dtype=int8 shape=4x4x4
.tensor w role=weight dtype=int8 shape=3x3x4x4
.tensor y role=output dtype=int32 shape=4x4x4
.uop src=0 wgt=0 first               # the taps: 6 entries from row to row
.uop src=1 wgt=1
.uop src=2 wgt=2
.uop src=6 wgt=3
.uop src=7 wgt=4
.uop src=8 wgt=5
.uop src=12 wgt=6
.uop src=13 wgt=7
.uop src=14 wgt=8 last

load uop dram=uops x_size=9
load wgt dram=w x_size=9
load inp dram=x x_size=16 signal=compute
gemm init=1 uop_end=9 loop0=4 acc0=4 src0=6 loop1=4 acc1=1 src1=1 emit=raw wait=load signal=store
store dram=y x_size=64 wait=compute
""",
    hints=(
        "The data are 4 rows of 4 entries: `y_size=4 x_size=4`, and `y_stride=4` beats from row to row.",
        "One entry of border on each side: `y_before=1 y_after=1 x_before=1 x_after=1`.",
        "Add `pad_value=-3`; without it the border is 0.",
    ),
    result=_result,
    limit=530,
    best=516,
)
