# SPDX-License-Identifier: Apache-2.0
"""Integer operators in blocks: which are, in what type, and that every value stays what it was."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.graphs import operators_in_layouts
from helpers.quantiser import to_qdq
from helpers.random_network import RandomNetwork

from vdla.compiler.graph import Graph, Node, TensorType, check_graph
from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.passes import choose_layouts, run_passes
from vdla.compiler.target import Target, host
from vdla.hardware.numerics import scales_from_floats
from vdla.runtime.network.evaluate_nodes import INTEGER, PREPARATION
from vdla.runtime.network.evaluator import Evaluator
from vdla.runtime.numpy_operators.blocked import from_blocked

AVX512, NEON = Target.named("x86-64-avx512"), Target.named("neoverse-n1")
LAYERS = ("vdla.QConv in blocks", "vdla.QAdd in blocks", "vdla.QMaxPool in blocks", "vdla.QAveragePool in blocks")


def factors(real: float, count: int = 1) -> dict[str, np.ndarray]:
    multiplier, shift = scales_from_floats(np.full(count, real, np.float32))
    return {"multiplier": multiplier, "shift": shift}


RESULT = {"y_zero_point": -3, "low": -100, "high": 127}
TWO = {"a_zero_point": 7, "b_zero_point": -4, "factors": (3, 2), **factors(0.2), **RESULT}
WINDOW = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "x_zero_point": 5, **RESULT}


class Building:
    """A graph from an int8 image x, node by node; `y` is the last result."""

    def __init__(self, *shape: int) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[Node] = []
        self.constants: dict[str, np.ndarray] = {}
        self.shapes = {"x": shape}

    def constant(self, name: str, value: np.ndarray) -> str:
        self.constants[name] = value
        return name

    def node(self, op: str, inputs: tuple[str, ...], y: str, shape: tuple[int, ...], **attributes: object) -> None:
        self.nodes.append(Node(op, inputs, (y,), attributes))
        self.shapes[y] = shape

    def conv(self, x: str, y: str, outputs: int, group: int = 1, bias: int = 9999) -> None:
        batch, channels, *plane = self.shapes[x]
        weight = self.random.integers(-128, 128, (outputs, channels // group, 3, 3), np.int8)
        constants = (
            self.constant(f"{y}_w", weight),
            self.constant(f"{y}_b", self.random.integers(-bias, bias, outputs, np.int32)),
        )
        scale = factors(0.02 / np.sqrt(channels // group), outputs)
        self.node("vdla.QConv", (x, *constants), y, (batch, outputs, *plane), **WINDOW, **scale, group=group)

    def graph(self, *outputs: str) -> Graph:
        types = {name: TensorType("int8", shape) for name, shape in self.shapes.items()}
        types |= {name: TensorType(value.dtype.name, value.shape) for name, value in self.constants.items()}
        return check_graph(Graph("g", ("x",), outputs or ("y",), tuple(self.nodes), self.constants, types))


def laid_out(graph: Graph, target: Target = AVX512) -> Graph:
    """The graph in blocks, after a check of all values."""
    made = check_graph(choose_layouts(graph, target))
    shape = graph.tensor("x").extents
    check_values(graph, made, {"x": np.random.default_rng(1).integers(-128, 128, shape, np.int8)}, "numpy")
    return made


def check_values(graph: Graph, made: Graph, inputs: dict[str, np.ndarray], prefer: str) -> None:
    """Every value that both graphs have is the same, padding channels apart."""
    wanted, found = ({}, {})
    Evaluator(graph, prefer="numpy").run(inputs, observe=wanted.__setitem__)
    Evaluator(made, prefer=prefer).run(inputs, observe=found.__setitem__)
    assert wanted.keys() <= found.keys()
    for name, expected in wanted.items():
        got = found[name]
        plain = from_blocked(got, expected.shape[1]) if got.ndim > expected.ndim else got
        offset = 128 if got.dtype == np.uint8 and expected.dtype == np.int8 else 0
        np.testing.assert_array_equal(plain.astype(expected.dtype if not offset else int) - offset, expected, name)


def residual() -> Building:
    """A stem, two convolutions with a residual connection, pools."""
    made = Building(1, 3, 12, 12)
    made.conv("x", "a", 24)
    made.conv("a", "b", 24)
    made.node("vdla.QAdd", ("b", "a"), "c", made.shapes["a"], **TWO)
    kernel = {"kernel_shape": (3, 3), **WINDOW, **factors(1)}
    made.node("vdla.QMaxPool", ("c",), "d", made.shapes["c"], **kernel)
    whole = {**WINDOW, "kernel_shape": (12, 12), "pads": (0,) * 4, "count_include_pad": 0}
    made.node("vdla.QAveragePool", ("d",), "y", (1, 24, 1, 1), **whole, **factors(0.9))
    return made


def test_a_network_stays_in_blocks_of_what_dot_products_read() -> None:
    graph = residual().graph()
    for target, dtype, lanes in ((AVX512, "uint8", 16), (NEON, "int8", 4)):
        made = laid_out(graph, target)
        assert operators_in_layouts(made) == [LAYERS[0], *LAYERS]
        for name in "abcd":
            assert made.tensor(name) == TensorType(dtype, (1, 24, 12, 12), lanes)
        assert made.tensor("y") == TensorType("int8", (1, 24, 1, 1))


def test_kernels_of_a_network_in_blocks() -> None:
    graph = residual().graph()
    x = np.random.default_rng(2).integers(-128, 128, (1, 3, 12, 12), np.int8)
    check_values(graph, choose_layouts(graph, host()), {"x": x}, "kernel")


def test_repacks_change_the_type() -> None:
    made = Building(1, 32, 12, 12)
    for x, y in ("xa", "ab", "by"):
        made.conv(x, y, 32, group=32)
    graph = made.graph()
    repacks = ["vdla.ToUint8", "to blocks", *["vdla.QConv in blocks"] * 3, "vdla.ToInt8 in blocks", "from blocks"]
    found = laid_out(graph)
    assert operators_in_layouts(found) == repacks
    assert [found.tensor(name).dtype for name in ("x_blocked", "y_blocked", "y")] == ["uint8", "uint8", "int8"]
    assert operators_in_layouts(laid_out(graph, NEON)) == ["to blocks", *["vdla.QConv in blocks"] * 3, "from blocks"]
    x = np.random.default_rng(2).integers(-128, 128, (1, 32, 12, 12), np.int8)
    check_values(graph, choose_layouts(graph, host()), {"x": x}, "kernel")


def test_elementwise_operators_stay_between() -> None:
    made = Building(2, 3, 6, 6)
    made.conv("x", "a", 20)
    image, row = (made.random.integers(-128, 128, shape, np.int8) for shape in ((20, 6, 6), (6, 1)))
    one = {"x_zero_point": 2, **factors(0.8), **RESULT}
    product = {"a_zero_point": 7, "b_zero_point": -4, **factors(0.01), **RESULT}
    made.node("vdla.QAdd", (made.constant("image", image), "a"), "b", made.shapes["a"], **TWO)
    made.node("vdla.QMul", ("b", made.constant("row", row)), "c", made.shapes["a"], **product)
    made.node("vdla.QRescale", ("c",), "d", made.shapes["a"], **one)
    made.node("vdla.QLeakyRelu", ("d",), "e", made.shapes["a"], factors=(10, 1), **one)
    table = np.roll(np.arange(-128, 128), 50).astype(np.int8)
    made.node("vdla.QTable", ("e",), "f", made.shapes["a"], table=table)
    window = {**WINDOW, "kernel_shape": (2, 2), "pads": (0, 1, 1, 0), "count_include_pad": 0}
    made.node("vdla.QAveragePool", ("f",), "g", made.shapes["a"], **window, **factors(0.9))
    made.conv("g", "h", 20)
    whole = {**WINDOW, "kernel_shape": (6, 6), "pads": (0,) * 4, "count_include_pad": 0}
    made.node("vdla.QAveragePool", ("h",), "y", (2, 20, 1, 1), **whole, **factors(0.9))
    graph = made.graph()
    assert operators_in_layouts(laid_out(graph)) == [
        f"vdla.{op} in blocks"
        for op in (
            "QConv", "QAdd", "QMul", "QRescale", "QLeakyRelu", "QTable", "QAveragePool", "QConv", "QAveragePool"
        )
    ]  # fmt: skip
    x = np.random.default_rng(2).integers(-128, 128, (2, 3, 6, 6), np.int8)
    check_values(graph, choose_layouts(graph, host()), {"x": x}, "kernel")


def test_transposed_convolutions_read_and_write_blocks() -> None:
    made = Building(1, 20, 5, 5)
    weight = made.random.integers(-128, 128, (20, 20, 4, 4), np.int8)
    operands = made.constant("w", weight), made.constant("v", made.random.integers(-999, 999, 20, np.int32))
    options = {**WINDOW, "strides": (2, 2), "output_padding": (0, 0), "group": 1, **factors(0.003, 20)}
    made.node("vdla.QConvTranspose", ("x", *operands), "a", (1, 20, 10, 10), **options)
    made.node("vdla.QConvTranspose", ("a", *operands), "b", (1, 20, 20, 20), **options)
    whole = {**WINDOW, "kernel_shape": (20, 20), "pads": (0,) * 4, "count_include_pad": 0}
    made.node("vdla.QAveragePool", ("b",), "y", (1, 20, 1, 1), **whole, **factors(0.9))
    graph = made.graph()
    transposed = "vdla.QConvTranspose in blocks"
    assert operators_in_layouts(laid_out(graph)) == [transposed, transposed, "vdla.QAveragePool in blocks"]
    x = np.random.default_rng(2).integers(-128, 128, (1, 20, 5, 5), np.int8)
    check_values(graph, choose_layouts(graph, host()), {"x": x}, "kernel")


@pytest.mark.parametrize(("group", "bias"), [(2, 9999), (1, 1 << 30)], ids=["groups", "great sums"])
def test_other_convolutions_stay_plain(group: int, bias: int) -> None:
    made = Building(1, 32, 6, 6)
    made.conv("x", "a", 32, group, bias)
    made.conv("a", "y", 32, group, bias)
    assert operators_in_layouts(laid_out(made.graph())) == ["vdla.QConv", "vdla.QConv"]


@pytest.mark.parametrize("seed", range(24))
def test_random_networks_keep_every_value(seed: int) -> None:
    network = RandomNetwork(seed, length=4 + seed % 9)
    model = to_qdq(network.build(), [network.inputs(at) for at in (0, 1)], uint8=seed % 2 == 1)
    graph = run_passes(import_model(model), (*PREPARATION, *INTEGER))
    for target in (AVX512, NEON):
        check_values(graph, check_graph(choose_layouts(graph, target)), network.inputs(2), "numpy")
