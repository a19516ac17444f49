# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation folded into products, against the formulas in NumPy."""

import numpy as np
import pytest
from helpers.graphs import operators_of, small_graph

from vdla.compiler.graph import Node, check_graph
from vdla.compiler.graph.passes import fold_batch_norm

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
