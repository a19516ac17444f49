# SPDX-License-Identifier: Apache-2.0
"""`quantise`: a float network as a QDQ network, with int8 activations and weights.

quantised = quantise("model.onnx", calibration=images)
quantised.save("model_int8.onnx")
print(quantised.report())
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vdla.compiler.graph import Array, Graph
from vdla.compiler.graph.passes import fold_constants, run_passes
from vdla.compiler.graph.quantise import (
    METHODS,
    QuantisationPlan,
    QuantiseError,
    QuantiseWarning,
    WeightParameters,
    check_finite,
    choose_parameters,
    equalise,
    insert_qdq,
    plan_quantisation,
    separate_parts,
    value_statistics,
    why_no_scores,
    with_score_scales,
    with_scores,
)
from vdla.runtime.network.batches import Batch, Calibration, batches
from vdla.runtime.network.evaluate_nodes import PREPARATION, evaluate_node
from vdla.runtime.network.evaluator import Evaluator
from vdla.runtime.network.import_network import import_network
from vdla.runtime.network.method_choice import AUTO, CANDIDATES, MARGIN_DB, Outputs, gain_db
from vdla.runtime.network.part_reports import channels_lost_to_scales
from vdla.runtime.network.quantised_network import QuantisedNetwork
from vdla.runtime.network.targets import Shapes, shape_sets
from vdla.support.integers import is_int
from vdla.support.suggest import did_you_mean

if TYPE_CHECKING:
    from vdla.runtime.network.import_network import ModelSource

_KEPT_BYTES = 1 << 26  # of calibration data, for reports
_ATTENTION = ("int8", "float")
_COMPARED = 8  # batches on which methods are compared


def quantise(
    model: ModelSource,
    *,
    calibration: Calibration,
    method: str = AUTO,
    keep_float: Sequence[str] = (),
    per_channel: bool = True,
    correct_biases: bool = True,
    equalise_layers: bool = False,
    weight_bits: Mapping[str, int] | None = None,
    weight_groups: int | None = None,
    attention: str = "float",
    shapes: Shapes | None = None,
) -> QuantisedNetwork:
    """A network with quantised layers, calibrated on arrays, arrays by name, or batches of them.

    `method` finds the range of each value: "minmax", "percentile", "mse" or "entropy"; "auto" is
    "minmax", or "mse" if the outputs on the first batches are clearly better with it. Layers named
    by `keep_float` stay float. Weights have a scale for each output, or one with
    `per_channel=False`. `correct_biases` compensates the mean error of rounded weights;
    `equalise_layers` balances the channels of consecutive convolutions first. `weight_bits` gives
    layers weights of 2 to 7 bits; with `weight_groups`, such as 32, matrix products have weights of
    4 bits, so many inputs with a scale. With `attention="int8"`, ONNX's Attention runs on integers
    too, with scores of 8 bits. `shapes` has the shapes of inputs, as for `vdla.compile`.
    Data are read once, batch by batch. A `QuantiseWarning` names channels of outputs that the scale
    of the whole would lose, and attention that stays in float although it was to run on integers.

    Raises:
        QuantiseError: wrong options; data or weights with NaN or infinity, by the name of the
            tensor; no layer that could be quantised.
        OnnxError, UnsupportedError: the model is not valid, or has nodes that cannot run here.
    """
    known = (AUTO, *METHODS)
    if method not in known:
        raise QuantiseError(
            f"quantise: method must be one of {', '.join(known)}, got {method!r}{did_you_mean(method, known)}"
        )
    sets = shape_sets(None, shapes)
    if len(sets) > 1:
        raise QuantiseError(f"quantise: shapes must be one set, got {len(sets)}")
    graph = run_passes(import_network(model, sets[0]), PREPARATION)
    if not any(node.op == "QuantizeLinear" for node in graph.nodes):  # weights alone may be quantised
        graph = _with_float_weights(graph)
    graph = equalise(graph) if equalise_layers else graph
    if attention not in _ATTENTION:
        raise QuantiseError(f"quantise: attention must be {' or '.join(_ATTENTION)}, got {attention!r}")
    if attention == "int8":
        for node, rule in why_no_scores(graph, keep_float):
            warnings.warn(f"quantise {graph.name}: {node} stays in float; it must {rule}", QuantiseWarning, 2)
        graph = with_scores(graph)
    plan = plan_quantisation(graph, keep_float)
    if not plan.layers:
        if any(node.op.startswith("vdla.Q") or node.op == "QuantizeLinear" for node in graph.nodes):
            raise QuantiseError(
                f"quantise: {graph.name} must be a float model, got a quantised one; compile it as it is"
            )
        raise QuantiseError(f"quantise: {graph.name} must have layers to quantise, got none")
    _check_bits(plan, weight_bits or {})
    if weight_groups is not None and (not is_int(weight_groups) or weight_groups < 2):
        raise QuantiseError(f"quantise: weight_groups must be an integer from 2, got {weight_groups!r}")
    for layer in plan.layers:
        if layer.weight:
            check_finite(f"quantise: weight {layer.weight}", graph.constants[layer.weight])
    statistics, kept = value_statistics(graph, plan), _Kept()
    evaluator = Evaluator(graph, prefer="size")
    for batch in batches(graph, calibration):
        for name, value in batch.items():
            if name in statistics:
                statistics[name].update(value)
        values = evaluator.run(
            batch, observe=lambda name, value: statistics[name].update(value) if name in statistics else None
        )
        kept.add(batch, values)
    if not kept.batches:
        raise QuantiseError("quantise: calibration must have at least one batch, got none")
    weights: Mapping[str, WeightParameters] | None = None
    made: list[QuantisedNetwork] = []
    for candidate in CANDIDATES if method == AUTO else (method,):
        parted = separate_parts(graph, plan, statistics, candidate, keep_float)
        parameters = choose_parameters(
            graph,
            parted,
            statistics,
            candidate,
            clip_weights=method in (AUTO, "mse"),
            weights=weights,
            per_channel=per_channel,
            correct_biases=correct_biases,
            weight_bits=weight_bits,
            weight_groups=weight_groups,
        )
        weights = parameters.weights
        quantised = with_score_scales(insert_qdq(graph, parted, parameters))
        made.append(QuantisedNetwork(quantised, graph, parted, parameters, tuple(kept.batches), candidate))
    best = _better(made[0], made[-1], kept.outputs)
    for part in channels_lost_to_scales(best.plan, best.parameters, kept.outputs[:1]):
        warnings.warn(f"quantise {graph.name}: {part}", QuantiseWarning, 2)
    return best


def _with_float_weights(graph: Graph) -> Graph:
    """The graph with the values of weights that a DequantizeLinear computes."""
    nodes, constants = [], dict(graph.constants)
    for node in graph.nodes:
        operands = [graph.constant(name) if name else None for name in node.inputs]
        if node.op != "DequantizeLinear" or any(value is None for value in operands):
            nodes.append(node)
            continue
        (constants[node.outputs[0]],) = evaluate_node(node, operands, prefer="numpy")
    if len(nodes) == len(graph.nodes):
        return graph
    return fold_constants(graph.replace(nodes=tuple(nodes), constants=constants), evaluate_node)


def _better(plain: QuantisedNetwork, clipped: QuantisedNetwork, exact: Outputs) -> QuantisedNetwork:
    """The network without clipped ranges, unless these gain more than chance."""
    if plain.parameters.activations == clipped.parameters.activations:
        return plain
    gain = gain_db(plain.graph, clipped.graph, plain.samples[: len(exact)], exact)
    return clipped if gain > MARGIN_DB else plain


def _check_bits(plan: QuantisationPlan, weight_bits: Mapping[str, int]) -> None:
    known = [layer.name for layer in plan.layers if layer.weight]
    for name, bits in weight_bits.items():
        if name not in known:
            hint = did_you_mean(name, known)
            raise QuantiseError(f"quantise: weight_bits must name layers with weights, got {name!r}{hint}")
        if not is_int(bits) or not 2 <= bits <= 8:
            raise QuantiseError(f"quantise: weight_bits of {name} must be an integer from 2 to 8, got {bits!r}")


class _Kept:
    """The first batches, as many as fit into _KEPT_BYTES, and at least one; outputs of a few."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.outputs: list[Mapping[str, Array]] = []
        self.room = _KEPT_BYTES

    def add(self, batch: Batch, outputs: Mapping[str, Array]) -> None:
        """Keeps a batch if there is room."""
        size = sum(value.nbytes for value in batch.values())
        if not self.batches or size <= self.room:
            self.batches.append(batch)
            self.room -= size
            if len(self.outputs) < _COMPARED:
                self.outputs.append(outputs)
