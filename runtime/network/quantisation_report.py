# SPDX-License-Identifier: Apache-2.0
"""What quantisation costs: the error of every layer, in all and alone.

The signal-to-noise ratio of x' for x is 10 log10(sum x^2 / sum (x' - x)^2), in dB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from vdla.compiler.graph import Array, Graph, Node
from vdla.compiler.graph.passes import fold_constants
from vdla.compiler.graph.quantise import (
    ActivationParameters,
    QuantisationPlan,
    QuantisedLayer,
    QuantisedParameters,
    WeightParameters,
    insert_qdq,
)
from vdla.runtime.network.batches import Batch
from vdla.runtime.network.evaluate_nodes import evaluate_node
from vdla.runtime.network.evaluator import Evaluator
from vdla.runtime.network.part_reports import (
    PartReport,
    Ratio,
    Runs,
    concatenations,
    indices,
    lost_channels,
    parts_of_concatenations,
)


@dataclass(frozen=True, slots=True)
class LayerReport:
    """One layer: `snr_db` of its result in the quantised network.

    `saturated` is the share of the float results beyond the range of the integers, `low` to `high`.
    `alone_db` is the ratio of the network's outputs if only this layer is quantised; None if that
    was not measured.
    """

    name: str
    op: str
    snr_db: float
    saturated: float
    low: float
    high: float
    alone_db: float | None = None


@dataclass(frozen=True, slots=True)
class QuantisationReport:
    """All layers in the order of the network; `outputs` are the ratios of its outputs in dB.

    `parts` are the inputs of concatenations, and channels of outputs that the ratio of the whole
    hides. `notes` say what the quantiser did to keep values that plain scales would lose.
    """

    network: str
    layers: tuple[LayerReport, ...]
    outputs: Mapping[str, float]
    parts: tuple[PartReport, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """A sentence for each part that loses more than the ratio of the whole says."""
        return tuple(str(part) for part in self.parts if part.is_lost)

    @property
    def costliest(self) -> tuple[LayerReport, ...]:
        """The layers by what each costs alone, the worst first."""
        measured = [layer for layer in self.layers if layer.alone_db is not None]
        return tuple(sorted(measured, key=lambda layer: layer.alone_db or 0.0))

    def __str__(self) -> str:
        width = max([5, *(len(layer.name) for layer in self.layers)])
        rows = [f"{'layer':{width}}  SNR dB  saturated  alone dB"]
        for layer in self.layers:
            alone = "-" if layer.alone_db is None else f"{layer.alone_db:.1f}"
            rows.append(f"{layer.name:{width}}  {layer.snr_db:6.1f}  {100 * layer.saturated:7.3f} %  {alone:>8}")
        rows += [f"{name:{width}}  {ratio:6.1f}  (output)" for name, ratio in self.outputs.items()]
        rows += [f"note: {text}" for text in self.notes] + [f"warning: {text}" for text in self.warnings]
        return "\n".join(rows)


@dataclass(slots=True)
class _Measured:
    ratio: Ratio = field(default_factory=Ratio)
    outside: int = 0
    elements: int = 0


def make_report(
    graph: Graph, plan: QuantisationPlan, parameters: QuantisedParameters, samples: Sequence[Batch], sensitivity: bool
) -> QuantisationReport:
    """The report of a quantised float graph."""
    joined = concatenations(graph, plan)
    wanted = list(dict.fromkeys([*(layer.result for layer in plan.layers), *joined, *graph.outputs]))
    operands = [name for node in joined.values() for name in node.inputs]
    exact = [Evaluator(graph, prefer="size").run(batch, values=[*wanted, *operands]) for batch in samples]
    whole = quantised_runs(insert_qdq(graph, plan, parameters), samples, wanted)
    layers = []
    for layer in plan.layers:
        measured = _measure(layer.result, _of(plan, parameters, layer.result), exact, whole)
        low, high = _of(plan, parameters, layer.result).range
        layers.append(
            LayerReport(
                name=layer.name,
                op=layer.node.op,
                snr_db=measured.ratio.db,
                saturated=measured.outside / max(measured.elements, 1),
                low=low,
                high=high,
                alone_db=_alone(graph, plan, parameters, layer, samples, exact) if sensitivity else None,
            )
        )
    return QuantisationReport(
        network=graph.name,
        layers=tuple(layers),
        outputs={name: _output(name, exact, whole) for name in graph.outputs},
        parts=(*parts_of_concatenations(joined, exact, whole), *lost_channels(graph.outputs, exact, whole)),
        notes=_notes(plan, parameters),
    )


def _notes(plan: QuantisationPlan, parameters: QuantisedParameters) -> tuple[str, ...]:
    """What stays float and which scales are greater so that nothing is lost."""
    mixed = [f"{value} stays float, since one scale would lose {part} in it" for value, part in plan.mixed.items()]
    raised = [
        f"{layer.name}: the weight scale of {_outputs(made)} is raised so that bias and sums fit into int32"
        for layer in plan.layers
        if (made := parameters.weights.get(layer.name)) is not None and made.raised
    ]
    return (*mixed, *raised)


def _outputs(weight: WeightParameters) -> str:
    if weight.scale.size == 1:
        return "all outputs"
    noun = "outputs" if len(weight.raised) > 1 else "output"
    return f"{noun} {indices(weight.raised)} of {weight.scale.size}"


def quantised_runs(graph: Graph, samples: Sequence[Batch], wanted: Sequence[str]) -> list[dict[str, Array]]:
    """The values of a QDQ graph on batches."""
    # kernels of products want constant weights
    constant = fold_constants(graph, _evaluate, keep=("QuantizeLinear",))
    evaluator = Evaluator(constant, prefer="size")
    return [evaluator.run(batch, values=wanted) for batch in samples]


def _evaluate(node: Node, inputs: Sequence[Array | None]) -> Sequence[Array]:
    return evaluate_node(node, inputs, prefer="numpy")


def _of(plan: QuantisationPlan, parameters: QuantisedParameters, name: str) -> ActivationParameters:
    return parameters.activations[plan.values[name]]


def _measure(name: str, parameters: ActivationParameters, exact: Runs, runs: Runs) -> _Measured:
    measured = _Measured()
    low, high = parameters.range
    half = float(parameters.scale) / 2
    for one, other in zip(exact, runs, strict=True):
        measured.ratio.add(one[name], other[name])
        measured.outside += int(((one[name] < low - half) | (one[name] > high + half)).sum())
        measured.elements += one[name].size
    return measured


def snr_db(exact: Mapping[str, Array], outputs: Mapping[str, Array]) -> float:
    """The ratio of arrays by name, taken together."""
    ratio = Ratio()
    for name, value in exact.items():
        ratio.add(value, outputs[name])
    return ratio.db


def _output(name: str, exact: Runs, runs: Runs) -> float:
    ratio = Ratio()
    for one, other in zip(exact, runs, strict=True):
        ratio.add(one[name], other[name])
    return ratio.db


def _alone(
    graph: Graph,
    plan: QuantisationPlan,
    parameters: QuantisedParameters,
    layer: QuantisedLayer,
    samples: Sequence[Batch],
    exact: Runs,
) -> float:
    """The ratio of all outputs if only one layer is quantised."""
    names = (*layer.activations, layer.result)
    only = replace(plan, layers=(layer,), values={name: plan.values[name] for name in names})
    ratio = Ratio()
    for one, other in zip(
        exact, quantised_runs(insert_qdq(graph, only, parameters), samples, graph.outputs), strict=True
    ):
        for name in graph.outputs:
            if np.issubdtype(one[name].dtype, np.floating):
                ratio.add(one[name], other[name])
    return ratio.db
