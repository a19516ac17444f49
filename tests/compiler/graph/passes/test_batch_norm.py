# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation folded into products, against the formulas in NumPy."""

import numpy as np
import pytest
from helpers.graphs import operators_of, small_graph

from vdla.compiler.graph import Node, check_graph
from vdla.compiler.graph.passes import fold_batch_norm
from vdla.runtime.network.evaluator import Evaluator

EPSILON = 0.01
NORM = Node("BatchNormalization", ("p", "s", "b", "m", "v"), ("y",), {"epsilon": EPSILON}, "norm")


def statistics(channels, rng):
    names = ("s", "b", "m")
    return {n: rng.normal(size=channels).astype(np.float32) for n in names} | {
        "v": rng.uniform(0.5, 2, channels).astype(np.float32)
    }


def normalised(x, s, b, m, v):
    shape = (-1, *(1,) * (x.ndim - 2))
    s, b, m, v = (each.reshape(shape) for each in (s, b, m, v))
    return (x - m) / np.sqrt(v + EPSILON) * s + b


def product_of(node, x, weight, bias):
    """A 1x1 convolution, grouped or transposed, or a Gemm, in NumPy."""
    groups = node.attributes.get("group", 1)
    if node.op == "Gemm":
        return x @ (weight.T if node.attributes.get("transB", 0) else weight) + bias
    weight = weight[:, :, 0, 0]
    parts = []
    for part, own in zip(np.split(x, groups, axis=1), np.split(weight, groups), strict=True):
        parts.append(np.einsum("nchw,oc->nohw" if node.op == "Conv" else "nchw,co->nohw", part, own))
    return np.concatenate(parts, axis=1) + bias.reshape(-1, 1, 1)


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize(
    ("op", "attributes", "weight", "shape"),
    [
        ("Conv", {}, (6, 4, 1, 1), (2, 4, 3, 3)),
        ("Conv", {"group": 2}, (6, 2, 1, 1), (2, 4, 3, 3)),
        ("ConvTranspose", {}, (4, 6, 1, 1), (2, 4, 3, 3)),
        ("ConvTranspose", {"group": 2}, (4, 3, 1, 1), (2, 4, 3, 3)),
        ("Gemm", {}, (4, 6), (2, 4)),
        ("Gemm", {"transB": 1}, (6, 4), (2, 4)),
    ],
)
def test_folded_into_a_product(op, attributes, weight, shape, biased):
    rng = np.random.default_rng(0)
    constants = statistics(6, rng) | {"w": rng.normal(size=weight).astype(np.float32)}
    constants |= {"c": rng.normal(size=6).astype(np.float32)} if biased else {}
    product = Node(op, ("x", "w", "c")[: 3 if biased else 2], ("p",), attributes)
    result = (*shape[:1], 6, *shape[2:])
    graph = small_graph([product, NORM], shape, shapes={"p": result, "y": result}, **constants)
    folded = check_graph(fold_batch_norm(graph))
    assert operators_of(folded) == [op]
    x = rng.normal(size=shape).astype(np.float32)
    numbers = {key: constants[key] for key in "sbmv"}
    wanted = normalised(product_of(product, x, constants["w"], constants.get("c", np.zeros(6))), **numbers)
    _, w, b = folded.nodes[0].inputs
    assert np.allclose(product_of(folded.nodes[0], x, folded.constants[w], folded.constants[b]), wanted, atol=1e-5)


def test_a_product_with_two_readers_stays():
    constants = statistics(4, np.random.default_rng(1)) | {"w": np.ones((4, 4, 1, 1), np.float32)}
    nodes = [Node("Conv", ("x", "w"), ("p",)), NORM, Node("Relu", ("p",), ("z",))]
    graph = check_graph(fold_batch_norm(small_graph(nodes, (2, 4, 3, 3), ("y", "z"), **constants)))
    assert operators_of(graph) == ["Conv", "Mul", "Add", "Relu"]


def test_alone_it_becomes_scale_and_shift():
    rng = np.random.default_rng(2)
    constants = statistics(4, rng)
    graph = small_graph([Node("Relu", ("x",), ("p",)), NORM], (2, 4, 3), **constants)
    folded = check_graph(fold_batch_norm(graph))
    assert operators_of(folded) == ["Relu", "Mul", "Add"]
    x = rng.normal(size=(2, 4, 3)).astype(np.float32)
    scale, shift = (folded.constants[node.inputs[1]] for node in folded.nodes[1:])
    assert np.allclose(x * scale + shift, normalised(x, **constants), atol=1e-5)


def test_training_stays():
    node = Node("BatchNormalization", NORM.inputs, ("y", "r", "q"), {"training_mode": 1})
    constants = statistics(3, np.random.default_rng(3))
    graph = small_graph([Node("Relu", ("x",), ("p",)), node], shapes={"r": (3,), "q": (3,)}, **constants)
    assert operators_of(fold_batch_norm(graph)) == ["Relu", "BatchNormalization"]


