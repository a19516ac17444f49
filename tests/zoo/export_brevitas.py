# SPDX-License-Identifier: Apache-2.0
"""Writes brevitas.zip: networks that Brevitas quantises, as QONNX and as QuantizeLinear.

pip install torch==2.13.0 brevitas qonnx onnxruntime
PYTHONPATH=. python tests/zoo/export_brevitas.py
"""

from __future__ import annotations

import importlib.metadata
import io
import re
import warnings
from collections.abc import Iterator

import brevitas.nn as qnn
import numpy as np
import onnx
import torch
from brevitas.export import export_onnx_qcdq, export_qonnx
from brevitas.quant import (
    Int8ActPerTensorFloat,
    Int8Bias,
    Int8WeightPerChannelFloat,
    Int8WeightPerTensorFloat,
    ShiftedUint8ActPerTensorFloat,
    Uint8ActPerTensorFloat,
)
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes
from torch import nn

from vdla.verification.zoo.archive import FOLDER, Entry, Input, Writer, onnxruntime_outputs, without_traces


def tolerance(name: str) -> float:
    """Of the greatest value: a step of the narrowest activations, for a rounding the other way.

    A float bias is an integer of the sums of the compiled network, which are coarse where weights
    and activations have few bits.
    """
    bits = re.search(r"(\d)_bits", name)
    return max(0.05, 1 / (2 ** int(bits[1] if bits else 8) - 1))


def conv(inputs: int, outputs: int, kernel: int = 3, bits: int = 8, **options: object) -> qnn.QuantConv2d:
    """A convolution with weights of some bits, a scale for each channel."""
    options = {"padding": kernel // 2, "weight_quant": Int8WeightPerChannelFloat, "bias": False} | options
    return qnn.QuantConv2d(inputs, outputs, kernel, weight_bit_width=bits, **options)


def relu(bits: int = 8) -> qnn.QuantReLU:
    return qnn.QuantReLU(act_quant=Uint8ActPerTensorFloat, bit_width=bits)


def identity(bits: int = 8) -> qnn.QuantIdentity:
    return qnn.QuantIdentity(act_quant=Int8ActPerTensorFloat, bit_width=bits)


def linear(inputs: int, outputs: int, bits: int = 8, **options: object) -> qnn.QuantLinear:
    return qnn.QuantLinear(
        inputs, outputs, True, weight_quant=Int8WeightPerTensorFloat, weight_bit_width=bits, **options
    )


def convnet(bits: int) -> nn.Module:
    first = (identity(), conv(3, 16, bits=bits, stride=2), nn.BatchNorm2d(16), relu(bits))
    return nn.Sequential(
        *first, conv(16, 32, bits=bits), relu(bits), nn.AdaptiveAvgPool2d(1), nn.Flatten(), linear(32, 10, bits)
    )


def perceptron(bits: int) -> nn.Module:
    return nn.Sequential(
        identity(bits), linear(16, 32, bits), relu(bits), linear(32, 32, bits), relu(bits), linear(32, 10, bits)
    )


class Residual(nn.Module):
    """Both summands at one scale, as Brevitas needs them."""

    def __init__(self, bits: int) -> None:
        super().__init__()
        self.shared, self.act = identity(bits), relu(bits)
        self.body = nn.Sequential(conv(16, 16, bits=bits), relu(bits), conv(16, 16, bits=bits))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.shared(x)
        return self.act(self.shared(self.body(x)) + x)


def blocks() -> Iterator[tuple[str, nn.Module, tuple[int, ...]]]:
    """Name, network and shape of its input."""
    image, wide, vector = (1, 3, 16, 16), (1, 16, 8, 8), (2, 16)
    yield from ((f"convnet_{bits}_bits", convnet(bits), image) for bits in (8, 4, 3, 2))
    yield from ((f"perceptron_{bits}_bits", perceptron(bits), vector) for bits in (8, 6, 4, 2))
    yield from ((f"residual_{bits}_bits", Residual(bits), wide) for bits in (8, 4))
    depthwise = (identity(), conv(16, 16, groups=16), relu(), conv(16, 24, 1), relu())
    yield "depthwise", nn.Sequential(*depthwise), wide
    yield "pooled", nn.Sequential(identity(), conv(16, 16), relu(), nn.MaxPool2d(2), conv(16, 8)), wide
    shifted = qnn.QuantIdentity(act_quant=ShiftedUint8ActPerTensorFloat)
    yield "zero_point", nn.Sequential(shifted, conv(16, 16), relu()), wide
    power = qnn.QuantIdentity(act_quant=Int8ActPerTensorFloat, restrict_scaling_type="power_of_two")
    yield "power_of_two", nn.Sequential(power, conv(16, 16), relu()), wide
    biased = {"bias": True, "bias_quant": Int8Bias}
    yield "quantised_bias", nn.Sequential(qnn.QuantIdentity(return_quant_tensor=True), conv(16, 8, **biased)), wide
    act = nn.Sequential(identity(), conv(16, 8), qnn.QuantSigmoid(), conv(8, 8), qnn.QuantTanh())
    yield "sigmoid_tanh", act, wide


def exported(network: nn.Module, x: torch.Tensor, qonnx: bool) -> onnx.ModelProto:
    """The model in one of the formats."""
    stream = io.BytesIO()
    if qonnx:
        export_qonnx(network, args=x, export_path=stream, input_names=["x"], dynamo=False)
    else:
        export_onnx_qcdq(network, args=x, export_path=stream, input_names=["x"], dynamo=False)
    return onnx.load_model_from_string(without_traces(onnx.load_model_from_string(stream.getvalue())))


def executed(proto: onnx.ModelProto, x: np.ndarray, qonnx: bool) -> list[np.ndarray]:
    """Outputs of the reference of the format."""
    if not qonnx:
        return onnxruntime_outputs(proto.SerializeToString(), {"x": x})
    wrapper = ModelWrapper(proto, make_deepcopy=True).transform(InferShapes())
    values = execute_onnx(wrapper, {wrapper.graph.input[0].name: x})
    return [values[item.name] for item in wrapper.graph.output]


def main() -> None:
    warnings.simplefilter("ignore")
    writer = Writer(FOLDER / "brevitas.zip")
    version = importlib.metadata.version
    for index, (name, network, shape) in enumerate(blocks()):
        torch.manual_seed(index)
        for qonnx in (True, False):
            label = f"brevitas_{'qonnx' if qonnx else 'qcdq'}_{name}"
            inputs = (Input("x", "float32", shape),)
            network.train()
            for seed in range(1, 9):
                network(torch.from_numpy(inputs[0].draw(seed)))
            network.eval()
            x = inputs[0].draw(0)
            with writer.attempt(label):
                proto = exported(network, torch.from_numpy(x), qonnx)
                outputs = executed(proto, x, qonnx)
                opset = next(item.version for item in proto.opset_import if item.domain == "")
                how = f"brevitas {version('brevitas')} {'QONNX' if qonnx else 'QCDQ'}"
                writer.add(
                    Entry(label, "network", how, opset, inputs, tolerance(name)), proto.SerializeToString(), outputs
                )
    print(writer.write())


if __name__ == "__main__":
    main()
