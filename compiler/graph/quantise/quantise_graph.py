# SPDX-License-Identifier: Apache-2.0
"""The parameters of all layers of a plan, from statistics of the values that it quantises."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vdla.compiler.graph.graph import Graph
from vdla.compiler.graph.quantise.bias import layer_bias, least_scales
from vdla.compiler.graph.quantise.groups import quantise_groups
from vdla.compiler.graph.quantise.insert import QuantisedParameters
from vdla.compiler.graph.quantise.parameters import (
    ActivationParameters,
    WeightParameters,
    activation_parameters,
    quantise_weight,
)
from vdla.compiler.graph.quantise.parts import mixed_values, parts_of
from vdla.compiler.graph.quantise.plan import QuantisationPlan, QuantisedLayer, plan_quantisation
from vdla.compiler.graph.quantise.ranges import METHODS
from vdla.compiler.graph.quantise.statistics import QuantiseError, ValueStatistics

Statistics = Mapping[str, ValueStatistics]
_LEAST_SCORES = 12.0
"""The least bound of scores, so that a place that is not attended, with the lowest one, has next to
no share.
"""


def value_statistics(graph: Graph, plan: QuantisationPlan) -> dict[str, ValueStatistics]:
    """Statistics of the values to quantise: complete for constants, else empty.

    Where values have parts, these are judged, and every value of a layer may need its own
    parameters.
    """
    rows = {layer.activations[0] for layer in plan.layers if layer.node.op in ("Gemm", "MatMul")}
    scores = plan.scores(graph)
    by_value = {
        name: ValueStatistics(name, -1 if name in rows else 1, name not in scores) for name in plan.values.values()
    }
    values = plan.layer_values
    parts = [name for value in values for name in parts_of(graph, value) if name != value]
    for name in (*values, *parts) if parts else ():
        by_value.setdefault(name, ValueStatistics(name, finite=name in plan.values))
    for name, statistics in by_value.items():
        constant = graph.constant(name)
        if constant is not None:
            statistics.update(constant)
    return by_value


def separate_parts(
    graph: Graph, plan: QuantisationPlan, statistics: Statistics, method: str = "mse", keep_float: Sequence[str] = ()
) -> QuantisationPlan:
    """The plan without the values whose single scale would lose a part."""
    while mixed := mixed_values(graph, plan, statistics, method):
        plan = plan_quantisation(graph, keep_float, {**plan.mixed, **mixed})
    return plan


def choose_parameters(
    graph: Graph,
    plan: QuantisationPlan,
    statistics: Statistics,
    method: str = "mse",
    *,
    clip_weights: bool | None = None,
    weights: Mapping[str, WeightParameters] | None = None,
    per_channel: bool = True,
    correct_biases: bool = True,
    weight_bits: Mapping[str, int] | None = None,
    weight_groups: int | None = None,
) -> QuantisedParameters:
    """Parameters by a method of METHODS; `weight_bits` has the bits of layers with weights narrower
    than 8 bits. Matrix products have weights of four bits in groups of `weight_groups` inputs.

    Scales of weights have the least squared error with `clip_weights`, by default if the method is
    "mse"; else they cover the maximum. `weights` are taken as they are where their sums fit.

    Raises:
        QuantiseError: a value has no statistics; weights or biases contain NaN or infinity.
    """
    symmetric, scores = plan.symmetric_values(graph), plan.scores(graph)
    activations = {
        name: _activation(
            statistics[name], method, symmetric=name in symmetric, least=_LEAST_SCORES if name in scores else 0.0
        )
        for name in dict.fromkeys(plan.values.values())
    }
    clip_weights = method == "mse" if clip_weights is None else clip_weights
    chosen, biases = {}, {}
    for layer in plan.layers:
        if not layer.weight:
            continue
        axis = layer.axis if per_channel else None
        where = f"quantise: weight {layer.weight}"
        bits = (weight_bits or {}).get(layer.name, 8)
        least = least_scales(graph, layer, axis, activations[_data(plan, layer)])
        given = (weights or {}).get(layer.name)
        if given is None or given.raised or (least is not None and (given.scale < least).any()):
            values = graph.constants[layer.weight]
            if weight_groups is not None and layer.node.op in ("MatMul", "Gemm") and layer.axis is not None:
                given = quantise_groups(where, values, layer.axis, weight_groups, least)
            else:
                given = quantise_weight(where, values, axis, clip_weights, bits, least)
        chosen[layer.name] = given
        means = statistics[_data(plan, layer)].means if correct_biases else None
        bias = layer_bias(graph, layer, given, means)
        if bias is not None:
            biases[layer.name] = bias
    return QuantisedParameters(activations, chosen, biases)


def _activation(
    statistics: ValueStatistics, method: str, *, symmetric: bool, least: float = 0.0
) -> ActivationParameters:
    """The parameters of a value, whose range reaches `least` at least."""
    if not statistics.elements:
        raise QuantiseError(f"calibration: data must reach every value, got none for {statistics.name}")
    low, high = METHODS[method](statistics)
    return activation_parameters((low, max(high, least)), symmetric=symmetric)


def _data(plan: QuantisationPlan, layer: QuantisedLayer) -> str:
    return plan.values[layer.activations[0]]
