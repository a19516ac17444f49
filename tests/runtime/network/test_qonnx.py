# SPDX-License-Identifier: Apache-2.0
"""Operators of QONNX against the formulas that QONNX publishes, compiled for the CPU."""

import re
from dataclasses import replace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import vdla
from vdla.compiler.graph.onnx import OnnxError, import_model
from vdla.compiler.graph.passes import run_passes
from vdla.hardware.config import Config
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluate_nodes import INTEGER, PREPARATION

DOMAIN = "qonnx.custom_op.general"
R = np.random.default_rng(0)
ROUNDINGS = {
    "ROUND": np.round,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "UP": lambda x: np.sign(x) * np.ceil(np.abs(x)),
    "DOWN": np.fix,
    "HALF_UP": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "HALF_DOWN": lambda x: np.sign(x) * np.ceil(np.abs(x) - 0.5),
}


def number(value):
    return np.array(value, np.float32)


def limits(bits, signed, narrow):
    if signed:
        return -(2 ** (bits - 1)) + narrow, 2 ** (bits - 1) - 1
    return 0, 2**bits - 1 - narrow


def naive_quant(x, scale, zero, bits, signed, narrow, mode):
    """The real arithmetic of Quant."""
    if bits == 1 and signed:
        return np.where(x / scale + zero >= 0, scale, -scale)
    low, high = limits(bits, signed, narrow)
    return (ROUNDINGS[mode](np.clip(x / scale + zero, low, high)) - zero) * scale


