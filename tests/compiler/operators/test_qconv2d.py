# SPDX-License-Identifier: Apache-2.0
"""Quantised convolutions against NumPy and ONNX Runtime, for CPUs of all kinds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.native_programs import call, toolchain
from helpers.quantised_model import convolved, rescaled

from vdla.compiler import ir, te
from vdla.compiler.codegen.llvm import compile_native
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import OperatorError, pack_qconv2d, pack_qdepthwise_conv2d, qconv2d, qdepthwise_conv2d
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.target import TARGETS, Target, host
from vdla.runtime.native import build

Array = np.ndarray[Any, Any]
AVX512 = TARGETS["x86-64-avx512"]


@dataclass(frozen=True)
class Case:
    """A convolution; `outputs` is None for a depthwise one."""

    data: tuple[int, int, int, int]
    outputs: int | None
    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    dilations: tuple[int, int] = (1, 1)
    x_dtype: str = "uint8"
    dtype: str = "uint8"
    x_zero: int = 7
    y_zero: int = 12
    bias: int = 5000  # the largest magnitude
    halves: bool = False  # scales are powers of two, for many ties

    def operands(self) -> tuple[Array, Array, Array, Array]:
        """Data, weight, bias and scale, which reach the limits of their ranges."""
        random = np.random.default_rng(1)
        channels = self.data[1]
        outputs = channels if self.outputs is None else self.outputs
        weight_shape = (outputs, 1 if self.outputs is None else channels, *self.kernel)
        limits = np.iinfo(self.x_dtype)
        x = random.integers(limits.min, limits.max, self.data, self.x_dtype, endpoint=True)
        weight = random.integers(-128, 127, weight_shape, np.int8, endpoint=True)
        x.flat[:2], weight.flat[:2] = (limits.min, limits.max), (-128, 127)
        bias = random.integers(-self.bias, self.bias, outputs, np.int32)
        bias[:2] = (-self.bias - 1, self.bias)
        scale = 2.0 ** random.integers(-9, -6, outputs) if self.halves else random.uniform(2e-3, 8e-3, outputs)
        return x, weight, bias, scale.astype(np.float32)

    def expected(self) -> Array:
        """The result in NumPy."""
        x, weight, bias, scale = self.operands()
        total = convolved(x, weight, self.x_zero, self.strides, self.pads, self.dilations, self.outputs is None)
        return rescaled(total + bias[:, None, None], scale[:, None, None], self.y_zero, self.dtype)

    def function(self, target: Target, batch: Any = None) -> tuple[ir.Function, dict[str, Array]]:
        """The function with its packed operands by name; `batch` may be a symbol."""
        x, weight, bias, scale = self.operands()
        window = {"strides": self.strides, "dilations": self.dilations}
        zeros = {"x_zero_point": self.x_zero, "y_zero_point": self.y_zero, "dtype": self.dtype}
        if self.outputs is None:
            packed = pack_qdepthwise_conv2d(weight, scale, target, bias, self.x_zero, self.x_dtype, **window)
        else:
            packed = pack_qconv2d(weight, scale, target, bias, self.x_zero, self.x_dtype)
        arrays = {"x": x, "w": packed.weight, "b": packed.bias, "s": packed.scale}
        tensors = [te.placeholder(array.shape, array.dtype.name, name) for name, array in arrays.items()]
        if batch is not None:
            tensors[0] = te.placeholder((batch, *self.data[1:]), self.x_dtype, "x")
        last = self.kernel if self.outputs is None else self.outputs
        operator = qdepthwise_conv2d if self.outputs is None else qconv2d
        result = operator(*tensors, target, last, pads=self.pads, name="y", **window, **zeros)  # type: ignore[operator]
        return te.create_function(tensors, [result], "layer"), arrays


CASES = {
    "3x3": Case((1, 8, 9, 14), 32, (3, 3), pads=(1, 1, 1, 1)),
    "channels that fill no group, outputs that fill no lanes": Case((2, 5, 6, 7), 21, (3, 3), pads=(1, 1, 1, 1)),
    "few outputs": Case((1, 3, 6, 11), 3, (2, 2)),
    "first layer": Case((1, 3, 15, 23), 16, (7, 7), (2, 2), (3, 3, 3, 3)),
    "1x1 with stride": Case((1, 6, 9, 10), 40, (1, 1), (2, 2)),
    "int8": Case((1, 7, 5, 13), 18, (3, 1), x_dtype="int8", dtype="int8", x_zero=-128, y_zero=5),
    "dilated, padded on one side": Case((1, 4, 12, 11), 17, (3, 2), (1, 2), (2, 0, 0, 1), (2, 3), y_zero=255),
    "halves": Case((1, 3, 7, 11), 20, (2, 2), y_zero=0, halves=True),
    "sums that wrap": Case((1, 6, 5, 9), 18, (3, 3), x_dtype="int8", dtype="int8", x_zero=127, bias=2**31 - 1),
    "depthwise": Case((1, 5, 9, 16), None, (3, 3), pads=(1, 1, 1, 1)),
    "depthwise, whole vectors": Case((2, 4, 5, 32), None, (3, 3), pads=(1, 1, 1, 1)),
    "depthwise with stride": Case((1, 6, 11, 21), None, (3, 3), (2, 2), (1, 1, 1, 1)),
    "depthwise, short rows": Case(
        (1, 9, 7, 7), None, (3, 3), pads=(1, 1, 1, 1), x_dtype="int8", dtype="int8", x_zero=-3
    ),
    "depthwise, long kernel": Case((1, 3, 8, 20), None, (5, 6), (1, 3), (2, 2, 2, 3)),
    "depthwise, dilated": Case((1, 3, 9, 17), None, (3, 3), dilations=(2, 2), dtype="int8", y_zero=-128),
    "depthwise, halves": Case((1, 5, 7, 18), None, (2, 2), x_zero=255, y_zero=0, halves=True),
    "depthwise, sums that wrap": Case((1, 4, 5, 9), None, (3, 3), pads=(1, 1, 1, 1), bias=2**31 - 1),
    "depthwise, wide stride": Case((1, 2, 6, 40), None, (2, 3), (1, 5)),
}


@pytest.mark.parametrize("name", CASES)
def test_qconv2d_expressions_equal_the_model(name: str) -> None:
    case = CASES[name]
    for target in ("x86-64-avx512", "aarch64"):
        fn, arrays = case.function(TARGETS[target])
        np.testing.assert_array_equal(interpret(fn, arrays)["y"], case.expected())


@pytest.mark.sampled
@pytest.mark.parametrize("target", ["host", "x86-64-avx2", "x86-64"])
@pytest.mark.parametrize("name", CASES)
def test_scheduled_qconv2d_kernels_are_exact(name: str, target: str) -> None:
    machine = Target.named(target)
    if not host().has(*machine.features):
        pytest.skip(f"needs a CPU with all features of {target}")
    case = CASES[name]
    fn, arrays = case.function(machine)
    kernel = build(default_schedule(fn, machine).fn, machine)
    np.testing.assert_array_equal(kernel(*arrays.values()), case.expected())


@pytest.mark.parametrize("name", ["channels that fill no group, outputs that fill no lanes", "depthwise"])
def test_the_batch_of_qconv2d_may_be_a_symbol(name: str) -> None:
    case = CASES[name]
    fn, arrays = case.function(host(), te.var("n"))
    kernel = build(default_schedule(fn).fn)
    np.testing.assert_array_equal(kernel(*arrays.values()), case.expected())
    x, *rest = arrays.values()
    np.testing.assert_array_equal(kernel(np.tile(x, (3, 1, 1, 1)), *rest), np.tile(case.expected(), (3, 1, 1, 1)))


@pytest.mark.sampled
@pytest.mark.parametrize("packed_for", ["x86-64-avx512", "x86-64-avx2", "neoverse-n1", "aarch64"])
@pytest.mark.parametrize("name", ["3x3", "depthwise with stride"])
def test_a_qconv2d_layout_for_another_cpu_runs_everywhere(name: str, packed_for: str) -> None:
    """A dot product that the CPU lacks is compiled from its definition."""
    case = CASES[name]
    fn, arrays = case.function(TARGETS[packed_for])
    for scheduled_for in (packed_for, "x86-64"):
        kernel = build(default_schedule(fn, scheduled_for).fn, TARGETS["x86-64"])
        np.testing.assert_array_equal(kernel(*arrays.values()), case.expected())


@pytest.mark.parametrize(
    ("target", "instruction"),
    [("cortex-a9", "vpadal.s16"), ("aarch64", "sadalp"), ("neoverse-n1", "sdot"), ("x86-64-avx512", "vpdpbusd")],
)
def test_kernels_use_the_dot_product_instruction(target: str, instruction: str) -> None:
    fn, _ = CASES["3x3"].function(TARGETS[target])
    assert f"\t{instruction}\t" in compile_native(default_schedule(fn, target).fn, target).assembly


def test_short_rows_are_regrouped_with_shuffles() -> None:
    """A row that LLVM could unroll completely is left to its loop vectoriser."""
    fn, _ = Case((1, 8, 28, 28), 32, (3, 3), pads=(1, 1, 1, 1)).function(AVX512)
    optimised = compile_native(default_schedule(fn, AVX512).fn, AVX512).optimised_llvm
    assert optimised.count("store i8") < 28  # for 28 pixels of 4 channels


@pytest.mark.parametrize("target", ["cortex-a9", "aarch64"])
@pytest.mark.parametrize("name", ["channels that fill no group, outputs that fill no lanes", "depthwise with stride"])
def test_qconv2d_kernels_are_exact_on_emulated_arm_cpus(target: str, name: str, tmp_path: Path) -> None:
    toolchain(target)
    case = CASES[name]
    fn, arrays = case.function(TARGETS[target])
    built = compile_native(default_schedule(fn, target).fn, target)
    np.testing.assert_array_equal(call(tmp_path, target, built, arrays)["y"], case.expected())


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.x_dtype == case.dtype])
def test_qconv2d_equals_onnx_runtime(name: str) -> None:
    """Without VNNI, ONNX Runtime's sums of uint8 by int8 saturate."""
    pytest.importorskip("onnxruntime", reason="needs onnxruntime, with which results are compared")
    if not host().has("avx512vnni"):
        pytest.skip("needs a CPU with avx512vnni, on which ONNX Runtime is exact")
    case = CASES[name]
    x, weight, bias, scale = case.operands()
    np.testing.assert_array_equal(qlinear_conv(case, x, weight, bias, scale), case.expected())


