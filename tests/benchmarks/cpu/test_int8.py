# SPDX-License-Identifier: Apache-2.0
"""The int8 and bit-serial sections of the cpu benchmark: both sides compute the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.small_layers import DEPTHWISE, STRIDED

from vdla.benchmarks.cpu import bitserial as cpu_bitserial
from vdla.benchmarks.cpu.int8 import measure_layer, operands_of, our_layer, their_layer
from vdla.compiler.operators.workloads import Workload
from vdla.compiler.target import host


@pytest.mark.parametrize("layer", [STRIDED, DEPTHWISE], ids=lambda layer: layer.name)
def test_an_int8_layer_equals_onnx_runtime(layer: Workload) -> None:
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, with which results are compared")
    if not host().has("avx512vnni"):
        pytest.skip("needs a CPU with avx512vnni, on which ONNX Runtime is exact")
    operands = operands_of(layer, 0)
    theirs, expected = their_layer(layer, operands)
    theirs()
    np.testing.assert_array_equal(our_layer(layer, operands)(), expected)
    assert np.unique(expected).size > 50
    assert measure_layer(layer, operands).error == 0


def test_two_bit_and_int8_kernels_compute_the_same_sums() -> None:
    measured = cpu_bitserial.measure_size(70, np.random.default_rng(0))
    assert measured.error == 0
    assert measured.row["ratio"] > 0
