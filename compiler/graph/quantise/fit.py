"""The least scales of weights with which sums and biases fit into int32.

A bias counts in units of the data's scale times the weight's. Of weights that are far smaller than
their bias it would not fit: their scale rises until it does. What they lose is below the digits of
a result that holds the bias as well.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.quantise.bias import taps_of
from vdla.compiler.graph.quantise.parameters import ActivationParameters
from vdla.compiler.graph.quantise.plan import QuantisedLayer
from vdla.compiler.graph.quantise.statistics import Float64

_GREATEST_SUM = 2.0**29
"""Below int32 by what rounding and corrections of biases add, and exact in every kernel of CPUs."""
_LEAST_SUM_SCALE = float(np.finfo(np.float32).tiny)


def least_scales(graph: Graph, layer: QuantisedLayer, axis: int | None, data: ActivationParameters) -> Float64:
    """The least scale of a product's weight, one for each index along `axis` or one in all.

    It is 0 where weights and bias are.
    """
    weight = np.abs(graph.constants[layer.weight].astype(np.float64))
    sums = taps_of(layer, weight).sum(axis=2).reshape(-1) * data.reach
    if layer.bias:
        sums = sums + np.abs(graph.constants[layer.bias].astype(np.float64).reshape(-1)) / float(data.scale)
    least = np.where(sums > 0, np.maximum(sums / _GREATEST_SUM, _LEAST_SUM_SCALE / float(data.scale)), 0)
    return np.asarray(least.max(keepdims=True, initial=0) if axis is None else least)
