# SPDX-License-Identifier: Apache-2.0
"""Int8 on one thread: the layers of the workload table against ONNX Runtime's QLinearConv.

Activations are uint8 with a zero point, weights int8 with a scale a channel; images and results are
NCHW. ONNX Runtime rounds the product of sum and scale to a float32 first, so a few results in a
million differ by 1, which is an `int8_error` of 1 / 255.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.benchmarks.cpu.layers import (
    is_depthwise,
    kernel_of,
    measure_each,
    serialised_model,
    session_call,
    window_attributes,
)
from vdla.benchmarks.cpu.measurement import Measurement, comparison
from vdla.benchmarks.harness import Section, paired_times
from vdla.compiler import te
from vdla.compiler.operators import PackedWeights, pack_qconv2d, pack_qdepthwise_conv2d, qconv2d, qdepthwise_conv2d
from vdla.compiler.operators.workloads import Workload
from vdla.compiler.target import host
from vdla.runtime.native import BoundCall
from vdla.support.arrays import Bytes
from vdla.support.progress import ReportStep

X_SCALE, X_ZERO = np.float32(0.02), 113
Y_SCALE, Y_ZERO = np.float32(0.05), 120


@dataclass(frozen=True, slots=True)
class QuantisedOperands:
    """Data [N, C, H, W], weight [CO, C / groups, K, K]; bias and scale of the weight [CO]."""

    data: Bytes
    weight: NDArray[np.int8]
    bias: NDArray[np.int32]
    weight_scale: NDArray[np.float32]

    @property
    def scale(self) -> NDArray[np.float32]:
        """The factor from int32 sums to results."""
        return np.asarray(X_SCALE * self.weight_scale / Y_SCALE, np.float32)


def measure_int8(seed: int, step: ReportStep) -> Section:
    """Every layer against ONNX Runtime."""
    measurements = measure_each("int8", step, lambda layer: measure_layer(layer, operands_of(layer, seed)))
    return comparison("int8", measurements)


def measure_layer(layer: Workload, operands: QuantisedOperands) -> Measurement:
    """One layer on both sides."""
    ours = our_layer(layer, operands)
    theirs, expected = their_layer(layer, operands)
    ours()
    theirs()
    error = float(np.abs(ours.outputs[0].astype(np.int32) - expected).max()) / 255
    return Measurement(f"{layer.name} int8", paired_times(ours, theirs), 2 * layer.macs, error)


def operands_of(layer: Workload, seed: int) -> QuantisedOperands:
    """Uniform random operands, with scales for which results fill the range of uint8."""
    rng = np.random.default_rng([seed, *layer.name.encode()])
    channels = 1 if is_depthwise(layer) else layer.in_channels
    terms = channels * layer.kernel**2
    outputs = layer.out_channels
    return QuantisedOperands(
        rng.integers(0, 256, (layer.batch, layer.in_channels, layer.height, layer.width), np.uint8),
        rng.integers(-128, 128, (outputs, channels, layer.kernel, layer.kernel), np.int8),
        rng.integers(-10_000, 10_000, outputs, np.int32),
        (rng.uniform(0.01, 0.02, outputs) / np.sqrt(terms)).astype(np.float32),
    )


def our_layer(layer: Workload, operands: QuantisedOperands) -> BoundCall:
    """Our kernel for a layer, called with its operands."""
    packed = _packed_weights(layer, operands)
    arrays = (operands.data, packed.weight, packed.bias, packed.scale)
    return kernel_of(lambda *inputs: layer_result(layer, packed.largest_sum, *inputs), *arrays)


def _packed_weights(layer: Workload, operands: QuantisedOperands) -> PackedWeights:
    """Weight, bias and scale as our kernel reads them."""
    bias, scale = operands.bias, operands.scale
    if is_depthwise(layer):
        return pack_qdepthwise_conv2d(operands.weight, scale, host(), bias, X_ZERO, strides=layer.strides)
    return pack_qconv2d(operands.weight, scale, host(), bias, X_ZERO)


def layer_result(
    layer: Workload, largest_sum: int, x: te.Tensor, weight: te.Tensor, bias: te.Tensor, scale: te.Tensor
) -> te.Tensor:
    """The tensor expression of a layer."""
    window: dict[str, Any] = {"strides": layer.strides, "pads": layer.pads, "largest_sum": largest_sum, "name": "y"}
    zeros: dict[str, Any] = {"x_zero_point": X_ZERO, "y_zero_point": Y_ZERO}
    if is_depthwise(layer):
        return qdepthwise_conv2d(x, weight, bias, scale, host(), layer.kernel, **zeros, **window)
    return qconv2d(x, weight, bias, scale, host(), layer.out_channels, **zeros, **window)


def their_layer(layer: Workload, operands: QuantisedOperands) -> tuple[Callable[[], object], Bytes]:
    """ONNX Runtime's kernel for a layer, called with its operands, and the array of its result."""
    result = np.empty((layer.batch, layer.out_channels, layer.out_height, layer.out_width), np.uint8)
    return session_call(_qlinear_model(layer, operands), operands.data, result), result


def _qlinear_model(layer: Workload, operands: QuantisedOperands) -> bytes:
    """An ONNX model of one QLinearConv; all operands but the image are constants."""
    from onnx import TensorProto, helper, numpy_helper

    constants: dict[str, Any] = {
        "x_scale": np.asarray(X_SCALE), "x_zero": np.uint8(X_ZERO),
        "w": operands.weight, "w_scale": operands.weight_scale, "w_zero": np.zeros(len(operands.weight), np.int8),
        "y_scale": np.asarray(Y_SCALE), "y_zero": np.uint8(Y_ZERO), "b": operands.bias,
    }  # fmt: skip
    node = helper.make_node("QLinearConv", ["x", *constants], ["y"], **window_attributes(layer))
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, list(operands.data.shape))
    y = helper.make_tensor_value_info("y", TensorProto.UINT8, None)
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    return serialised_model(helper.make_graph([node], layer.name, [x], [y], tensors))
