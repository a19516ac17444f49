# SPDX-License-Identifier: Apache-2.0
"""The elements of windows over a plain image, for vector lanes along its rows.

The image is padded first. With a stride, the columns of the padded image are split into phases: the
elements that a tap reads for neighbouring results are then contiguous.
"""

from __future__ import annotations

from collections.abc import Callable

from vdla.compiler import te
from vdla.compiler.operators.conv2d import pad_image
from vdla.compiler.operators.roles import PHASES
from vdla.compiler.operators.windows import in_image
from vdla.support.window import Window

Tap = Callable[[te.Value, te.Value, te.Value, te.Value, te.ReduceAxis, te.ReduceAxis], te.Value]
"""The element of image n and channel c in the window (oh, ow), under the tap (kh, kw)."""


def window_rows(x: te.Tensor, windows: Window, name: str, padding: te.Number = 0) -> Tap:
    """The elements of windows over `x`, [N, C, H, W], whose padded image is the stage `name`."""
    stride = windows.strides[1]
    image = (pad_image if stride == 1 else _pad_in_phases)(x, windows, name, padding)

    def tap(n: te.Value, c: te.Value, oh: te.Value, ow: te.Value, kh: te.ReduceAxis, kw: te.ReduceAxis) -> te.Value:
        y, offset = windows.padded_position(0, oh, kh), kw * windows.dilations[1]
        columns = (ow + offset,) if stride == 1 else (offset % stride, ow + offset // stride)
        return image[(n, c, y, *columns)]

    return tap


def _pad_in_phases(x: te.Tensor, windows: Window, name: str, padding: te.Number) -> te.Tensor:
    """[N, C, rows, stride, columns / stride]: the padded image, its columns in phases."""
    stride, (top, left), (rows, columns) = windows.strides[1], windows.before, windows.extents

    def value(n: te.Value, c: te.Value, h: te.Value, phase: te.Value, w: te.Value) -> te.Value:
        y, column = h - top, w * stride + phase - left
        conditions = [*in_image(windows, (y,)), *[column >= 0] * (left > 0), column < x.shape[3]]
        return te.select(te.all_of(*conditions), x[n, c, y, column], te.const(padding, x.dtype))

    return te.compute((*x.shape[:2], rows, stride, -(-columns // stride)), value, name, {PHASES: stride})
