# SPDX-License-Identifier: Apache-2.0
"""Operators of the domain com.microsoft against ONNX Runtime, compiled for the CPU."""

import numpy as np
import onnx
import onnxruntime
import pytest
from helpers.exact_onnxruntime import exact_session
from onnx import helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

import vdla
from vdla.compiler.graph.accelerator import candidates
from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import run_passes
from vdla.hardware.config import Config
from vdla.networks.registry import NETWORKS
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluate_nodes import INTEGER, PREPARATION

onnxruntime.set_default_logger_severity(4)
R = np.random.default_rng(0)
S = [np.array(value, np.float32) for value in (0.021, 0.017, 0.033)]


def f(*shape):
    return R.uniform(-2, 2, shape).astype(np.float32)


def q(dtype, *shape):
    limits = np.iinfo(dtype)
    return R.integers(limits.min, limits.max + 1, shape).astype(dtype)


def z(value, dtype):
    return np.array(value, dtype)


def model_of(op, inputs, fed, outputs=1, **attributes):
    """One node; the inputs whose places are in `fed` are inputs of the model, others constants."""
    names = ["" if value is None else f"x{i}" for i, value in enumerate(inputs)]
    given = [
        helper.make_tensor_value_info(names[i], helper.np_dtype_to_tensor_dtype(inputs[i].dtype), inputs[i].shape)
        for i in fed
    ]
    held = [
        numpy_helper.from_array(v, n) for i, (n, v) in enumerate(zip(names, inputs, strict=True)) if n and i not in fed
    ]
    node = helper.make_node(op, names, [f"y{i}" for i in range(outputs)], domain="com.microsoft", **attributes)
    results = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)]
    graph = helper.make_graph([node], "g", given, results, held)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def compared(op, inputs, fed, outputs=1, **attributes):
    """Our results and those of ONNX Runtime."""
    model = model_of(op, inputs, fed, outputs, **attributes)
    data = {f"x{i}": inputs[i] for i in fed}
    session = exact_session(model.SerializeToString())
    expected = session.run(None, data)
    made = vdla.compile(model, "host")(**data)
    return list(made) if isinstance(made, tuple) else [made], expected


