# SPDX-License-Identifier: Apache-2.0
"""ONNX's backend interface: models prepared and run on the CPU, as ONNX's test suite does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, helper
from onnx.backend.base import Backend, BackendRep

from vdla.compiler.graph import Graph
from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.onnx.errors import OnnxError
from vdla.runtime.network.evaluator import Evaluator


class PreparedModel(BackendRep):
    """A model that is ready to run."""

    def __init__(self, graph: Graph, prefer: str) -> None:
        self.graph = graph
        self._evaluator = Evaluator(graph, prefer=prefer)

    def run(self, inputs: Sequence[Any] | Mapping[str, Any], **options: Any) -> tuple[Any, ...]:  # noqa: ANN401
        """The outputs, in order; `inputs` in order or by name."""
        named = inputs if isinstance(inputs, Mapping) else dict(zip(self.graph.inputs, inputs, strict=True))
        results = self._evaluator.run(named)
        return tuple(results[name] for name in self.graph.outputs)


class OnnxBackend(Backend):
    """`prepare` imports a model; `run_model` and `run_node` run one at once. Device: CPU."""

    @classmethod
    def prepare(
        cls,
        model: ModelProto,
        device: str = "CPU",
        *,
        prefer: str = "size",
        **options: Any,  # noqa: ANN401
    ) -> PreparedModel:
        """The model, imported; `prefer` as for `evaluate`: "size", "kernel" or "numpy".

        Raises:
            OnnxError: the model is corrupt or has unsupported nodes, or the device is not the CPU.
        """
        if not cls.supports_device(device):
            raise OnnxError(f"OnnxBackend.prepare: device must be CPU, got {device}")
        return PreparedModel(import_model(model), prefer)

    @classmethod
    def run_model(cls, model: ModelProto, inputs: Any, device: str = "CPU", **options: Any) -> tuple[Any, ...]:  # noqa: ANN401
        """The outputs of a model, in order."""
        return cls.prepare(model, device, **options).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,  # noqa: ANN401
        device: str = "CPU",
        outputs_info: Sequence[tuple[Any, tuple[int, ...]]] | None = None,
        **options: Any,  # noqa: ANN401
    ) -> tuple[Any, ...]:
        """The outputs of one node; keyword `opset_version` says what the node means."""
        version = int(options.pop("opset_version", onnx.defs.onnx_opset_version()))
        names = [name for name in node.input if name]
        arrays = [np.asarray(value) for value in inputs]
        given = [_value_info(name, array) for name, array in zip(names, arrays, strict=True)]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = helper.make_graph([node], "node", given, results)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        return cls.run_model(model, dict(zip(names, arrays, strict=True)), device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether models run on the device."""
        return device.partition(":")[0] == "CPU"


def _value_info(name: str, array: np.ndarray[Any, Any]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


prepare = OnnxBackend.prepare
run_model = OnnxBackend.run_model
run_node = OnnxBackend.run_node
supports_device = OnnxBackend.supports_device
