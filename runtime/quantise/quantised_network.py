"""A quantised network: its QDQ graph, and the float graph that it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from vdla.compiler.graph import Graph
from vdla.compiler.graph.quantise import QuantisationPlan, QuantisedParameters
from vdla.runtime.quantise.batches import Batch
from vdla.runtime.quantise.report import QuantisationReport, make_report
from vdla.support.atomic import write_bytes


@dataclass(frozen=True, eq=False)
class QuantisedNetwork:
    """`graph` has QuantizeLinear and DequantizeLinear around its layers.

    `float_graph` is the network before, with batch normalisation folded; `samples` are the first
    batches of the calibration data.
    """

    graph: Graph
    float_graph: Graph
    plan: QuantisationPlan
    parameters: QuantisedParameters
    samples: tuple[Batch, ...]

    @property
    def layers(self) -> tuple[str, ...]:
        """The names of the quantised layers."""
        return tuple(layer.name for layer in self.plan.layers)

    def save(self, path: str | Path) -> None:
        """Writes the QDQ network as an ONNX model."""
        from vdla.compiler.graph.onnx.export import export_model

        write_bytes(Path(path), export_model(self.graph).SerializeToString())

    def report(self, *, sensitivity: bool = True, batches: int = 1) -> QuantisationReport:
        """What quantisation does to each layer, on the first batches of the calibration data.

        With `sensitivity`, the network runs once more for each layer, with only that layer
        quantised.
        """
        return make_report(self.float_graph, self.plan, self.parameters, self.samples[:batches], sensitivity)
