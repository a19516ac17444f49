"""The rule of vdla.Patches: the windows of an image as channels, which a 1x1 convolution reads.

Channel (ky * KW + kx) * C + c of the result is channel c of the image at kernel position (ky, kx).
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, OperatorRule


def _patches(call: NodeCall) -> te.Tensor:
    x, width = call.tensor(0), call.attribute("kernel_shape")[1]
    (top, left, *_), padding = call.attribute("pads"), call.attribute("padding")
    (row_step, column_step), (row_gap, column_gap) = call.attribute("strides"), call.attribute("dilations")
    _, channels, rows, columns = x.shape

    def value(n: te.Value, c: te.Value, i: te.Value, j: te.Value) -> te.Value:
        tap = c // channels
        row = i * row_step + tap // width * row_gap - top
        column = j * column_step + tap % width * column_gap - left
        inside = te.all_of(row >= 0, row < rows, column >= 0, column < columns)
        return te.select(inside, x[n, c % channels, row, column], te.const(padding, x.dtype))

    return te.compute(call.result.extents, value, call.name())


# Not injective: an element is read many times, and must not be computed as often.
PATCHES = (OperatorRule("vdla.Patches", FusionClass.COMPLEX, _patches),)