@pytest.mark.parametrize(("shape", "merged"), [((4, 1, 1), True), ((1,), True), ((3, 3), False), ((4, 3, 1), False)])
def test_added_constants_become_biases(shape, merged):
    constants = {"w": np.ones((4, 4, 1, 1), np.float32), "c": np.ones(shape, np.float32)}
    nodes = [Node("Conv", ("x", "w"), ("p",)), Node("Add", ("c", "p"), ("y",))]
    graph = fold_batch_norm(small_graph(nodes, (2, 4, 3, 3), **constants))
    assert operators_of(graph) == (["Conv"] if merged else ["Conv", "Add"])


AFFINE = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}
KERNELS = {
    "Conv": ({}, (6, 4, 3), (2, 4, 7), (2, 6, 5)),
    "Conv of images": ({}, (6, 4, 3, 2), (2, 4, 7, 5), (2, 6, 5, 4)),
    "Conv of groups": ({"group": 2}, (6, 2, 3, 2), (2, 4, 7, 5), (2, 6, 5, 4)),
    "ConvTranspose": ({}, (4, 6, 3, 2), (2, 4, 7, 5), (2, 6, 9, 6)),
    "ConvTranspose of groups": ({"group": 2}, (4, 3, 3, 2), (2, 4, 7, 5), (2, 6, 9, 6)),
}


def affine_graph(kernel, op, side, constant, readers=1):
    """A convolution with a bias, an operation with a constant behind it, maybe a second reader."""
    attributes, weight, shape, result = KERNELS[kernel]
    rng = np.random.default_rng(4)
    constants = {"w": rng.normal(size=weight).astype(np.float32), "b": rng.normal(size=6).astype(np.float32)}
    attributes = attributes | {"kernel_shape": weight[2:]}
    nodes = [
        Node(kernel.split()[0], ("x", "w", "b"), ("p",), attributes),
        Node(op, ("c", "p") if side else ("p", "c"), ("y",)),
        Node("Relu", ("p",), ("z",)),
    ][: 1 + readers]
    outputs = ("y", "z")[:readers]
    graph = small_graph(nodes, shape, outputs, dict.fromkeys("pyz"[: 1 + readers], result), c=constant, **constants)
    return graph, {"x": rng.normal(size=shape).astype(np.float32)}


def per_channel(rank, extent=6):
    values = np.random.default_rng(5).uniform(0.5, 2, extent).astype(np.float32)
    return values.reshape(-1, *(1,) * (rank - 2))


@pytest.mark.sampled
@pytest.mark.parametrize("scalar", [True, False])
@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("op", AFFINE)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_constant_of_each_channel_goes_into_the_convolution(kernel, op, side, scalar):
    rank = len(KERNELS[kernel][2])
    constant = np.asarray(np.float32(1.5)) if scalar else per_channel(rank)
    graph, inputs = affine_graph(kernel, op, side, constant)
    folded = check_graph(fold_batch_norm(graph))
    stays = op == "Div" and side == 1  # c / x is not affine
    assert operators_of(folded) == [kernel.split()[0], *(["Div"] if stays else [])]
    wanted, results = (Evaluator(either).run(inputs)["y"] for either in (graph, folded))
    assert np.allclose(results, wanted, rtol=1e-3 if stays else 1e-5, atol=1e-5)


@pytest.mark.parametrize("op", AFFINE)
def test_a_convolution_that_others_read_keeps_its_result(op):
    graph, _ = affine_graph("Conv of images", op, 0, per_channel(4), readers=2)
    assert operators_of(fold_batch_norm(graph)) == ["Conv", op, "Relu"]


@pytest.mark.parametrize(
    ("op", "value"), [("Div", 0.0), ("Div", 1e-45), ("Mul", np.inf), ("Mul", 3e38), ("Add", np.nan), ("Sub", np.inf)]
)
def test_constants_that_leave_the_range_of_weights_stay(op, value):
    constant = per_channel(4)
    constant[2] = value
    graph, _ = affine_graph("Conv of images", op, 0, constant)
    assert operators_of(fold_batch_norm(graph)) == ["Conv", op]


@pytest.mark.parametrize("op", AFFINE)
@pytest.mark.parametrize("shape", [(5, 4), (6, 5, 1), (2, 1, 1, 1), (2, 6, 1, 1)])
def test_constants_that_vary_along_other_axes_stay(op, shape):
    graph, _ = affine_graph("Conv of images", op, 0, np.ones(shape, np.float32))
    assert operators_of(fold_batch_norm(graph)) == ["Conv", op]


def test_statistics_without_a_root_make_nan_and_no_warning():
    infinite = np.float32([np.inf, 3e38])
    constants = {"s": np.float32([3e38, 1]), "b": infinite, "m": -infinite, "v": np.float32([-1, np.inf])}
    weight = np.full((2, 2, 1, 1), 3e38, np.float32)
    graph = small_graph(
        [Node("Conv", ("x", "w"), ("p",), {}), NORM], (1, 2, 1, 1), shapes={"p": (1, 2, 1, 1), "y": (1, 2, 1, 1)},
        w=weight, **constants,
    )  # fmt: skip
    data = {"x": np.ones((1, 2, 1, 1), np.float32)}
    folded = check_graph(fold_batch_norm(graph))
    assert "BatchNormalization" not in operators_of(folded)
    assert np.isnan(Evaluator(folded).run(data)["y"][0, 0]).all()
