# SPDX-License-Identifier: Apache-2.0
"""Dense layers of int8, 2-bit and 1-bit numbers against NumPy, for CPUs of all kinds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.native_programs import call, toolchain
from helpers.quantised_model import rescaled

from vdla.compiler import ir, te
from vdla.compiler.codegen.llvm import compile_native
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import Coding, OperatorError, bitserial_dense, pack_bitserial_dense, pack_qdense, qdense
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.target import TARGETS, Target, host
from vdla.runtime.native import build

Array = np.ndarray[Any, Any]
Layer = tuple[ir.Function, dict[str, Array], Array]  # the function, its inputs, the result in NumPy
SHAPES = {"whole": (4, 64, 32), "ragged": (3, 37, 50), "vector": (1, 130, 70), "few": (2, 5, 7), "tall": (23, 33, 17)}
TARGET_NAMES = ("host", "x86-64-avx2", "x86-64")


def function_of(arrays: dict[str, Array], operator: Any) -> ir.Function:
    tensors = [te.placeholder(array.shape, array.dtype.name, name) for name, array in arrays.items()]
    return te.create_function(tensors, [operator(*tensors)], "layer")


def int8_layer(shape: str, target: Target, dtype: str = "uint8", scaled: bool = True) -> Layer:
    rows, depth, outputs = SHAPES[shape]
    random = np.random.default_rng(2)
    limits, zero = np.iinfo(dtype), 7
    x = random.integers(limits.min, limits.max, (rows, depth), dtype, endpoint=True)
    weight = random.integers(-128, 127, (outputs, depth), np.int8, endpoint=True)
    bias = random.integers(-5000, 5000, outputs, np.int32)
    scale = random.uniform(1e-3, 4e-3, outputs).astype(np.float32)
    packed = pack_qdense(weight, scale, target, bias, zero, dtype)
    arrays = {"x": x, "w": packed.weight, "b": packed.bias} | ({"s": packed.scale} if scaled else {})
    total = (x.astype(np.int64) - zero) @ weight.T.astype(np.int64) + bias

    def operator(x: te.Tensor, w: te.Tensor, b: te.Tensor, s: te.Tensor | None = None) -> te.Tensor:
        return qdense(x, w, b, s, target, outputs, 12 if scaled else 0, name="y")

    return function_of(arrays, operator), arrays, rescaled(total, scale, 12, "uint8") if scaled else total


CODINGS = {
    "u1u1": (1, 1, Coding.UNSIGNED), "u1u2": (1, 2, Coding.UNSIGNED), "u2u1": (2, 1, Coding.UNSIGNED),
    "u2u2": (2, 2, Coding.UNSIGNED), "s1u2": (1, 2, Coding.SIGNED), "s2u1": (2, 1, Coding.SIGNED),
    "s2u2": (2, 2, Coding.SIGNED), "bipolar": (1, 1, Coding.BIPOLAR),
}  # fmt: skip


def bit_layer(shape: str, target: Target, code: str) -> Layer:
    rows, depth, outputs = SHAPES[shape]
    bits, data_bits, coding = CODINGS[code]
    random = np.random.default_rng(3)
    if coding is Coding.BIPOLAR:
        x, weight = (random.choice(np.array([-1, 1], np.int8), (n, depth)) for n in (rows, outputs))
    else:
        low = -(1 << bits - 1) if coding is Coding.SIGNED else 0
        x = random.integers(0, 1 << data_bits, (rows, depth), np.uint8)
        weight = random.integers(low, low + (1 << bits), (outputs, depth), np.int8)
    arrays = {"x": x, "w": pack_bitserial_dense(weight, bits, coding, target)}

    def operator(x: te.Tensor, w: te.Tensor) -> te.Tensor:
        return bitserial_dense(x, w, target, data_bits, coding, outputs, "y")

    return function_of(arrays, operator), arrays, x.astype(np.int64) @ weight.T.astype(np.int64)


LAYERS = {
    **{f"int8 {shape}": lambda target, shape=shape: int8_layer(shape, target) for shape in SHAPES},
    "int8 of int8": lambda target: int8_layer("ragged", target, "int8"),
    "int8 sums": lambda target: int8_layer("ragged", target, scaled=False),
    **{f"{code} ragged": lambda target, code=code: bit_layer("ragged", target, code) for code in CODINGS},
    **{f"s2u2 {shape}": lambda target, shape=shape: bit_layer(shape, target, "s2u2") for shape in SHAPES},
    "bipolar few": lambda target: bit_layer("few", target, "bipolar"),
}


@pytest.mark.parametrize("name", LAYERS)
def test_qdense_expressions_equal_the_model(name: str) -> None:
    fn, arrays, expected = LAYERS[name](TARGETS["aarch64"])
    np.testing.assert_array_equal(interpret(fn, arrays)["y"], expected)


@pytest.mark.sampled
@pytest.mark.parametrize("target", TARGET_NAMES)
@pytest.mark.parametrize("name", LAYERS)
def test_scheduled_qdense_kernels_are_exact(name: str, target: str) -> None:
    machine = Target.named(target)
    if not host().has(*machine.features):
        pytest.skip(f"needs a CPU with all features of {target}")
    fn, arrays, expected = LAYERS[name](machine)
    schedule = default_schedule(fn, machine)
    assert "# tensorize=" in str(schedule.fn)
    np.testing.assert_array_equal(build(schedule.fn, machine)(*arrays.values()), expected)


@pytest.mark.parametrize("zero", ["low", "high"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_qdense_equals_onnx_runtime(dtype: str, zero: str) -> None:
    """QLinearMatMul and MatMulInteger, with the zero points at the ends of their range."""
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, with which results are compared")
    machine = host()
    if not machine.has("avx512vnni"):
        pytest.skip("needs a CPU with avx512vnni, on which ONNX Runtime is exact")
    random, limits = np.random.default_rng(5), np.iinfo(dtype)
    x = random.choice(np.array([limits.min, limits.max, 3], dtype), (5, 301))
    weight = random.integers(-128, 127, (37, 301), np.int8, endpoint=True)
    scale = (2.0 ** random.integers(-16, -12, 37)).astype(np.float32)
    start = limits.min if zero == "low" else limits.max
    packed = pack_qdense(weight, scale, machine, x_zero_point=start, x_dtype=dtype)
    arrays = {"x": x, "w": packed.weight, "b": packed.bias, "s": packed.scale}
    rescaled_fn = function_of(arrays, lambda *t: qdense(*t, machine, 37, start, dtype, name="y"))
    sums_fn = function_of(dict(list(arrays.items())[:3]), lambda x, w, b: qdense(x, w, b, None, machine, 37, name="y"))
    one, at = np.float32(1), np.dtype(dtype).type(start)
    zeros = np.zeros(37, np.int8)
    wanted = onnx_result("QLinearMatMul", x, [one, at, weight.T, scale, zeros, one, at], dtype)
    np.testing.assert_array_equal(build(default_schedule(rescaled_fn).fn)(*arrays.values()), wanted)
    wanted = onnx_result("MatMulInteger", x, [weight.T, at], "int32")
    np.testing.assert_array_equal(build(default_schedule(sums_fn).fn)(x, packed.weight, packed.bias), wanted)


def onnx_result(operator: str, x: Array, constants: list[Any], dtype: str) -> Array:
    """ONNX Runtime's result of one operator on `x` and constants."""
    import onnxruntime
    from onnx import helper, numpy_helper

    names = [f"c{n}" for n in range(len(constants))]
    tensors = [numpy_helper.from_array(np.ascontiguousarray(c), n) for c, n in zip(constants, names, strict=True)]
    x_info, y_info = (
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(kind)), None)
        for name, kind in (("x", x.dtype), ("y", dtype))
    )
    graph = helper.make_graph([helper.make_node(operator, ["x", *names], ["y"])], "g", [x_info], [y_info], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("target", ["cortex-a9", "aarch64"])
@pytest.mark.parametrize("name", ["int8 ragged", "s2u2 ragged", "bipolar ragged"])
def test_qdense_kernels_are_exact_on_emulated_arm_cpus(name: str, target: str, tmp_path: Path) -> None:
    toolchain(target)
    fn, arrays, expected = LAYERS[name](TARGETS[target])
    built = compile_native(default_schedule(fn, target).fn, target)
    np.testing.assert_array_equal(call(tmp_path, target, built, arrays)["y"], expected)


@pytest.mark.sampled
@pytest.mark.parametrize("packed_for", ["x86-64-avx512", "x86-64-avx2", "neoverse-n1", "aarch64"])
@pytest.mark.parametrize("name", ["int8 ragged", "s2u2 ragged", "bipolar ragged"])
def test_a_qdense_layout_for_another_cpu_runs_everywhere(name: str, packed_for: str) -> None:
    fn, arrays, expected = LAYERS[name](TARGETS[packed_for])
    for scheduled_for in (packed_for, "x86-64"):
        kernel = build(default_schedule(fn, scheduled_for).fn, TARGETS["x86-64"])
        np.testing.assert_array_equal(kernel(*arrays.values()), expected)


@pytest.mark.parametrize("name", ["int8 ragged", "s2u2 ragged"])
def test_rows_of_qdense_may_be_a_symbol(name: str) -> None:
    _, arrays, expected = LAYERS[name](host())
    tensors = [te.placeholder(array.shape, array.dtype.name, given) for given, array in arrays.items()]
    tensors[0] = te.placeholder((te.var("m"), arrays["x"].shape[1]), "uint8", "x")
    outputs = expected.shape[1]
    if name.startswith("int8"):
        result = qdense(*tensors, host(), outputs, 12, name="y")
    else:
        result = bitserial_dense(*tensors, host(), 2, Coding.SIGNED, outputs, "y")
    schedule = default_schedule(te.create_function(tensors, [result], "rows"))
    assert "# tensorize=" in str(schedule.fn)
    kernel = build(schedule.fn)
    np.testing.assert_array_equal(kernel(*arrays.values()), expected)
    first, *rest = arrays.values()
    np.testing.assert_array_equal(kernel(np.tile(first, (7, 1)), *rest), np.tile(expected, (7, 1)))


# --- packing and errors ---------------------------------------------------------------------------


def test_plane_p_of_packed_weights_holds_bit_p() -> None:
    """Element b of a row is bit b of its word; plane p holds bit p of the elements."""
    weight = np.zeros((2, 33), np.int8)
    weight[0, [0, 4, 32]] = (1, 2, 3)
    weight[1, 31] = 3
    packed = pack_bitserial_dense(weight, 2, Coding.UNSIGNED, TARGETS["x86-64"])
    assert packed.shape == (1, 2, 2, 4)
    assert packed[0, 0, :, 0].tolist() == [0b00001, 0b10000]
    assert packed[0, 1, :, 0].tolist() == [1, 1]
    assert packed[0, 0, :, 1].tolist() == [1 << 31, 1 << 31]


ONE = TARGETS["x86-64-avx512"]


@pytest.mark.parametrize(
    ("weight", "bits", "coding", "message"),
    [
        ([[4]], 2, Coding.UNSIGNED, "unsigned weights must be among 0, 1, 2, 3, got 4"),
        ([[2]], 2, Coding.SIGNED, "signed weights must be among -2, -1, 0, 1, got 2"),
        ([[0]], 1, Coding.BIPOLAR, "bipolar weights must be among -1, 1, got 0"),
        ([[0]], 3, Coding.UNSIGNED, "bits must be 1 or 2, got 3"),
        ([[0]], 0, Coding.UNSIGNED, "bits must be 1 or 2, got 0"),
        ([[]], 1, Coding.UNSIGNED, "every extent of weight must be at least 1, got int8[1, 0]"),
        ([[0]], 2, Coding.BIPOLAR, "bits must be 1 where the coding is bipolar, got 2"),
        ([0], 1, Coding.SIGNED, "weight must be an int8 array [N, K], got int8[1]"),
        ([[0]], 1, "signed", "coding must be a Coding, got 'signed'"),
    ],
)
def test_weights_out_of_range_are_refused(weight: Any, bits: int, coding: Any, message: str) -> None:
    with pytest.raises(OperatorError, match=f"^{re.escape(f'pack_bitserial_dense: {message}')}$"):
        pack_bitserial_dense(np.array(weight, np.int8), bits, coding, ONE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": np.zeros((4, 2, 1), np.int8)}, "weight must be an int8 array [N, K], got int8[4, 2, 1]"),
        ({"scale": np.ones(3)}, "scale must be one number or 4, got shape [3]"),
        ({"bias": [0, 0, 0, 0]}, "bias must be an int32 array of 4, got list"),
        ({"x_zero_point": 256}, "x_zero_point must be in 0..255 for uint8, got 256"),
    ],
)
def test_invalid_qdense_weights_are_refused(changes: dict[str, Any], message: str) -> None:
    options: dict[str, Any] = {"weight": np.zeros((4, 2), np.int8), "scale": 1.0, "target": ONE, **changes}
    with pytest.raises(OperatorError, match=f"^{re.escape(f'pack_qdense: {message}')}$"):
        pack_qdense(**options)


