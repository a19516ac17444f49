# SPDX-License-Identifier: Apache-2.0
"""Operators on a device against the same functions on the CPU.

Layers and products are equal bit for bit: both add the terms of a sum in one order and fuse
nothing. Softmax and norms call functions that devices compute with different last bits; they agree
within `ULPS` units in the last place of the largest result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from vdla.compiler import ir, operators, te
from vdla.compiler.operators.workloads import Workload, workloads
from vdla.runtime.grid.device_kernel import DeviceKernel
from vdla.runtime.native import build
from vdla.support.arrays import Array
from vdla.support.progress import Progress, steps

ULPS = 16
_LAYERS = tuple(f"{kind}{number}" for kind, most in (("C", 12), ("D", 9)) for number in range(1, most + 1))


@dataclass(frozen=True, slots=True)
class ExactCase:
    """A function of named shapes; `ulps` is 0 where results are equal bit for bit."""

    name: str
    operator: Callable[..., te.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"
    ulps: int = 0

    def function(self) -> ir.Function:
        """The function, unscheduled."""
        inputs = [te.placeholder(shape, self.dtype, f"x{n}") for n, shape in enumerate(self.shapes)]
        return te.create_function(inputs, [self.operator(*inputs)], "f")

    def arrays(self, seed: int) -> list[Array]:
        """Random inputs; integers of the whole range."""
        rng = np.random.default_rng(seed)
        if self.dtype == "float32":
            return [rng.uniform(-1, 1, shape).astype(np.float32) for shape in self.shapes]
        limits = np.iinfo(self.dtype)
        return [rng.integers(limits.min, limits.max, shape, self.dtype, endpoint=True) for shape in self.shapes]


def exact_cases() -> Iterator[ExactCase]:
    """The layers C1 to C12 and D1 to D9 in their size, products, softmax and norms."""
    for name in _LAYERS:
        yield _layer(workloads()[name])
    for dtype in ("float32", "int8", "int32"):
        yield ExactCase(f"dense {dtype}", operators.dense, ((20, 96), (80, 96)), dtype)
        yield ExactCase(f"batched product {dtype}", operators.matmul, ((3, 32, 48), (3, 48, 64)), dtype)
    yield ExactCase("softmax", operators.softmax, ((30, 100),), ulps=ULPS)
    yield ExactCase("layer_norm", operators.layer_norm, ((30, 100), (100,), (100,)), ulps=ULPS)
    yield ExactCase("rms_norm", operators.rms_norm, ((30, 100), (100,)), ulps=ULPS)
    yield ExactCase("batch_norm", _batch_norm, ((2, 8, 7, 7), (8,), (8,), (8,), (8,)), ulps=ULPS)


def _layer(layer: Workload) -> ExactCase:
    """A convolution of the table."""
    image = (layer.batch, layer.in_channels, layer.height, layer.width)
    depthwise = layer.operator == "depthwise_conv2d"
    taps = (layer.out_channels, 1 if depthwise else layer.in_channels, layer.kernel, layer.kernel)
    operator = operators.depthwise_conv2d if depthwise else operators.conv2d
    return ExactCase(layer.name, lambda x, w: operator(x, w, None, layer.strides, layer.pads), (image, taps))


def _batch_norm(*inputs: te.Tensor) -> te.Tensor:
    """With variances that are positive."""
    x, scale, bias, mean, variance = inputs
    positive = te.compute(variance.shape, lambda i: te.abs(variance[i]) + 0.1, "positive")
    return operators.batch_norm(x, scale, bias, mean, positive)


def compare_cases(
    progress: Progress, seed: int, cases: Iterable[ExactCase], build_grid: Callable[[ir.Function], DeviceKernel]
) -> dict[str, bool]:
    """Whether the device that `build_grid` compiles for and the CPU agree, by case."""
    result = {}
    for case in steps(progress, list(cases)):
        fn, arrays = case.function(), case.arrays(seed)
        expected = np.asarray(build(fn, contract=False)(*arrays))
        result[case.name] = _agree(np.asarray(build_grid(fn)(*arrays)), expected, case.ulps)
    return result


def _agree(got: Array, expected: Array, ulps: int) -> bool:
    """Whether results are equal, or within `ulps` units in the last place of the largest."""
    if ulps == 0:
        return bool(np.array_equal(got, expected))
    limit = ulps * float(np.finfo(expected.dtype).eps) * float(np.abs(expected).max())
    return bool(np.isfinite(got).all() and np.abs(got - expected).max() <= limit)
