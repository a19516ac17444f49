# SPDX-License-Identifier: Apache-2.0
"""Which layers are planned, the QDQ graph made of the plan, and what equalisation keeps."""

from __future__ import annotations

import re

import numpy as np
import pytest
from helpers.qdq_graphs import QdqBuilder, run

from vdla.compiler.graph import Graph
from vdla.compiler.graph.passes import fuse_qdq
from vdla.compiler.graph.quantise import (
    QuantiseError,
    choose_parameters,
    equalise,
    insert_qdq,
    plan_quantisation,
    value_statistics,
)

RANDOM = np.random.default_rng(7)
IMAGE = (2, 3, 8, 8)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def block(depthwise: bool = False) -> QdqBuilder:
    """x, conv1, relu, conv2, add with a third convolution, relu, dense layers."""
    b = QdqBuilder()
    x = b.input("x", IMAGE, "float32")
    weight, bias = b.constant(normal(4, 3, 3, 3), "w1"), b.constant(normal(4), "b1")
    first = b.add("Conv", x, weight, bias, shape=(2, 4, 8, 8), pads=(1, 1, 1, 1), result="conv1")
    relu = b.add("Relu", first, result="relu1")
    more = {"group": 4} if depthwise else {}
    kernel = b.constant(normal(4, 1 if depthwise else 4, 3, 3), "w2")
    second = b.add("Conv", relu, kernel, shape=(2, 4, 8, 8), pads=(1, 1, 1, 1), result="conv2", **more)
    third = b.add("Conv", x, b.constant(normal(4, 3, 1, 1), "w3"), shape=(2, 4, 8, 8), result="conv3")
    total = b.add("Relu", b.add("Add", second, third, result="add"), result="relu2")
    flat = b.add("Flatten", total, shape=(2, 256), axis=1, result="flat")
    product = b.add("MatMul", flat, b.constant(normal(256, 5), "w4"), shape=(2, 5), result="product")
    b.add("Add", product, b.constant(normal(5), "b4"), result="logits")
    return b


def quantised(graph: Graph, data: list[np.ndarray], **options: object) -> Graph:
    plan = plan_quantisation(graph, options.pop("keep_float", ()))  # type: ignore[arg-type]
    statistics = value_statistics(graph, plan)
    for x in data:
        for name, value in every(graph, x).items():
            if name in statistics and name not in graph.constants:
                statistics[name].update(value)
    return insert_qdq(graph, plan, choose_parameters(graph, plan, statistics, **options))  # type: ignore[arg-type]


def every(graph: Graph, x: np.ndarray) -> dict[str, np.ndarray]:
    from helpers.qdq_graphs import every_value

    return every_value(graph, {"x": x})


def ratio(exact: np.ndarray, found: np.ndarray) -> float:
    return 10 * float(np.log10((exact.astype(float) ** 2).sum() / ((exact - found.astype(float)) ** 2).sum()))


def test_plan_of_a_block():
    plan = plan_quantisation(block().graph("logits"))
    assert [(layer.name, layer.result) for layer in plan.layers] == [
        ("conv1", "relu1"), ("conv2", "conv2"), ("conv3", "conv3"), ("add", "relu2"), ("product", "logits"),
    ]  # fmt: skip
    assert plan.layers[-1].bias == "b4"
    assert plan.values == {name: name for name in ("x", "relu1", "conv2", "conv3", "relu2", "logits")} | {
        "flat": "relu2"
    }


def test_qdq_graph_becomes_integer_operators_throughout():
    data = [normal(*IMAGE) for _ in range(3)]
    graph = block().graph("logits")
    integer = fuse_qdq(quantised(graph, data))
    assert [node.op for node in integer.nodes] == [
        "QuantizeLinear", "vdla.QConv", "vdla.QConv", "vdla.QConv", "vdla.QAdd", "Flatten", "vdla.QDense",
        "DequantizeLinear",
    ]  # fmt: skip
    x = normal(*IMAGE)
    assert ratio(run(graph, {"x": x})["logits"], run(integer, {"x": x})["logits"]) > 20


def test_layers_kept_float():
    data = [normal(*IMAGE)]
    graph = quantised(block().graph("logits"), data, keep_float=("conv2", "product"))
    ops = [node.op for node in fuse_qdq(graph).nodes]
    assert ops.count("vdla.QConv") == 2 and ops.count("Conv") == 1 and ops.count("MatMul") == 1


def test_unknown_name_of_a_layer():
    message = "quantise: keep_float must name nodes of qdq, got 'conv' (did you mean conv3?)"
    with pytest.raises(QuantiseError, match=f"^{re.escape(message)}$"):
        plan_quantisation(block().graph("logits"), ("conv",))


