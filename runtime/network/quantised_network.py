# SPDX-License-Identifier: Apache-2.0
"""What `quantise` returns: a network with quantised layers, and how it was made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.support.atomic import write_bytes

if TYPE_CHECKING:
    from vdla.compiler.graph import Graph
    from vdla.compiler.graph.quantise import QuantisationPlan, QuantisedParameters
    from vdla.runtime.network.batches import Batch
    from vdla.runtime.network.quantisation_report import QuantisationReport


@dataclass(frozen=True, eq=False, repr=False)
class QuantisedNetwork:
    """`graph` has QuantizeLinear and DequantizeLinear around its layers.

    `float_graph` is the network before, with batch normalisation folded; `samples` are the first
    batches of the calibration data; `method` found the ranges of values.
    """

    graph: Graph
    float_graph: Graph
    plan: QuantisationPlan
    parameters: QuantisedParameters
    samples: tuple[Batch, ...]
    method: str

    def __repr__(self) -> str:
        count = len(self.plan.layers)
        return f"<QuantisedNetwork {self.graph.name}: {count} layer{'s' * (count != 1)} by {self.method}>"

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
        from vdla.runtime.network.quantisation_report import make_report

        return make_report(self.float_graph, self.plan, self.parameters, self.samples[:batches], sensitivity)