def qlinear_conv(case: Case, x: Array, weight: Array, bias: Array, scale: Array) -> Array:
    """ONNX Runtime's result, with scales of 1 for data and results."""
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    kind = TensorProto.UINT8 if case.dtype == "uint8" else TensorProto.INT8
    zero = np.dtype(case.dtype).type
    constants = {
        "xs": np.float32(1), "xz": zero(case.x_zero), "w": weight, "ws": scale, "wz": np.zeros(len(weight), np.int8),
        "ys": np.float32(1), "yz": zero(case.y_zero), "b": bias,
    }  # fmt: skip
    node = helper.make_node(
        "QLinearConv", ["x", *constants], ["y"], group=case.data[1] if case.outputs is None else 1,
        kernel_shape=case.kernel, strides=case.strides, pads=case.pads, dilations=case.dilations,
    )  # fmt: skip
    inputs = [helper.make_tensor_value_info("x", kind, case.data)]
    outputs = [helper.make_tensor_value_info("y", kind, None)]
    tensors = [numpy_helper.from_array(np.asarray(value), key) for key, value in constants.items()]
    graph = helper.make_graph([node], "layer", inputs, outputs, tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def test_ties_round_to_even() -> None:
    """Sums 1, 3, 5 and 255, times 0.5."""
    packed = pack_qconv2d(np.ones((1, 1, 1, 1), np.int8), np.float32(0.5), AVX512)
    x = np.array([1, 3, 5, 255], np.uint8).reshape(1, 1, 1, 4)
    arrays = {"x": x, "w": packed.weight, "b": packed.bias, "s": packed.scale}
    tensors = [te.placeholder(array.shape, array.dtype.name, name) for name, array in arrays.items()]
    fn = te.create_function(tensors, [qconv2d(*tensors, AVX512, 1, name="y")], "halves")
    assert interpret(fn, arrays)["y"].ravel().tolist() == [0, 2, 2, 128]


def test_a_target_may_be_a_name() -> None:
    case = CASES["depthwise"]
    named, _ = case.function("x86-64")  # type: ignore[arg-type]
    assert named == case.function(TARGETS["x86-64"])[0]


# --- errors ---------------------------------------------------------------------------------------


def layer(**changes: Any) -> te.Tensor:
    shapes = {"x": ((1, 8, 5, 5), "uint8"), "w": ((2, 2, 3, 3, 16, 4), "int8"), "b": ((32,), "int32"),
              "s": ((32,), "float32")}  # fmt: skip
    given = {name: changes.pop(name, default) for name, default in shapes.items()}
    tensors = [te.placeholder(shape, dtype, name) for name, (shape, dtype) in given.items()]
    return qconv2d(*tensors, changes.pop("target", AVX512), name="layer", **changes)


def depthwise_layer(**changes: Any) -> te.Tensor:
    shapes = {"x": ((1, 8, 5, 5), "uint8"), "w": ((8, 3, 1, 3), "int8"), "b": ((8,), "int32"),
              "s": ((8,), "float32")}  # fmt: skip
    tensors = [te.placeholder(*changes.get(name, given), name) for name, given in shapes.items()]
    return qdepthwise_conv2d(*tensors, changes.get("target", AVX512), changes.get("kernel", 3), name="layer")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": ((8, 5, 5), "uint8")}, "x must have 4 dimensions, got 3"),
        ({"x": ((1, 8, 5, 5), "int16")}, "the dtype of x must be one of uint8, int8, got 'int16'"),
        (
            {"w": ((2, 2, 3, 3, 4, 16), "int8")},
            "weight must be int8[CO / 16, 2, KH, KW, 16, 4], got int8[2, 2, 3, 3, 4, 16]; pack_qconv2d packs it for a "
            "target",
        ),
        ({"b": ((31,), "int32")}, "bias must be int32[32], one number a channel, got int32[31]"),
        ({"s": ((32,), "float64")}, "scale must be float32[32], one number a channel, got float64[32]"),
        ({"dtype": "int16"}, "dtype must be one of uint8, int8, got 'int16'"),
        ({"x_zero_point": 256}, "x_zero_point must be in 0..255 for uint8, got 256"),
        ({"dtype": "int8", "y_zero_point": 128}, "y_zero_point must be in -128..127 for int8, got 128"),
        ({"out_channels": 33}, "out_channels must be at most 32, those of weight, got 33"),
        ({"x": ((1, te.var("c"), 5, 5), "uint8")}, "extent 1 of x must be a number, got c"),
        ({"x": ((1, 8, te.var("h"), 5), "uint8")}, "spatial extent 0 must be a number, got h"),
        ({"w": ((te.var("co"), 2, 3, 3, 16, 4), "int8")}, "extent 0 of weight must be a number, got co"),
        ({"b": ((te.var("co"),), "int32")}, "bias must be int32[32], one number a channel, got int32[co]"),
        ({"target": 512}, "target must be a name or a Target, got 512"),
    ],
)
def test_invalid_qconv2d_arguments_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OperatorError, match=f"^{re.escape(f'layer: {message}')}$"):
        layer(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"kernel": 2},
            "weight must be int8[8, 2, 1, 2], got int8[8, 3, 1, 3]; pack_qdepthwise_conv2d packs it for a target",
        ),
        ({"x": ((1, te.var("c"), 5, 5), "uint8")}, "extent 1 of x must be a number, got c"),
        ({"w": ((te.var("c"), 3, 1, 3), "int8")}, "extent 0 of weight must be a number, got c"),
        ({"s": ((9,), "float32")}, "scale must be float32[8], one number a channel, got float32[9]"),
        ({"target": None}, "target must be a name or a Target, got None"),
    ],
)
def test_invalid_depthwise_arguments_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OperatorError, match=f"^{re.escape(f'layer: {message}')}$"):
        depthwise_layer(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"weight": [[1, 2]]}, "weight must be an int8 array [CO, CI, KH, KW], got list"),
        (
            {"weight": np.zeros((4, 0, 3, 3), np.int8)},
            "every extent of weight must be at least 1, got int8[4, 0, 3, 3]",
        ),
        ({"scale": "fine"}, "scale must be numbers, got 'fine'"),
        ({"scale": [1, 2, np.nan, 4]}, "scale must be finite in float32, got nan"),
        ({"scale": 1e300}, "scale must be finite in float32, got inf"),
        ({"target": 512}, "target must be a name or a Target, got 512"),
        ({"weight": np.zeros((4, 2, 3, 3))}, "weight must be an int8 array [CO, CI, KH, KW], got float64[4, 2, 3, 3]"),
        ({"scale": np.ones(3)}, "scale must be one number or 4, got shape [3]"),
        ({"bias": np.zeros(4)}, "bias must be an int32 array of 4, got float64[4]"),
        ({"x_dtype": "int16"}, "x_dtype must be one of uint8, int8, got 'int16'"),
        ({"x_zero_point": -1}, "x_zero_point must be in 0..255 for uint8, got -1"),
    ],
)
def test_invalid_qconv2d_weights_are_refused(changes: dict[str, Any], message: str) -> None:
    options = {"weight": np.zeros((4, 2, 3, 3), np.int8), "scale": np.ones(4), "target": AVX512, **changes}
    with pytest.raises(OperatorError, match=f"^{re.escape(f'pack_qconv2d: {message}')}$"):
        pack_qconv2d(**options)


@pytest.mark.parametrize("shape", [(4, 3, 3), (4, 2, 3, 3)])
def test_depthwise_weights_have_one_input_channel(shape: tuple[int, ...]) -> None:
    found = re.escape(f"weight must be an int8 array [C, 1, KH, KW], got int8{list(shape)}")
    with pytest.raises(OperatorError, match=f"^pack_qdepthwise_conv2d: {found}$"):
        pack_qdepthwise_conv2d(np.zeros(shape, np.int8), np.float32(1), AVX512)
