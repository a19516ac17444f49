"""The layers of the paper's evaluation as plain definitions."""

from __future__ import annotations

from typing import Any

from vdla.compiler.operators.definitions.convolution import convolution
from vdla.compiler.operators.definitions.definition import Definition
from vdla.compiler.operators.definitions.depthwise import depthwise_convolution
from vdla.compiler.operators.definitions.transposed import transposed_convolution
from vdla.compiler.operators.workloads import Workload


def of_workload(layer: Workload, raw: bool = False, dtype: str = "int8", weight_dtype: str = "int8") -> Definition:
    """The definition of a layer, with requantised results unless `raw`."""
    options: dict[str, Any] = {
        "batch": layer.batch,
        "size": (layer.height, layer.width),
        "kernel": layer.kernel,
        "strides": layer.strides,
        "pads": layer.pads,
        "raw": raw,
        "dtype": dtype,
        "weight_dtype": weight_dtype,
    }
    if layer.operator == "depthwise_conv2d":
        return depthwise_convolution(channels=layer.in_channels, **options)
    define = transposed_convolution if layer.operator == "conv2d_transpose" else convolution
    return define(in_channels=layer.in_channels, out_channels=layer.out_channels, **options)
