# SPDX-License-Identifier: Apache-2.0
"""Quantised layers in sequence in one function, each with its own schedule."""

from __future__ import annotations

from typing import Any

import numpy as np

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import (
    Coding,
    PackedWeights,
    bitserial_dense,
    maximum,
    pack_bitserial_dense,
    pack_qconv2d,
    pack_qdense,
    pack_qdepthwise_conv2d,
    qconv2d,
    qdense,
    qdepthwise_conv2d,
    reshape,
)
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.target import host
from vdla.runtime.native import build

RANDOM = np.random.default_rng(4)


def weights(*shape: int) -> np.ndarray[Any, Any]:
    return RANDOM.integers(-128, 127, shape, np.int8, endpoint=True)


def test_quantised_layers_in_sequence_equal_the_model() -> None:
    machine, scale = host(), np.float32(1e-3)
    arrays: dict[str, Any] = {"x": RANDOM.integers(0, 255, (2, 5, 8, 8), np.uint8, endpoint=True)}
    inputs = [te.placeholder((2, 5, 8, 8), "uint8", "x")]

    def given(layer: str, packed: PackedWeights) -> list[te.Tensor]:
        named = {f"{layer}_w": packed.weight, f"{layer}_b": packed.bias, f"{layer}_s": packed.scale}
        tensors = [te.placeholder(array.shape, array.dtype.name, name) for name, array in named.items()]
        arrays.update(named)
        inputs.extend(tensors)
        return tensors

    first = given("first", pack_qconv2d(weights(20, 5, 3, 3), scale, machine, x_zero_point=7))
    y = qconv2d(inputs[0], *first, machine, 20, 7, 100, pads=1, name="wide")
    floor = te.placeholder((1,), "uint8", "floor")
    inputs.append(floor)
    arrays["floor"] = np.array([100], np.uint8)
    y = maximum(y, floor, name="relu")
    second = given("second", pack_qdepthwise_conv2d(weights(20, 1, 3, 3), scale * 4, machine, None, 100, strides=2))
    y = qdepthwise_conv2d(y, *second, machine, 3, 100, 50, strides=2, pads=1, name="deep")
    third = given("third", pack_qconv2d(weights(33, 20, 1, 1), scale, machine, x_zero_point=50))
    y = qconv2d(y, *third, machine, 33, 50, 60, name="narrow")
    last = given("last", pack_qdense(weights(10, 33 * 16), scale, machine, x_zero_point=60))
    y = qdense(reshape(y, (2, 33 * 16)), *last, machine, 10, 128, name="scores")

    fn = te.create_function(inputs, [y], "network")
    schedule = default_schedule(fn)
    result = build(schedule.fn)(*(arrays[name] for name in fn.params[:-1]))
    np.testing.assert_array_equal(result, interpret(fn, arrays)["scores"])
    assert np.unique(result).size > 10
    dots = str(schedule.fn).count("# tensorize=")
    assert dots == (4 if machine.has("avx512vnni", "avx512vbmi") else 3)


def test_layers_without_names_are_named_after_their_data() -> None:
    machine = host()
    x = te.placeholder((1, 4, 8, 8), "uint8", "x")

    def operands(packed: PackedWeights) -> list[te.Tensor]:
        arrays = (packed.weight, packed.bias, packed.scale)
        return [te.placeholder(array.shape, array.dtype.name, f"w{n}") for n, array in enumerate(arrays)]

    first, second = (operands(pack_qconv2d(weights(4, 4, 1, 1), np.float32(1), machine)) for _ in range(2))
    y = qconv2d(qconv2d(x, *first, machine, 4), *second, machine, 4)
    assert y.name == "x_qconv2d_qconv2d"
    depthwise = operands(pack_qdepthwise_conv2d(weights(4, 1, 3, 3), np.float32(1), machine))
    assert qdepthwise_conv2d(x, *depthwise, machine, 3).name == "x_qdepthwise_conv2d"
    rows = te.placeholder((2, 9), "uint8", "rows")
    dense = operands(pack_qdense(weights(5, 9), np.float32(1), machine))
    assert qdense(rows, *dense, machine).name == "rows_qdense"
    bits = pack_bitserial_dense(np.ones((5, 9), np.int8), 1, Coding.UNSIGNED, machine)
    w = te.placeholder(bits.shape, "uint32", "w")
    assert bitserial_dense(rows, w, machine).name == "rows_bitserial_dense"
