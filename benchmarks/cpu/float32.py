# SPDX-License-Identifier: Apache-2.0
"""Float32 on one thread: layers against ONNX Runtime, matmul against NumPy, and fusion."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.benchmarks.cpu.layers import Operands, kernel_of, measure_each, operands_of, our_layer, their_layer
from vdla.benchmarks.cpu.measurement import Measurement, comparison, section
from vdla.benchmarks.harness import Section, geomean, paired_times
from vdla.compiler.operators import add, matmul, relu
from vdla.compiler.operators.workloads import Workload
from vdla.support.progress import ReportStep

_MATMUL_SIZE = 1024


def measure_layers(seed: int, step: ReportStep) -> Section:
    """Every layer against ONNX Runtime."""
    measurements = measure_each("float32", step, lambda layer: measure_layer(layer, operands_of(layer, seed)))
    return comparison("f32", measurements)


def measure_layer(layer: Workload, operands: Operands) -> Measurement:
    """One layer on both sides."""
    ours = our_layer(layer, operands, biased=False)
    theirs, expected = their_layer(layer, operands)
    ours()
    theirs()
    error = difference(ours.outputs[0], expected)
    return Measurement(f"{layer.name} float32", paired_times(ours, theirs), 2 * layer.macs, error)


def difference(got: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """The greatest difference, over the greatest expected value."""
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def measure_matmul(seed: int, step: ReportStep) -> Section:
    """A square matrix product against NumPy's BLAS on one thread."""
    from threadpoolctl import threadpool_limits

    step(f"matmul {_MATMUL_SIZE}")
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((_MATMUL_SIZE, _MATMUL_SIZE), np.float32) for _ in range(2))
    result = np.empty_like(a)
    ours = kernel_of(lambda x, y: matmul(x, y, name="c"), a, b)
    with threadpool_limits(1):
        ours()
        np.matmul(a, b, out=result)
        error = difference(ours.outputs[0], result)
        times = paired_times(ours, lambda: np.matmul(a, b, out=result))
    return section(
        {"matmul_ratio": times.ratio}, [Measurement(f"matmul {_MATMUL_SIZE}", times, 2 * _MATMUL_SIZE**3, error)]
    )


def measure_fusion(seed: int, step: ReportStep) -> Section:
    """Convolution, bias and ReLU in one kernel, against three kernels in sequence."""
    measurements = measure_each("fused", step, lambda layer: measure_fused(layer, operands_of(layer, seed)))
    return section({"fusion_speedup": geomean(one.times.ratio for one in measurements)}, measurements)


def measure_fused(layer: Workload, operands: Operands) -> Measurement:
    """One layer with bias and ReLU; `theirs` is the time of the three kernels."""
    fused = our_layer(layer, operands, biased=True, epilogue=lambda y: relu(y, "positive"))
    first = our_layer(layer, operands, biased=False)
    second = kernel_of(lambda y, b: add(y, b, "sum"), first.outputs[0], operands.bias[:, None, None])
    third = kernel_of(lambda y: relu(y, "positive"), second.outputs[0])

    def separate() -> None:
        for kernel in (first, second, third):
            kernel()

    fused()
    separate()
    error = difference(fused.outputs[0], third.outputs[0])
    return Measurement(f"{layer.name} fused", paired_times(fused, separate), 2 * layer.macs, error)
