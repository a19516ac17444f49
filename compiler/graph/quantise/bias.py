# SPDX-License-Identifier: Apache-2.0
"""Biases that compensate the mean error of rounded weights.

Rounding weights by dW moves the mean of a sum by the sum of dW times the means of the data (Nagel
et al., Data-free quantization, 2019, section 4.2).
"""

from __future__ import annotations

import numpy as np

from vdla.compiler.graph.graph import Array, Graph
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.quantise.parameters import ActivationParameters, WeightParameters
from vdla.compiler.graph.quantise.plan import QuantisedLayer
from vdla.compiler.graph.quantise.statistics import Float64, check_finite


def layer_bias(graph: Graph, layer: QuantisedLayer, weight: WeightParameters, means: Float64 | None) -> Array | None:
    """The float bias of a product, corrected by the `means` of its data; None if it has none.

    A bias has one number for each output, along the axis on which it is added.
    """
    given = graph.constant(layer.bias) if layer.bias else None
    if given is not None:
        check_finite(f"quantise: bias {layer.bias}", given)
    if given is None and (means is None or not has_trait(layer.node.op, Trait.BIASED)):
        return None
    outputs = _outputs(graph, layer)
    shape = _shape(layer, given, outputs)
    bias = np.zeros(outputs) if given is None else np.broadcast_to(given.reshape(-1), (outputs,))
    if means is not None:
        bias = bias - _mean_error(graph, layer, weight, means)
    return np.asarray(bias, np.float32).reshape(shape)


def _outputs(graph: Graph, layer: QuantisedLayer) -> int:
    shape = graph.tensor(layer.weight).extents
    if layer.node.op == "ConvTranspose":
        return shape[1] * int(layer.node.attribute("group"))
    return shape[layer.axis if layer.axis is not None else 0]


def _shape(layer: QuantisedLayer, given: Array | None, outputs: int) -> tuple[int, ...]:
    """The shape of the bias: a vector, or the shape of the operand of an Add."""
    if given is None or layer.bias in layer.node.inputs:
        return (outputs,)
    if given.size == outputs:
        return given.shape
    trailing = 0 if layer.node.op in ("MatMul", "Gemm") else given.ndim - 1
    return (outputs, *(1,) * trailing)


def _mean_error(graph: Graph, layer: QuantisedLayer, weight: WeightParameters, means: Float64) -> Float64:
    """The mean of the sums' error for each output; 0 where the means do not fit the weight."""
    exact = graph.constants[layer.weight].astype(np.float64)
    sides = [1] * exact.ndim
    if layer.axis is not None:
        sides[layer.axis] = -1
    error = taps_of(layer, weight.values * weight.scale.astype(np.float64).reshape(sides) - exact)
    groups, outputs, inputs = error.shape
    if len(means) != groups * inputs:
        return np.zeros(groups * outputs)
    return np.asarray(np.einsum("goi,gi->go", error, means.reshape(groups, -1)).reshape(-1))


def taps_of(layer: QuantisedLayer, weight: Float64) -> Float64:
    """A weight, summed over its window, as [groups, outputs, inputs]."""
    if layer.node.op not in ("Conv", "ConvTranspose"):
        return (weight if layer.axis == 0 else weight.T)[np.newaxis]
    groups = int(layer.node.attribute("group"))
    taps = np.asarray(weight.reshape(groups, len(weight) // groups, weight.shape[1], -1).sum(axis=3))
    return taps if layer.node.op == "Conv" else taps.swapaxes(1, 2)


# --- scales ---------------------------------------------------------------------------------------


_GREATEST_SUM = 2.0**29
"""The limit of sums: below int32 by a margin for rounding and bias correction, and exact in every
CPU kernel.
"""
_LEAST_SUM_SCALE = float(np.finfo(np.float32).tiny)


def least_scales(graph: Graph, layer: QuantisedLayer, axis: int | None, data: ActivationParameters) -> Float64:
    """The least scale of a product's weight, one for each index along `axis` or a single one.

    It is 0 where weights and bias are 0.
    """
    weight = np.abs(graph.constants[layer.weight].astype(np.float64))
    sums = taps_of(layer, weight).sum(axis=2).reshape(-1) * data.reach
    if layer.bias:
        sums = sums + np.abs(graph.constants[layer.bias].astype(np.float64).reshape(-1)) / float(data.scale)
    least = np.where(sums > 0, np.maximum(sums / _GREATEST_SUM, _LEAST_SUM_SCALE / float(data.scale)), 0)
    return np.asarray(least.max(keepdims=True, initial=0) if axis is None else least)
