# SPDX-License-Identifier: Apache-2.0
"""Dense layers and convolutions of networks of +1 and -1, as xnor.py has them."""

import numpy as np

import vdla
from vdla import te


def products(x, w):
    """As in xnor.py."""
    return 8 - 2 * te.cast("int32", te.popcount(x ^ w))


def formulation(layer, config):
    """A dense layer or a convolution whose activations and weights are +1 and -1.

    The bits of a pixel are those of its channels, so the host makes them the last dimension.
    """
    if layer.definition.name != "dense":
        layer.definition.require("convolution", groups=1, dilations=1, pads=0)
    x, weights = layer.definition.inputs[0], layer.constants["weight"]
    if weights.shape[1] % 8 or {*np.unique(weights)} - {-1, 1} or {*layer.values["data"]} - {-1, 1}:
        raise vdla.LayerError("activations and weights must be +1 or -1, and channels a multiple of 8, got others")
    signs = np.packbits(np.moveaxis(weights, 1, -1) > 0, axis=-1, bitorder="little").view(np.int8)
    w = te.placeholder(signs.shape, "int8", "signs")
    bits = {"bits": "data"}
    if layer.definition.name == "dense":
        sums, packed = dense(te.placeholder((x.shape[0], signs.shape[-1]), "int8", "bits"), w), []
    else:
        n, channels, *size = x.shape
        packed = [te.compute((n, *size, channels), lambda n, y, x_, c: x[n, c, y, x_], "pixels")]
        pixels = te.placeholder((n, *size, channels // 8), "int8", "bits")
        sums, bits = images(pixels, w, layer.definition), {"bits": "pixels"}
    return vdla.Formulation(vdla.definitions.requantised(sums, 1)[1], {"signs": signs}, bits=bits, packed=packed)


def dense(bits, signs):
    """Sums of the products of rows."""
    c = te.reduce_axis(signs.shape[1], "c")
    return te.compute(
        (bits.shape[0], signs.shape[0]), lambda n, m: te.sum(products(bits[n, c], signs[m, c]), axis=c), "sums"
    )


def images(pixels, signs, definition):
    """Sums of the products of windows of images, [n, channels, height, width]."""
    down, right = np.broadcast_to(definition.options["strides"], 2).tolist()
    ky, kx, c = (te.reduce_axis(extent, name) for extent, name in zip(signs.shape[1:], ("ky", "kx", "c"), strict=True))

    def value(n, o, y, x):
        return te.sum(products(pixels[n, y * down + ky, x * right + kx, c], signs[o, ky, kx, c]), axis=[ky, kx, c])

    return te.compute(definition.output.shape, value, "sums")