QUANTISED = {}
for kind, zero in (("uint8", 117), ("int8", -9)):
    for shapes in ([(2, 3, 4, 5)] * 2, [(2, 3, 4, 5), (3, 1, 1)], [(7,), (1,)]):
        operands = [
            q(kind, *shapes[0]),
            S[0],
            z(zero, kind),
            q(kind, *shapes[1]),
            S[1],
            z(3, kind),
            S[2],
            z(zero, kind),
        ]
        for op in ("QLinearAdd", "QLinearMul"):
            QUANTISED[f"{op} {kind} {shapes[1]}"] = (op, operands, (0, 3), {})
    one = [q(kind, 2, 8, 6, 6), S[0], z(zero, kind), S[1], z(3, kind)]
    for name, attributes in {
        "QLinearSigmoid": {},
        "QLinearLeakyRelu": {"alpha": 0.2},
        "QLinearGlobalAveragePool": {"channels_last": 0},
        "QLinearAveragePool": {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        "QLinearAveragePool ": {"kernel_shape": [2, 2], "count_include_pad": 1, "pads": [1, 1, 0, 0]},
        "QLinearAveragePool  ": {"kernel_shape": [2, 3], "auto_pad": "SAME_UPPER"},
    }.items():
        QUANTISED[f"{name} {kind}"] = (name.strip(), one, (0,), attributes)
    soft = [q(kind, 2, 8, 6), S[0], z(zero, kind), np.float32(1 / 256), z(-128 if kind == "int8" else 0, kind)]
    soft[3] = np.array(soft[3])
    QUANTISED[f"QLinearSoftmax {kind}"] = ("QLinearSoftmax", soft, (0,), {"axis": -1, "opset": 13})
    pieces = [q(kind, 2, 4, 3), S[0], z(zero, kind), q(kind, 2, 2, 3), S[1], z(3, kind)]
    QUANTISED[f"QLinearConcat {kind}"] = ("QLinearConcat", [S[1], z(3, kind), *pieces], (2, 5), {"axis": 1})
    for turned in (0, 1):
        shape = (16, 10) if turned else (10, 16)
        scales = R.uniform(0.01, 0.03, 16).astype(np.float32)
        for each, b_zero in ((S[1], z(2, "int8")), (scales, np.zeros(16, np.int8))):
            for bias in (None, R.integers(-999, 999, 16).astype(np.int32)):
                gemm = [
                    q(kind, 4, 10),
                    S[0],
                    z(zero, kind),
                    q("int8", *shape),
                    each,
                    b_zero,
                    bias,
                    np.float32([0.9])[0:1].reshape(()),
                    z(zero, kind),
                ]
                label = f"QGemm {kind} transB={turned} {each.size} {bias is not None}"
                QUANTISED[label] = ("QGemm", gemm, (0,), {"transB": turned, "alpha": 1.0})


@pytest.mark.sampled
@pytest.mark.parametrize("case", QUANTISED)
def test_quantised_operators_are_those_of_onnx_runtime_within_one_step(case):
    op, inputs, fed, attributes = QUANTISED[case]
    (got,), (expected,) = compared(op, inputs, fed, **attributes)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert np.abs(got.astype(int) - expected.astype(int)).max() <= 1


SOFTMAX = {
    # The last bit of a sum decides about half a step; 1 / Y_scale is no whole number.
    "near half a step": (q("uint8", 400, 6) % 5, 1e-4, 0.3, {"axis": -1, "opset": 13}),
    "long": (q("int8", 2, 20000), 0.3, 0.003, {"axis": -1, "opset": 13}),
    "one": (q("uint8", 9, 1), 5.0, 1 / 255, {"axis": -1, "opset": 13}),
    "coarse": (q("int8", 4, 3), 0.05, 1.5, {"axis": 0, "opset": 13}),
    "several axes": (q("int8", 3, 7, 5), 0.02, 1 / 255, {"axis": -2, "opset": 12}),
    "all axes": (q("uint8", 3, 7, 5), 0.02, 0.01, {"axis": 0, "opset": 11}),
    "none": (q("uint8", 3, 0), 0.02, 0.01, {"axis": 1, "opset": 13}),
}


@pytest.mark.parametrize("case", SOFTMAX)
def test_a_quantised_softmax_is_that_of_onnx_runtime_to_the_bit(case):
    x, scale, result, attributes = SOFTMAX[case]
    zeros = z(7, x.dtype), z(np.iinfo(x.dtype).min, x.dtype)
    inputs = [x, np.float32([scale]).reshape(()), zeros[0], np.float32([result]).reshape(()), zeros[1]]
    (got,), (expected,) = compared("QLinearSoftmax", inputs, (0,), **attributes)
    np.testing.assert_array_equal(got, expected)
    assert got.dtype == expected.dtype


# A Softmax, and a weight with a zero point, stay float.
STAY_FLOAT = ("Softmax", "transB=0 1 ", "transB=1 1 ")
ON_INTEGERS = [case for case in QUANTISED if not any(part in case for part in STAY_FLOAT)]


@pytest.mark.parametrize("case", ON_INTEGERS)
def test_quantised_operators_run_on_integers(case):
    op, inputs, fed, attributes = QUANTISED[case]
    graph = run_passes(import_model(model_of(op, inputs, fed, **attributes)), (*PREPARATION, *INTEGER))
    kinds = {graph.types[name].dtype for node in graph.nodes for name in node.outputs if name}
    assert kinds <= {"int8", "uint8"}, kinds


@pytest.mark.parametrize("dtype", ["int16", "uint16", "int8", "uint8"])
def test_quantise_and_dequantise(dtype):
    zero = z(5, dtype)
    (got,), (expected,) = compared("QuantizeLinear", [f(3, 40) * 20, S[0], zero], (0,))
    np.testing.assert_array_equal(got, expected)
    (got,), (expected,) = compared("DequantizeLinear", [q(dtype, 3, 40), S[0], zero], (0,))
    np.testing.assert_array_equal(got, expected)


def _n_bits(bits, block, zero, bias, depth=70, rows=24):
    blocks = -(-depth // block)
    packed = q("uint8", rows, blocks, block * bits // 8)
    points = q("uint8", rows * -(-blocks * bits // 8)) if zero else None
    inputs = [f(3, depth), packed, f(rows * blocks), points, None, f(rows) if bias else None]
    while inputs[-1] is None:
        inputs.pop()
    return inputs, {"K": depth, "N": rows, "bits": bits, "block_size": block}


FLOAT = {
    "Gelu": ([f(3, 5)], (0,), {}),
    "BiasGelu": ([f(2, 3, 8), f(8)], (0,), {}),
    "FastGelu": ([f(2, 3, 8)], (0,), {}),
    "FastGelu bias": ([f(2, 3, 8), f(8)], (0,), {}),
    "QuickGelu": ([f(2, 3, 8)], (0,), {}),
    "SkipLayerNormalization": ([f(2, 3, 8), f(2, 3, 8), f(8), f(8), f(8)], (0, 1), {"epsilon": 1e-5}),
    "SkipLayerNormalization no beta": ([f(2, 3, 8), f(2, 3, 8), f(8)], (0, 1), {}),
    "SkipSimplifiedLayerNormalization": ([f(2, 3, 8), f(2, 3, 8), f(8), f(8)], (0, 1), {"epsilon": 1e-5}),
    "DynamicQuantizeMatMul": ([f(4, 16), q("int8", 16, 8), S[0].reshape(1), z([2], "int8"), f(8)], (0,), {}),
    "DynamicQuantizeMatMul columns": ([f(4, 16), q("int8", 16, 8), np.abs(f(8)) + 1], (0,), {}),
    "MatMulIntegerToFloat": (
        [q("uint8", 4, 16), q("int8", 16, 8), S[0], S[1], z(9, "uint8"), z(2, "int8"), f(8)],
        (0,),
        {},
    ),
    "MatMulIntegerToFloat plain": ([q("uint8", 4, 16), q("uint8", 16, 8), S[0], S[1]], (0,), {}),
    "Attention": ([f(2, 5, 8), f(8, 24), f(24)], (0,), {"num_heads": 2}),
    "Attention mask": (
        [f(2, 5, 8), f(8, 24), f(24), np.array([[1] * 5, [1, 1, 1, 0, 0]], np.int32)],
        (0, 3),
        {"num_heads": 2},
    ),
    "Attention causal": ([f(2, 5, 8), f(8, 24), f(24)], (0,), {"num_heads": 4, "unidirectional": 1}),
    "MultiHeadAttention": ([f(2, 5, 8), f(2, 7, 8), f(2, 7, 8)], (0, 1, 2), {"num_heads": 2}),
    "MultiHeadAttention bias": ([f(2, 5, 8), f(2, 7, 8), f(2, 7, 8), f(24)], (0, 1, 2), {"num_heads": 2, "scale": 0.3}),
    "EmbedLayerNormalization": (
        [
            q("uint8", 2, 5).astype(np.int32) % 9,
            q("uint8", 2, 5).astype(np.int32) % 2,
            f(9, 8),
            f(6, 8),
            f(2, 8),
            f(8),
            f(8),
        ],
        (0, 1),
        {"epsilon": 1e-5},
    ),
}
for transposed in ((0, 0), (1, 0), (0, 1), (1, 1)):
    a, b = ((4, 3) if transposed[0] else (3, 4)), ((5, 4) if transposed[1] else (4, 5))
    flags = dict(zip(("transA", "transB"), transposed, strict=True))
    FLOAT[f"FusedMatMul {transposed}"] = ([f(2, *a), f(2, *b)], (0, 1), {**flags, "alpha": 0.5})
    FLOAT[f"FusedGemm {transposed}"] = ([f(*a), f(*b), f(5)], (0, 1), {**flags, "activation": "Relu", "alpha": 0.5})
for activation, parameters in (("Relu", []), ("Clip", [0.0, 1.0]), ("LeakyRelu", [0.1]), ("Sigmoid", []), ("Tanh", [])):
    image = [f(1, 3, 8, 8), f(4, 3, 3, 3), f(4)]
    options = {"activation": activation, "activation_params": parameters, "pads": [1, 1, 1, 1]}
    options = {key: value for key, value in options.items() if value != []}
    FLOAT[f"FusedConv {activation}"] = (image, (0,), options)
FLOAT["FusedConv sum"] = ([f(1, 3, 8, 8), f(4, 3, 3, 3), f(4), f(1, 4, 6, 6)], (0, 3), {"activation": "Relu"})
for bits, block, zero, bias in ((4, 16, 0, 0), (4, 32, 1, 0), (4, 32, 1, 1), (8, 32, 0, 0), (8, 16, 1, 1)):
    made, sizes = _n_bits(bits, block, zero, bias)
    FLOAT[f"MatMulNBits {bits} {block} {zero} {bias}"] = (made, (0,), sizes)


FLOAT["DynamicQuantizeLSTM"] = (
    [
        *(f(5, 2, 6), q("int8", 1, 6, 16), q("int8", 1, 4, 16), f(1, 32), None, None, None, None),
        *(np.array([0.01], np.float32), z([3], "int8"), np.array([0.01], np.float32), z([3], "int8")),
    ],
    (0,),
    {"hidden_size": 4},
)


@pytest.mark.sampled
@pytest.mark.parametrize("case", FLOAT)
def test_float_operators(case):
    inputs, fed, attributes = FLOAT[case]
    outputs = 2 if case.startswith("Embed") else 1
    for got, expected in zip(*compared(case.split()[0], inputs, fed, outputs, **attributes), strict=True):
        within = 0.02 if "LSTM" in case else 1e-4  # ONNX Runtime quantises the data of an LSTM
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=within * np.abs(expected).max())


def test_the_epsilon_of_skips_is_tiny_by_default():
    x = np.array([[[1e-3, 0]]], np.float32)
    inputs = [x, np.zeros_like(x), np.ones(2, np.float32)]
    for result, wanted in zip(*compared("SkipSimplifiedLayerNormalization", inputs, (0, 1)), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4)


@pytest.mark.parametrize("case", ["FusedMatMul", "FusedConv"])
def test_parameters_have_the_type_of_the_data(case):
    x = R.normal(size=(1, 2, 4, 4))
    weights, attributes = {
        "FusedMatMul": (R.normal(size=(4, 3)), {"alpha": 0.5}),
        "FusedConv": (R.normal(size=(3, 2, 1, 1)), {"activation": "Clip", "activation_params": [-0.5, 1.0]}),
    }[case]
    wanted = x @ weights / 2 if case == "FusedMatMul" else np.einsum("nchw,ocij->nohw", x, weights).clip(-0.5, 1)
    model = model_of(case, [x, weights], (0,), **attributes)
    with compile_network(model) as network:
        np.testing.assert_allclose(network.run({"x0": x}).outputs["y0"], wanted, rtol=1e-12)


def test_the_sum_of_a_skip_is_a_result():
    node = [f(2, 3, 8), f(2, 3, 8), f(8), f(8)]
    model = model_of("SkipLayerNormalization", node, (0, 1))
    model.graph.node[0].output[:] = ["y0", "", "", "sum"]
    model.graph.output.add().name = "sum"
    _, total = vdla.compile(model, "host")(x0=node[0], x1=node[1])
    np.testing.assert_array_equal(total, node[0] + node[1])


ON_MACHINE = ("QLinearAdd", "QLinearLeakyRelu", "QLinearAveragePool", "QLinearGlobalAveragePool", "QGemm")


@pytest.mark.parametrize("op", ON_MACHINE)
def test_quantised_operators_run_on_the_accelerator(op):
    case = next(case for case in ON_INTEGERS if case.startswith(op))
    _, inputs, fed, attributes = QUANTISED[case]
    model = model_of(op, inputs, fed, **attributes)
    graph = run_passes(import_model(model), (*PREPARATION, *INTEGER))
    place = dict.fromkeys(candidates(graph, Config.preset("pynq_z1")).calls, "vdla")
    data = {f"x{i}": inputs[i] for i in fed}
    with compile_network(model, "pynq_z1", place=place) as compiled:
        run = compiled.run(data)
    assert run.cycles > 0
    np.testing.assert_array_equal(run.outputs["y0"], vdla.compile(model, "host")(**data))


def test_a_network_that_onnx_runtime_quantised_as_qoperator(tmp_path):
    network = NETWORKS["digits"]
    made, files = network.build(**network.small), [tmp_path / name for name in ("float.onnx", "quantised.onnx")]
    onnx.save(made, files[0])

    class Reader(CalibrationDataReader):
        data = iter([network.inputs(made, seed=seed) for seed in range(4)])

        def get_next(self):
            return next(self.data, None)

    quantize_static(
        files[0],
        files[1],
        Reader(),
        quant_format=QuantFormat.QOperator,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
    )
    assert "com.microsoft" in {node.domain for node in onnx.load(files[1]).graph.node}
    inputs = network.inputs(made, seed=9)
    session = exact_session(str(files[1]))
    (expected,) = session.run(None, inputs)
    got = vdla.compile(files[1], "host")(**inputs)
    assert np.abs(got - expected).max() <= 0.05 * np.abs(expected).max()
    with compile_network(files[1], "pynq_z1") as compiled:
        np.testing.assert_array_equal(next(iter(compiled.run(inputs).outputs.values())), got)
