"""Compile time of native kernels, C1 to C12: from tensor expression to object, in CPU seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

from vdla.compiler import te
from vdla.compiler.codegen.llvm import compile_native
from vdla.compiler.operators import plan_convolution
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.workloads import Workload, resnet18_layers, workload

# Pays for LLVM's start-up; no measured layer, so that none of them finds anything in a cache.
WARM_UP = Workload(
    name="warm_up",
    operator="conv2d",
    batch=1,
    height=9,
    width=9,
    in_channels=16,
    out_channels=16,
    kernel=3,
    strides=1,
    pads=1,
    note="",
)


def convolutions() -> list[Workload]:
    """The measured layers."""
    return [workload("C1"), *resnet18_layers()]


def native_seconds(step: Callable[[str], None]) -> dict[str, float]:
    """The CPU seconds of each layer, without the object cache."""
    _compile_seconds(WARM_UP)
    seconds = {}
    for layer in convolutions():
        step(f"{layer.name} native")
        seconds[layer.name] = _compile_seconds(layer)
    return seconds


def _compile_seconds(layer: Workload) -> float:
    """The CPU seconds from the tensor expression to an object file."""
    start = time.process_time()
    data = (layer.batch, layer.in_channels, layer.height, layer.width)
    weight = (layer.out_channels, layer.in_channels, layer.kernel, layer.kernel)
    plan = plan_convolution(data, weight, layer.strides, layer.pads)
    x, w = te.placeholder(data, "float32", "x"), plan.weight("w")
    fn = te.create_function([x, w], [plan.apply(x, w, name="y")], layer.name)
    compile_native(default_schedule(fn).fn, cached=False)
    return time.process_time() - start