def test_functions_become_tables_between_quantised_layers():
    b = QdqBuilder()
    x = b.add("MatMul", b.input("x", (4, 8), "float32"), b.constant(normal(8, 8), "w"), shape=(4, 8), result="p")
    gelu = b.add("Mul", x, b.add("Sigmoid", x, result="s"), result="g")
    b.add("MatMul", gelu, b.constant(normal(8, 3), "v"), shape=(4, 3), result="y")
    graph = b.graph("y")
    plan = plan_quantisation(graph)
    assert [layer.name for layer in plan.layers] == ["p", "y"] and "s" not in plan.values and "g" in plan.values
    functions = {"Sigmoid": lambda v: 1 / (1 + np.exp(-v)), "Mul": np.multiply}
    integer = fuse_qdq(quantised(graph, [normal(4, 8)]), lambda node, inputs: [functions[node.op](*inputs)])
    assert [node.op for node in integer.nodes[1:4]] == ["vdla.QDense", "vdla.QTable", "vdla.QDense"]


def test_biases_take_back_the_mean_error():
    """Data with a mean: rounded weights shift every sum, corrected biases shift it back."""
    graph = block().graph("logits")
    data = [normal(*IMAGE) + 3 for _ in range(4)]
    x = np.concatenate(data[:1])
    exact = every(graph, x)["conv3"].mean(axis=(0, 2, 3))
    errors = [
        np.abs(every(quantised(graph, data, correct_biases=correct), x)["conv3"].mean(axis=(0, 2, 3)) - exact).max()
        for correct in (False, True)
    ]
    assert errors[1] < 0.5 * errors[0]


@pytest.mark.parametrize("depthwise", [False, True])
def test_equalisation_keeps_the_results_and_balances_channels(depthwise):
    graph = block(depthwise).graph("logits")
    constants = dict(graph.constants)
    constants["w1"] = constants["w1"] * np.array([100, 1, 1, 0.01], np.float32).reshape(4, 1, 1, 1)
    graph = graph.replace(constants=constants)
    even = equalise(graph)
    x = normal(*IMAGE)
    np.testing.assert_allclose(run(even, {"x": x})["logits"], run(graph, {"x": x})["logits"], rtol=1e-3, atol=1e-2)
    ranges = np.abs(even.constants["w1"]).reshape(4, -1).max(axis=1)
    assert ranges.max() / ranges.min() < 400
    found = [
        ratio(run(graph, {"x": x})["logits"], run(quantised(each, [x], per_channel=False), {"x": x})["logits"])
        for each in (graph, even)
    ]
    assert found[1] > found[0]


def concatenated(mean: str, product: bool) -> Graph:
    """Two convolutions of x, their concatenation, its mean over space, possibly a dense layer."""
    b = QdqBuilder()
    x = b.input("x", IMAGE, "float32")
    parts = [
        b.add("Conv", x, b.constant(normal(n, 3, 1, 1), f"w{n}"), shape=(2, n, 8, 8), result=f"part{n}") for n in (2, 4)
    ]
    joined = b.add("Concat", *parts, shape=(2, 6, 8, 8), axis=1, result="joined")
    if mean == "ReduceMean":
        axes = b.constant(np.array([2, 3]))
        pooled = b.add("ReduceMean", joined, axes, shape=(2, 6), keepdims=0, result="mean")
    else:
        pooled = b.add("GlobalAveragePool", joined, shape=(2, 6, 1, 1), result="mean")
        pooled = b.add("Flatten", pooled, shape=(2, 6), axis=1, result="flat")
    if product:
        b.add("MatMul", pooled, b.constant(normal(6, 5), "w"), shape=(2, 5), result="logits")
    return b.graph("logits" if product else pooled)


MEANS = ("ReduceMean", "GlobalAveragePool")


@pytest.mark.parametrize("mean", MEANS)
def test_concatenated_values_share_parameters(mean):
    graph = concatenated(mean, product=True)
    values = plan_quantisation(graph).values
    assert {name: values[name] for name in ("x", "part2", "part4", "joined", "mean")} == {
        "x": "x", "part2": "joined", "part4": "joined", "joined": "joined", "mean": "mean",
    }  # fmt: skip
    integer = fuse_qdq(quantised(graph, [normal(*IMAGE)]))
    assert [node.op for node in integer.nodes][:5] == [
        "QuantizeLinear", "vdla.QConv", "vdla.QConv", "Concat", "vdla.QAveragePool",
    ]  # fmt: skip


@pytest.mark.parametrize("mean", MEANS)
def test_a_mean_that_no_product_reads_stays_float(mean):
    graph = concatenated(mean, product=False)
    assert dict(plan_quantisation(graph).values) == {
        "x": "x", "part2": "joined", "part4": "joined", "joined": "joined",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("shape", "layers"), [((), 1), ((1,), 1), ((5,), 1), ((1, 5), 1), ((2, 1), 0), ((2, 5), 0)], ids=str
)
def test_a_bias_has_one_number_for_each_output(shape, layers):
    """What Gemm adds may be a matrix: that stays float."""
    b = QdqBuilder()
    x, w, c = b.input("x", (2, 3), "float32"), b.constant(normal(3, 5)), b.constant(np.ones(shape, np.float32))
    b.add("Gemm", x, w, c, shape=(2, 5), result="y")
    graph = b.graph("y")
    assert len(plan_quantisation(graph).layers) == layers
    ops = [node.op for node in fuse_qdq(quantised(graph, [normal(2, 3)])).nodes]
    assert ops == (["QuantizeLinear", "vdla.QDense", "DequantizeLinear"] if layers else ["Gemm"])
