"""Float32 on one thread: layers against ONNX Runtime, a matrix product against numpy, fused against unfused stages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.benchmarks.cpu.kernel import kernel_of
from vdla.benchmarks.cpu.layers import Operands, measure_each, operands_of, our_layer, their_layer
from vdla.benchmarks.cpu.paired_timing import contest, geomean
from vdla.benchmarks.cpu.part import Measured, Part, Step, against
from vdla.compiler.operators import add, matmul, relu
from vdla.compiler.operators.workloads import Workload

MATMUL = 1024


def measure_layers(seed: int, step: Step) -> Part:
    """Every layer against ONNX Runtime."""
    measured = measure_each("float32", step, lambda layer: measure_layer(layer, operands_of(layer, seed)))
    return against("f32", measured)


def measure_layer(layer: Workload, operands: Operands) -> Measured:
    """One layer on both sides."""
    ours = our_layer(layer, operands, biased=False)
    theirs, expected = their_layer(layer, operands)
    ours()
    theirs()
    error = difference(ours.outputs[0], expected)
    return Measured(f"{layer.name} float32", contest(ours, theirs), 2 * layer.macs, error)


def difference(got: NDArray[np.float32], expected: NDArray[np.float32]) -> float:
    """The greatest difference, over the greatest expected value."""
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def measure_matmul(seed: int, step: Step) -> Part:
    """A square product against numpy's BLAS on one thread."""
    from threadpoolctl import threadpool_limits

    step(f"matmul {MATMUL}")
    rng = np.random.default_rng(seed)
    a, b = (rng.standard_normal((MATMUL, MATMUL), np.float32) for _ in range(2))
    result = np.empty_like(a)
    ours = kernel_of(lambda x, y: matmul(x, y, name="c"), a, b)
    with threadpool_limits(1):
        ours()
        np.matmul(a, b, out=result)
        error = difference(ours.outputs[0], result)
        times = contest(ours, lambda: np.matmul(a, b, out=result))
    return Part({"matmul_ratio": times.ratio}, [Measured(f"matmul {MATMUL}", times, 2 * MATMUL**3, error)])


def measure_fusion(seed: int, step: Step) -> Part:
    """Convolution, bias and relu in one kernel, against three kernels one after another."""
    measured = measure_each("fused", step, lambda layer: measure_fused(layer, operands_of(layer, seed)))
    return Part({"fusion_speedup": geomean(one.times.ratio for one in measured)}, measured)


def measure_fused(layer: Workload, operands: Operands) -> Measured:
    """One layer with bias and relu; their times are those of the three kernels."""
    fused = our_layer(layer, operands, biased=True, finish=lambda y: relu(y, "positive"))
    first = our_layer(layer, operands, biased=False)
    second = kernel_of(lambda y, b: add(y, b, "sum"), first.outputs[0], operands.bias[:, None, None])
    third = kernel_of(lambda y: relu(y, "positive"), second.outputs[0])

    def apart() -> None:
        for kernel in (first, second, third):
            kernel()

    fused()
    apart()
    error = difference(fused.outputs[0], third.outputs[0])
    return Measured(f"{layer.name} fused", contest(fused, apart), 2 * layer.macs, error)
