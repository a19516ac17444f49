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
    insert_qdq,
)
from vdla.runtime.evaluate import Evaluator, evaluate_node
from vdla.runtime.quantise.batches import Batch


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
    """All layers in the order of the network; `outputs` are the ratios of its outputs in dB."""

    network: str
    layers: tuple[LayerReport, ...]
    outputs: Mapping[str, float]

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
        return "\n".join(rows)


@dataclass(slots=True)
class _Ratio:
    """Sums of signal and noise."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, exact: Array, found: Array) -> None:
        """Adds a batch."""
        wide = exact.astype(np.float64)
        self.signal += float((wide**2).sum())
        self.noise += float(((found.astype(np.float64) - wide) ** 2).sum())

    @property
    def db(self) -> float:
        """The ratio; infinite without noise."""
        if not self.noise:
            return float("inf")
        return 10 * float(np.log10(max(self.signal, 1e-300) / self.noise))


@dataclass(slots=True)
class _Measured:
    ratio: _Ratio = field(default_factory=_Ratio)
    outside: int = 0
    elements: int = 0


def make_report(
    graph: Graph, plan: QuantisationPlan, parameters: QuantisedParameters, samples: Sequence[Batch], sensitivity: bool
) -> QuantisationReport:
    """The report of a quantised float graph."""
    wanted = list(dict.fromkeys([*(layer.result for layer in plan.layers), *graph.outputs]))
    exact = [Evaluator(graph, prefer="size").run(batch, values=wanted) for batch in samples]
    whole = _run(insert_qdq(graph, plan, parameters), samples, wanted)
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
    return QuantisationReport(graph.name, tuple(layers), {name: _output(name, exact, whole) for name in graph.outputs})


def _run(graph: Graph, samples: Sequence[Batch], wanted: Sequence[str]) -> list[dict[str, Array]]:
    """The values of a QDQ graph; kernels of products want constant weights."""
    constant = fold_constants(graph, _evaluate, keep=("QuantizeLinear",))
    evaluator = Evaluator(constant, prefer="size")
    return [evaluator.run(batch, values=wanted) for batch in samples]


def _evaluate(node: Node, inputs: Sequence[Array | None]) -> Sequence[Array]:
    return evaluate_node(node, inputs, prefer="numpy")


def _of(plan: QuantisationPlan, parameters: QuantisedParameters, name: str) -> ActivationParameters:
    return parameters.activations[plan.values[name]]


_Runs = Sequence[Mapping[str, Array]]


def _measure(name: str, parameters: ActivationParameters, exact: _Runs, found: _Runs) -> _Measured:
    measured = _Measured()
    low, high = parameters.range
    half = float(parameters.scale) / 2
    for one, other in zip(exact, found, strict=True):
        measured.ratio.add(one[name], other[name])
        measured.outside += int(((one[name] < low - half) | (one[name] > high + half)).sum())
        measured.elements += one[name].size
    return measured


def snr_db(exact: Mapping[str, Array], found: Mapping[str, Array]) -> float:
    """The ratio of arrays by name, taken together."""
    ratio = _Ratio()
    for name, value in exact.items():
        ratio.add(value, found[name])
    return ratio.db


def _output(name: str, exact: _Runs, found: _Runs) -> float:
    ratio = _Ratio()
    for one, other in zip(exact, found, strict=True):
        ratio.add(one[name], other[name])
    return ratio.db


def _alone(
    graph: Graph,
    plan: QuantisationPlan,
    parameters: QuantisedParameters,
    layer: QuantisedLayer,
    samples: Sequence[Batch],
    exact: _Runs,
) -> float:
    """The ratio of all outputs if only one layer is quantised."""
    names = (*layer.activations, layer.result)
    only = replace(plan, layers=(layer,), values={name: plan.values[name] for name in names})
    ratio = _Ratio()
    for one, other in zip(exact, _run(insert_qdq(graph, only, parameters), samples, graph.outputs), strict=True):
        for name in graph.outputs:
            if np.issubdtype(one[name].dtype, np.floating):
                ratio.add(one[name], other[name])
    return ratio.db