def model_of(nodes, x, constants):
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)]
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "g", given, [helper.make_empty_tensor_value_info("y")], held)
    domains = {node.domain for node in nodes} | {""}
    imports = [helper.make_opsetid(name, 1 if name else 13) for name in sorted(domains)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def one(op, x, inputs, domain=DOMAIN, **attributes):
    constants = {f"c{i}": value for i, value in enumerate(inputs)}
    model = model_of([helper.make_node(op, ["x", *constants], ["y"], domain=domain, **attributes)], x.shape, constants)
    return vdla.compile(model, "host")(x)


CASES = [
    (bits, signed, narrow, mode, shape, domain)
    for bits in (1, 2, 3, 4, 5, 8, 16)
    for signed in (0, 1)
    for narrow in (0, 1)
    for mode, shape, domain in (
        ("ROUND", (), DOMAIN),
        ("ROUND", (1, 4, 1, 1), "onnx.brevitas"),
        ("FLOOR", (1,), "finn.custom_op.general"),
        ("ROUND", (1, 4, 1, 5), DOMAIN),
    )
    if not (bits == 1 and narrow)
]
CASES += [(4, 1, 0, mode, (), DOMAIN) for mode in ROUNDINGS]


@pytest.mark.sampled
@pytest.mark.parametrize("case", CASES, ids=str)
def test_quant(case):
    bits, signed, narrow, mode, shape, domain = case
    x = R.uniform(-3, 3, (2, 4, 3, 5)).astype(np.float32)
    scale = R.uniform(0.05, 0.4, shape).astype(np.float32)
    zero = number(0 if bits == 1 else 1)
    got = one("Quant", x, [scale, zero, number(bits)], domain, signed=signed, narrow=narrow, rounding_mode=mode)
    wanted = naive_quant(x, scale, zero, bits, signed, narrow, mode)
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("zero", [1, 2])
@pytest.mark.parametrize("mode", ROUNDINGS)
def test_halves_are_rounded_with_the_zero_point(mode, zero):
    x = np.arange(-12, 12, dtype=np.float32) / 4
    got = one("Quant", x, [number(0.5), number(zero), number(8)], signed=1, narrow=0, rounding_mode=mode)
    np.testing.assert_array_equal(got, naive_quant(x, 0.5, zero, 8, 1, 0, mode))


def test_one_bit_is_the_sign_with_the_zero_point():
    x = np.float32([-1, -0.5, -0.4, 0, 1])
    got = one("Quant", x, [number(0.25), number(2), number(1)], signed=1, narrow=0)
    np.testing.assert_array_equal(got, np.float32([-3, -1, -1, -1, -1]) / 4)


def test_a_width_between_integers_limits_the_values_before_they_are_rounded():
    got = one("Quant", np.float32([9]), [number(1), number(0), number(2.5)], signed=0, narrow=0)
    np.testing.assert_array_equal(got, [5])


@pytest.mark.parametrize("shape", [(), (1,), (1, 4, 1, 1), (2, 4, 1, 1)])
def test_bipolar_quant(shape):
    x = R.uniform(-3, 3, (2, 4, 3, 5)).astype(np.float32)
    x[0, 0, 0, :2] = 0, -0.0
    scale = R.uniform(0.05, 0.4, shape).astype(np.float32)
    np.testing.assert_array_equal(one("BipolarQuant", x, [scale]), np.where(x >= 0, scale, -scale))


@pytest.mark.parametrize("mode", ROUNDINGS)
@pytest.mark.parametrize("zero", [0, 3])
def test_trunc(mode, zero):
    x = (R.integers(-99, 99, (3, 50)) * 0.25).astype(np.float32)
    got = one("Trunc", x, [number(0.25), number(zero), number(8), number(5)], rounding_mode=mode)
    wanted = (ROUNDINGS[mode]((x / 0.25 + zero) / 8) - zero) * 0.25
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("signed", [0, 1])
def test_trunc_with_a_scale_of_the_result(signed):
    x = (R.integers(-99, 99, (3, 50)) * 0.25).astype(np.float32)
    inputs = [number(value) for value in (0.25, 0, 8, 1, 4)]
    low, high = limits(4, signed, 0)
    got = one("Trunc", x, inputs, signed=signed, narrow=0, rounding_mode="FLOOR")
    np.testing.assert_array_equal(got, np.floor(np.clip(x / 0.25 / 4, low, high)))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("bits", "zero", "machine"), [*((bits, 0, 8) for bits in (1, 2, 3, 4, 6, 8)), (8, 3, 8), (2, 0, 4), (4, 5, 4)]
)
def test_a_network_of_few_bits_runs_on_integers(bits, zero, machine):
    weight = R.uniform(-1, 1, (16, 16, 3, 3)).astype(np.float32)
    constants = {"w": weight, "xs": number(1 / 16), "z": number(0), "b": number(bits), "eight": number(8)}
    constants |= {"yz": number(zero), "ws": R.uniform(0.1, 0.3, (16, 1, 1, 1)).astype(np.float32), "ys": number(0.25)}
    quant = {"domain": DOMAIN, "narrow": 0}
    nodes = [
        helper.make_node("Quant", ["x", "xs", "z", "eight"], ["xq"], signed=1, **quant),
        helper.make_node("Quant", ["w", "ws", "z", "b"], ["wq"], signed=1, **quant),
        helper.make_node("Conv", ["xq", "wq"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Quant", ["r", "ys", "yz", "eight"], ["y"], signed=0, **quant),
    ]
    model = model_of(nodes, (1, 16, 8, 8), constants)
    graph = run_passes(import_model(model), (*PREPARATION, *INTEGER))
    assert [node.op for node in graph.nodes if "Conv" in node.op] == ["vdla.QConv"]
    x = R.uniform(-4, 4, (1, 16, 8, 8)).astype(np.float32)
    exact = vdla.compile(model, "host")(x)
    (name,) = [node.outputs[0] for node in graph.nodes if node.op == "vdla.QConv"]
    config = replace(Config.preset("pynq_z1"), name="narrow", wgt_bits=machine)
    with compile_network(model, config, place={name: "vdla"}) as compiled:
        run = compiled.run({"x": x})
    assert run.cycles > 0
    np.testing.assert_array_equal(run.outputs["y"], exact)
    xq = naive_quant(x, 1 / 16, 0, 8, 1, 0, "ROUND")
    wq = naive_quant(weight, constants["ws"], 0, bits, 1, 0, "ROUND")
    padded = np.pad(xq, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    total = np.maximum(np.einsum("nchwyx,ocyx->nohw", windows, wq), 0)
    difference = np.abs(exact - naive_quant(total, 0.25, zero, 8, 0, 0, "ROUND"))
    assert difference.max() <= 0.25 and (difference > 0).mean() < 0.01


@pytest.mark.parametrize(
    ("inputs", "attributes", "message"),
    [
        (
            [number(1), number(0), number(4)],
            {"rounding_mode": "NEAR"},
            "have a rounding_mode of ROUND, HALF_EVEN, CEIL, FLOOR, UP, DOWN, HALF_UP, HALF_DOWN, got NEAR",
        ),
        ([number(1), number(0), number([4, 4])], {}, "have one constant bit width from 1 to 32, got [4.0, 4.0]"),
        ([number(1), number(0)], {}, "have the input bit_width, got none"),
    ],
)
def test_refusals(inputs, attributes, message):
    with pytest.raises(OnnxError, match=f"^{re.escape(f'Quant y: the node must {message}')}$"):
        one("Quant", np.ones((2, 2), np.float32), inputs, **attributes)


def test_extended_quantisation_of_quark():
    x, zero = R.uniform(-3, 3, (4, 9)).astype(np.float32), np.array(7, np.int16)
    domain = "com.amd.quark"
    nodes = [
        helper.make_node("ExtendedQuantizeLinear", ["x", "s", "z"], ["q"], domain=domain),
        helper.make_node("ExtendedDequantizeLinear", ["q", "s", "z"], ["y"], domain=domain),
    ]
    got = vdla.compile(model_of(nodes, x.shape, {"s": number(0.01), "z": zero}), "host")(x)
    np.testing.assert_allclose(got, np.rint(x / np.float32(0.01)) * np.float32(0.01), rtol=1e-5)
