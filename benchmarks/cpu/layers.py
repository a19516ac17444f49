# SPDX-License-Identifier: Apache-2.0
"""Layers of the workload table in float32 on the CPU: their data, our kernels, and ONNX Runtime's.

Images and results are NCHW arrays of the caller on both sides. Weights are given when a kernel is
built, so that each side may pack them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.benchmarks.cpu.measurement import Measurement
from vdla.compiler import te
from vdla.compiler.operators import plan_convolution
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.workloads import Workload, workloads
from vdla.runtime.native import BoundCall, build
from vdla.support.arrays import Array
from vdla.support.progress import ReportStep

Floats = NDArray[np.float32]
_Epilogue = Callable[[te.Tensor], te.Tensor]
OPERATORS = ("conv2d", "depthwise_conv2d")


def layers() -> list[Workload]:
    """C1 to C12 and D1 to D9."""
    return [layer for layer in workloads().values() if layer.operator in OPERATORS]


def measure_each(what: str, step: ReportStep, measure: Callable[[Workload], Measurement]) -> list[Measurement]:
    """Measure every layer in sequence."""
    measurements = []
    for layer in layers():
        step(f"{layer.name} {what}")
        measurements.append(measure(layer))
    return measurements


@dataclass(frozen=True, slots=True)
class Operands:
    """`data` [N, C, H, W], `weight` [CO, C / groups, K, K], `bias` [CO]."""

    data: Floats
    weight: Floats
    bias: Floats


def operands_of(layer: Workload, seed: int) -> Operands:
    """Normally distributed operands."""
    rng = np.random.default_rng([seed, *layer.name.encode()])
    channels = 1 if is_depthwise(layer) else layer.in_channels
    shapes = (
        (layer.batch, layer.in_channels, layer.height, layer.width),
        (layer.out_channels, channels, layer.kernel, layer.kernel),
        (layer.out_channels,),
    )
    return Operands(*(rng.standard_normal(shape, np.float32) for shape in shapes))


def is_depthwise(layer: Workload) -> bool:
    """Whether each channel has its own kernel."""
    return layer.operator == "depthwise_conv2d"


def window_attributes(layer: Workload) -> dict[str, Any]:
    """The attributes of a layer's ONNX operator."""
    return {
        "group": layer.in_channels if is_depthwise(layer) else 1,
        "kernel_shape": [layer.kernel] * 2,
        "strides": [layer.strides] * 2,
        "pads": [layer.pads] * 4,
    }


def our_layer(layer: Workload, operands: Operands, biased: bool, epilogue: _Epilogue | None = None) -> BoundCall:
    """Our kernel for a layer, bound to its operands; `epilogue` runs in the same kernel."""
    data, weight, bias = operands.data, operands.weight, operands.bias
    groups = layer.in_channels if is_depthwise(layer) else 1
    plan = plan_convolution(data.shape, weight.shape, layer.strides, layer.pads, groups=groups)

    def operator(x: te.Tensor, w: te.Tensor, b: te.Tensor | None = None) -> te.Tensor:
        result = plan.apply(x, w, b, "y")
        return result if epilogue is None else epilogue(result)

    return kernel_of(operator, data, plan.pack(weight), *([bias] if biased else []))


def kernel_of(operator: Callable[..., te.Tensor], *arrays: Array) -> BoundCall:
    """Our kernel of an operator for this CPU, bound to the arrays."""
    inputs = [te.placeholder(array.shape, array.dtype.name, f"x{n}") for n, array in enumerate(arrays)]
    fn = te.create_function(inputs, [operator(*inputs)], "kernel")
    return build(default_schedule(fn).fn).bind(*arrays)


def their_layer(layer: Workload, operands: Operands) -> tuple[Callable[[], object], Floats]:
    """ONNX Runtime's kernel for a layer, called with its operands, and the array of its result."""
    shape = (layer.batch, layer.out_channels, layer.out_height, layer.out_width)
    result = np.empty(shape, np.float32)
    return session_call(_conv_model(layer, operands.weight), operands.data, result), result


def _conv_model(layer: Workload, weight: Floats) -> bytes:
    """An ONNX model of one Conv with a constant weight."""
    from onnx import TensorProto, helper, numpy_helper

    node = helper.make_node("Conv", ["x", "w"], ["y"], **window_attributes(layer))
    x = helper.make_tensor_value_info(
        "x", TensorProto.FLOAT, [layer.batch, layer.in_channels, layer.height, layer.width]
    )
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], layer.name, [x], [y], [numpy_helper.from_array(weight, "w")])
    return serialised_model(graph)


def serialised_model(graph: Any) -> bytes:  # noqa: ANN401  onnx has no types
    """The serialised model of a graph with an input x and an output y."""
    from onnx import helper

    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(model.SerializeToString())


def session_call(model: bytes, data: Array, result: Array) -> Callable[[], object]:
    """A function that runs a model on one thread, with arrays of the caller as input and output."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    binding.bind_ortvalue_input("x", onnxruntime.OrtValue.ortvalue_from_numpy(data))
    binding.bind_output("y", "cpu", 0, result.dtype.type, list(result.shape), result.ctypes.data)
    return lambda: session.run_with_iobinding(binding)
