# SPDX-License-Identifier: Apache-2.0
"""Convolution as sums over windows."""

import numpy as np


def model(x, weight, strides=1, pads=0, dilations=1, groups=1):
    """The sum over each window in float64, accumulated tap by tap."""
    (sy, sx), (dy, dx) = np.broadcast_to(strides, 2), np.broadcast_to(dilations, 2)
    top, left, bottom, right = np.broadcast_to(pads, 4)
    image = np.pad(x.astype(float), ((0, 0), (0, 0), (top, bottom), (left, right)))
    outs, channels, kh, kw = weight.shape
    height = (image.shape[2] - (kh - 1) * dy - 1) // sy + 1
    width = (image.shape[3] - (kw - 1) * dx - 1) // sx + 1
    result = np.zeros((x.shape[0], outs, height, width))
    for o, r, q in np.ndindex(outs, kh, kw):
        first = o // (outs // groups) * channels
        rows = slice(r * dy, r * dy + (height - 1) * sy + 1, sy)
        columns = slice(q * dx, q * dx + (width - 1) * sx + 1, sx)
        taps = image[:, first : first + channels, rows, columns]
        result[:, o] += np.einsum("nchw,c->nhw", taps, weight[o, :, r, q].astype(float))
    return result
