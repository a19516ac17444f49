"""Quantised models to compare: those of the toolkit, with activations of uint8.

The kernels of ONNX Runtime for x86 are made for uint8 activations; int8 ones take it twice as long.
Ours compute the same from either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.onnx.export import export_model
from vdla.runtime.network.quantise import quantise

if TYPE_CHECKING:
    from onnx import ModelProto


def quantised_model(model: ModelProto, image: NDArray[Any]) -> bytes:
    """The model with QuantizeLinear and DequantizeLinear nodes, ranges by one run on `image`."""
    made = export_model(quantise(model, calibration=[image], method="minmax").graph)
    _make_unsigned(made)
    return bytes(made.SerializeToString())


def _make_unsigned(model: ModelProto) -> None:
    """Give activations the type uint8: zero points of QuantizeLinear become 128 more."""
    from onnx import numpy_helper

    names = {node.input[2] for node in model.graph.node if node.op_type == "QuantizeLinear"}
    for tensor in model.graph.initializer:
        if tensor.name in names:
            zero_point = numpy_helper.to_array(tensor).astype(np.int64) + 128
            tensor.CopyFrom(numpy_helper.from_array(zero_point.astype(np.uint8), tensor.name))
