# SPDX-License-Identifier: Apache-2.0
"""Dense layers of networks with two weights of every four, as sparse.py has them."""

import numpy as np

import vdla
from vdla import te


def wide(value):
    return te.cast("int32", value)


def packed(weights):
    """As in sparse.py."""
    groups = np.asarray(weights).reshape(*np.shape(weights)[:-1], -1, 4)
    chosen = np.sort(np.argsort(groups == 0, axis=-1, kind="stable")[..., :2], axis=-1)
    return (np.take_along_axis(groups, chosen, axis=-1) << 2 | chosen).reshape(*groups.shape[:-2], -1).astype(np.int8)


def formulation(layer, config):
    """A dense layer of a network, if its weights are as sparse and as narrow."""
    layer.definition.require("dense")
    x, weights = layer.definition.inputs[0], layer.constants["weight"]
    outputs, features = weights.shape
    if (
        features % 4
        or np.abs(weights + 0.5).max() > 32
        or (weights.reshape(outputs, -1, 4) != 0).sum(axis=-1).max() > 2
    ):
        raise vdla.LayerError("weights must have six bits, and two of every four be 0, got others")
    w = te.placeholder((outputs, features // 2), "int8", "pairs")
    c = te.reduce_axis(features // 2, "c")

    def value(n, m):
        weight = wide(w[m, c])
        return te.sum((weight >> 2) * wide(x[n, 4 * (c // 2) + (weight & 3)]), axis=c)

    sums = te.compute((x.shape[0], outputs), value, "sums")
    return vdla.Formulation(vdla.definitions.requantised(sums, 1)[1], {"pairs": packed(weights)})