@pytest.mark.parametrize(
    ("operator", "shapes", "message"),
    [
        (
            lambda x, w, b: qdense(x, w, b, None, ONE, name="y"),
            (((3, 9), "uint8"), ((2, 2, 16, 4), "int8"), ((32,), "int32")),
            "weight must be int8[N / 16, 3, 16, 4], got int8[2, 2, 16, 4]; pack_qdense packs it for a target",
        ),
        (
            lambda x, w, b: qdense(x, w, b, None, ONE, name="y"),
            (((3, 8), "float32"), ((2, 2, 16, 4), "int8"), ((32,), "int32")),
            "the dtype of x must be one of uint8, int8, got 'float32'",
        ),
        (
            lambda x, w, b: qdense(x, w, b, None, ONE, 33, name="y"),
            (((3, 8), "uint8"), ((2, 2, 16, 4), "int8"), ((32,), "int32")),
            "out_features must be at most 32, those of weight, got 33",
        ),
        (
            lambda x, w, b: qdense(x, w, b, None, ONE, name="y"),
            (((3, te.var("k")), "uint8"), ((2, 2, 16, 4), "int8"), ((32,), "int32")),
            "extent 1 of x must be a number, got k",
        ),
        (
            lambda x, w, b: qdense(x, w, b, None, ONE, y_zero_point=12, name="y"),
            (((3, 8), "uint8"), ((2, 2, 16, 4), "int8"), ((32,), "int32")),
            "y_zero_point must be 0 without a scale, got 12",
        ),
        (
            lambda x, w, b: qdense(x, w, b, None, None, name="y"),
            (((3, 8), "uint8"), ((2, 2, 16, 4), "int8"), ((32,), "int32")),
            "target must be a name or a Target, got None",
        ),
        (
            lambda x, w: bitserial_dense(x, w, ONE, out_features=0, name="y"),
            (((3, 40), "uint8"), ((2, 2, 2, 16), "uint32")),
            "out_features must be at least 1, got 0",
        ),
        (
            lambda x, w: bitserial_dense(x, w, ONE, name="y"),
            (((3, 40), "uint8"), ((2, te.var("k"), 2, 16), "uint32")),
            "extent 1 of weight must be a number, got k",
        ),
        (
            lambda x, w: bitserial_dense(x, w, ONE, 1, Coding.BIPOLAR, name="y"),
            (((3, 40), "int8"), ((2, 2, 2, 16), "uint32")),
            "weight must be uint32[N / 16, 2, 1, 16], got uint32[2, 2, 2, 16]; pack_bitserial_dense packs it for a "
            "target",
        ),
        (
            lambda x, w: bitserial_dense(x, w, ONE, name="y"),
            (((3, 40), "uint8"), ((2, 1, 2, 16), "uint32")),
            "weight must be uint32[N / 16, 2, 1 or 2, 16], got uint32[2, 1, 2, 16]; pack_bitserial_dense packs it for "
            "a target",
        ),
        (
            lambda x, w: bitserial_dense(x, w, ONE, 1, Coding.BIPOLAR, name="y"),
            (((3, 32), "uint8"), ((2, 1, 1, 16), "uint32")),
            "the dtype of x must be one of int8, got 'uint8'",
        ),
    ],
)
def test_invalid_qdense_arguments_are_refused(operator: Any, shapes: Any, message: str) -> None:
    tensors = [te.placeholder(shape, dtype, name) for name, (shape, dtype) in zip("xwb", shapes, strict=False)]
    with pytest.raises(OperatorError, match=f"^{re.escape(f'y: {message}')}$"):
        operator(*tensors)
