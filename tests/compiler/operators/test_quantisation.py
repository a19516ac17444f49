# SPDX-License-Identifier: Apache-2.0
"""One requantisation: the machine's, the CPU operators' and exact arithmetic, with ties."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics.requantise import requantisation
from vdla.compiler.interpret import interpret
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.operators.quantisation import requantise
from vdla.hardware import numerics
from vdla.runtime.native import build

ROWS, LANES = 600, 16
BOUNDS = {"int8": (-128, 127), "uint8": (0, 255)}
EXACT = 1 << 29  # sums whose product a float64 holds


def _operands(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of all sizes below 2**29 and float32 scales, every second one a power of two."""
    rng = np.random.default_rng(seed)
    size = 2.0 ** rng.uniform(0, 29, (ROWS, LANES))
    sums = (rng.uniform(-1, 1, (ROWS, LANES)) * size).astype(np.int32)
    scales = (2.0 ** rng.uniform(-30, 2, LANES)).astype(np.float32)
    scales[::2] = 2.0 ** rng.integers(-24, 3, LANES // 2)
    near = rng.random((ROWS, LANES)) < 0.5  # halves, and their neighbours
    halves = np.rint(rng.integers(-300, 301, (ROWS, LANES)) / 2 / scales.astype(np.float64))
    halves += rng.integers(-1, 2, (ROWS, LANES))
    return np.where(near & (np.abs(halves) < EXACT), halves, sums).astype(np.int32), scales


def _exact(sums: np.ndarray, scales: np.ndarray, zero_point: int, low: int, high: int) -> list[list[int]]:
    factors = [Fraction(float(scale)) for scale in scales]
    return [
        [min(max(round(int(v) * f) + zero_point, low), high) for v, f in zip(row, factors, strict=True)] for row in sums
    ]


@pytest.mark.parametrize(("dtype", "zero_point"), [("int8", 0), ("int8", -7), ("int8", 127), ("uint8", 128)])
def test_cpu_operators_requantise_exactly(dtype: str, zero_point: int) -> None:
    sums, scales = _operands(zero_point & 0xFF)
    total, scale = te.placeholder(sums.shape, "int32", "total"), te.placeholder((LANES,), "float32", "scale")
    out = te.compute(sums.shape, lambda i, j: requantise(total[i, j], scale[j], zero_point, dtype), "out")
    fn = te.create_function([total, scale], [out], "f")
    expected = _exact(sums, scales, zero_point, *BOUNDS[dtype])
    np.testing.assert_array_equal(build(default_schedule(fn).fn)(sums, scales), expected)
    np.testing.assert_array_equal(interpret(fn, {"total": sums, "scale": scales})["out"], expected)


@pytest.mark.parametrize("zero_point", [0, -7, 127])
def test_the_machine_requantises_exactly(zero_point: int) -> None:
    """The expression that the compiler matches, and NumPy's."""
    sums, scales = _operands(zero_point & 0xFF)
    lanes = numerics.pack_scale(0, *numerics.scales_from_floats(scales))
    expected = _exact(sums, scales, zero_point, -128, 127)
    np.testing.assert_array_equal(numerics.requantise(sums, lanes, zero_point, -128, 127), expected)
    np.testing.assert_array_equal(_interpreted(sums, lanes.view(np.int64), zero_point), expected)


def test_the_expression_equals_numerics_for_every_shift() -> None:
    sums = np.array([[-(1 << 31)], [-6], [-5], [-1], [0], [1], [3], [5], [6], [(1 << 31) - 1]]) + np.zeros(64, int)
    for mult in (1, 3, (1 << 24) - 1, 1 << 23):
        lanes = numerics.pack_scale(0, mult, np.arange(64))
        expected = numerics.requantise(sums, lanes, 0, -128, 127)
        np.testing.assert_array_equal(_interpreted(sums.astype(np.int32), lanes.view(np.int64), 0), expected)


def _interpreted(sums: np.ndarray, lanes: np.ndarray, zero_point: int) -> np.ndarray:
    total, lane = te.placeholder(sums.shape, "int32", "total"), te.placeholder(lanes.shape, "int64", "lane")
    out = te.compute(
        sums.shape, lambda i, j: requantisation(total[i, j], lane[j], zero_point, -128, 127, "int8"), "out"
    )
    return interpret(te.create_function([total, lane], [out], "f"), {"total": sums, "lane": lanes})["out"]
