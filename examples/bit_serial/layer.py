# SPDX-License-Identifier: Apache-2.0
"""Dense layers of networks with odd weights, in planes as bit_serial.py has them."""

import numpy as np

import vdla
from vdla import te


def term(x, byte, bit, plane):
    """As in bit_serial.py."""
    wide = te.cast("int32", x)
    return te.select((te.cast("int32", byte) >> bit & 1) > 0, wide, 0 - wide) << plane


def planes(weights, width):
    """As in bit_serial.py."""
    bits = (np.asarray(weights) + 2**width - 1 >> 1)[..., None] >> np.arange(width) & 1
    return np.packbits(np.moveaxis(bits, -1, 0).astype(np.uint8), axis=-1, bitorder="little").view(np.int8)


def formulation(layer, config):
    """A dense layer of a network with odd weights, by as few planes as they need."""
    layer.definition.require("dense")
    x, weights = layer.definition.inputs[0], layer.constants["weight"]
    outputs, features = weights.shape
    if features % 8 or not (weights & 1).all():
        raise vdla.LayerError("weights must be odd, and features a multiple of 8, got others")
    width = int(np.abs(weights.astype(int)).max()).bit_length()
    w = te.placeholder((width, outputs, features // 8), "int8", "planes")
    c, bit, p = te.reduce_axis(features // 8, "c"), te.reduce_axis(8, "bit"), te.reduce_axis(width, "p")

    def value(n, m):
        return te.sum(term(x[n, 8 * c + bit], w[p, m, c], bit, p), axis=[p, c, bit])

    sums = te.compute((x.shape[0], outputs), value, "sums")
    return vdla.Formulation(vdla.definitions.requantised(sums, 1)[1], {"planes": planes(weights, width)})
