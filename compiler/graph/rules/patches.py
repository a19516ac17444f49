"""The rule of vdla.PackPatches: the windows of an image as channels, which a 1x1 convolution reads.

Channel (ky * KW + kx) * C + c of a window is channel c of the image at kernel position (ky, kx).
The result [N / batch, KH * KW * C / block, OH, OW, batch, block] has the channels and the images in
blocks, with zeros behind the last ones. An image [N, C, W] is one row.
"""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.operators.roles import PLACED


def pack_patches(call: NodeCall) -> te.Tensor:
    """The rule of vdla.PackPatches."""
    kernel, block, batch = (call.attribute(key) for key in ("kernel_shape", "block", "batch"))
    (row_step, column_step), (row_gap, column_gap) = call.attribute("strides"), call.attribute("dilations")
    image = _padded(call)
    images, channels, taps = image.shape[0], image.shape[1], image.shape[1] * kernel[0] * kernel[1]

    def value(n: te.Value, g: te.Value, i: te.Value, j: te.Value, m: te.Value, b: te.Value) -> te.Value:
        c, number = g * block + b, n * batch + m
        tap, channel = c // channels, c % channels
        row, column = i * row_step + tap // kernel[1] * row_gap, j * column_step + tap % kernel[1] * column_gap
        inside = te.all_of(c < taps, number < images)
        return te.select(inside, image[number, channel, row, column], te.const(0, image.dtype))

    return te.compute(call.result.extents, value, call.name())


def _padded(call: NodeCall) -> te.Tensor:
    """The image with its padding, a stage of its own: each of its elements is read many times."""
    x, (top, left, bottom, right) = call.tensor(0), call.attribute("pads")
    count, channels, *spatial = x.shape
    height, width = (1, *spatial)[-2:]

    def value(n: te.Value, c: te.Value, h: te.Value, w: te.Value) -> te.Value:
        inside = te.all_of(h >= top, h < top + height, w >= left, w < left + width)
        element = x[(n, c, *(h - top, w - left)[-len(spatial) :])]
        return te.select(inside, element, te.const(call.attribute("padding"), x.dtype))

    shape = (count, channels, top + height + bottom, left + width + right)
    return te.compute(shape, value, f"{call.name()}_padded", PLACED)
