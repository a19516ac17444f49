"""Int8 on one thread: the layers of the workload table as quantised convolutions, against ONNX Runtime's QLinearConv.

Activations are uint8 with a zero point, weights int8 with a scale a channel; images and results are NCHW on both sides.
`int8_error` is 0 where the library is exact, which its products of uint8 by int8 are on CPUs with VNNI.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.benchmarks.cpu.kernel import kernel_of
from vdla.benchmarks.cpu.layers import is_depthwise, measure_each, serialised, session_call, window_of
from vdla.benchmarks.cpu.paired_timing import contest
from vdla.benchmarks.cpu.part import Measured, Part, Step, against
from vdla.compiler import te
from vdla.compiler.operators import PackedWeights, pack_qconv2d, pack_qdepthwise_conv2d, qconv2d, qdepthwise_conv2d
from vdla.compiler.operators.workloads import Workload
from vdla.compiler.target import host
from vdla.runtime.native import BoundCall

X_SCALE, X_ZERO = np.float32(0.02), 113
Y_SCALE, Y_ZERO = np.float32(0.05), 120


@dataclass(frozen=True, slots=True)
class Quantised:
    """`data` uint8 [N, C, H, W], `weight` int8 [O, C / groups, K, K], `bias` int32 [O], `weight_scale` float32 [O]."""

    data: NDArray[np.uint8]
    weight: NDArray[np.int8]
    bias: NDArray[np.int32]
    weight_scale: NDArray[np.float32]

    @property
    def scale(self) -> NDArray[np.float32]:
        """From sums to results."""
        return np.asarray(X_SCALE * self.weight_scale / Y_SCALE, np.float32)


def measure_int8(seed: int, step: Step) -> Part:
    """Every layer against ONNX Runtime."""
    measured = measure_each("int8", step, lambda layer: measure_layer(layer, operands_of(layer, seed)))
    return against("int8", measured)


def measure_layer(layer: Workload, operands: Quantised) -> Measured:
    """One layer on both sides."""
    ours = our_layer(layer, operands)
    theirs, expected = their_layer(layer, operands)
    ours()
    theirs()
    error = float(np.abs(ours.outputs[0].astype(np.int32) - expected).max()) / 255
    return Measured(f"{layer.name} int8", contest(ours, theirs), 2 * layer.macs, error)


def operands_of(layer: Workload, seed: int) -> Quantised:
    """Uniformly distributed numbers, and scales with which results fill their range."""
    rng = np.random.default_rng([seed, *layer.name.encode()])
    channels = 1 if is_depthwise(layer) else layer.in_channels
    terms = channels * layer.kernel**2
    outputs = layer.out_channels
    return Quantised(
        rng.integers(0, 256, (layer.batch, layer.in_channels, layer.height, layer.width), np.uint8),
        rng.integers(-128, 128, (outputs, channels, layer.kernel, layer.kernel), np.int8),
        rng.integers(-10_000, 10_000, outputs, np.int32),
        (rng.uniform(0.01, 0.02, outputs) / np.sqrt(terms)).astype(np.float32),
    )


def our_layer(layer: Workload, operands: Quantised) -> BoundCall:
    """Our kernel for a layer, called with its operands."""
    packed = packed_weights(layer, operands)
    arrays = (operands.data, packed.weight, packed.bias, packed.scale)
    return kernel_of(lambda *inputs: convolution(layer, *inputs), *arrays)


def packed_weights(layer: Workload, operands: Quantised) -> PackedWeights:
    """The weights as our kernel reads them."""
    bias, scale = operands.bias, operands.scale
    if is_depthwise(layer):
        return pack_qdepthwise_conv2d(operands.weight[:, 0], scale, host(), bias, X_ZERO, strides=layer.strides)
    return pack_qconv2d(operands.weight, scale, host(), bias, X_ZERO)


def convolution(layer: Workload, x: te.Tensor, weight: te.Tensor, bias: te.Tensor, scale: te.Tensor) -> te.Tensor:
    """The tensor expression of a layer."""
    window: dict[str, Any] = {"strides": layer.strides, "pads": layer.pads, "name": "y"}
    zeros: dict[str, Any] = {"x_zero_point": X_ZERO, "y_zero_point": Y_ZERO}
    if is_depthwise(layer):
        return qdepthwise_conv2d(x, weight, bias, scale, host(), layer.kernel, **zeros, **window)
    return qconv2d(x, weight, bias, scale, host(), layer.out_channels, **zeros, **window)


def their_layer(layer: Workload, operands: Quantised) -> tuple[Callable[[], object], NDArray[np.uint8]]:
    """ONNX Runtime's kernel for a layer, called with its operands, and the array of its result."""
    result = np.empty((layer.batch, layer.out_channels, layer.out_height, layer.out_width), np.uint8)
    return session_call(qlinear_model(layer, operands), operands.data, result), result


def qlinear_model(layer: Workload, operands: Quantised) -> bytes:
    """A model of one QLinearConv; everything but the image is constant."""
    from onnx import TensorProto, helper, numpy_helper

    constants: dict[str, Any] = {
        "x_scale": np.asarray(X_SCALE), "x_zero": np.uint8(X_ZERO),
        "w": operands.weight, "w_scale": operands.weight_scale, "w_zero": np.zeros(len(operands.weight), np.int8),
        "y_scale": np.asarray(Y_SCALE), "y_zero": np.uint8(Y_ZERO), "b": operands.bias,
    }  # fmt: skip
    node = helper.make_node("QLinearConv", ["x", *constants], ["y"], **window_of(layer))
    x = helper.make_tensor_value_info("x", TensorProto.UINT8, list(operands.data.shape))
    y = helper.make_tensor_value_info("y", TensorProto.UINT8, None)
    tensors = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    return serialised(helper.make_graph([node], layer.name, [x], [y], tensors))
