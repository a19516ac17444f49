# SPDX-License-Identifier: Apache-2.0
"""Certificates of graph passes: those of a network, folded factors, and wrong graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.integer_layers import IntegerLayers
from numpy.random import default_rng

from vdla.benchmarks.certify_passes import INTEGER_KINDS, PASS_KINDS, faults_of
from vdla.compiler.certificates.pass_certificate import PassCertifier, PassVerdict, certify_pass, run_before
from vdla.compiler.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.accelerator import ACCELERATED, REGION
from vdla.compiler.graph.passes import fold_batch_norm, fold_constants
from vdla.compiler.graph.passes.fusion import fuse
from vdla.networks.registry import NETWORKS
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluate_nodes import evaluate_node

Evaluate = Callable[[Node, Any], Any]


def graph_of(
    nodes: list[Node], constants: Mapping[str, Array], types: Mapping[str, tuple[int, ...]], output: str
) -> Graph:
    """A graph of floats with an input x."""
    kinds = {name: TensorType("float32", shape) for name, shape in types.items()}
    kinds |= {name: TensorType(value.dtype.name, value.shape) for name, value in constants.items()}
    return Graph("small", ("x",), (output,), tuple(nodes), dict(constants), kinds)


def normalised(op: str = "Conv", channels: int = 4) -> Graph:
    """A product with batch normalisation, a factor and a shift after it."""
    rng = default_rng(0)
    shape = {"Conv": (channels, 3, 3, 3), "ConvTranspose": (3, channels, 3, 3), "Gemm": (3, channels)}[op]
    plane = () if op == "Gemm" else (5, 5)
    grown = {"Conv": (3, 3), "ConvTranspose": (7, 7), "Gemm": ()}[op]
    constants = {"w": rng.standard_normal(shape).astype(np.float32)}
    constants |= {n: rng.uniform(0.5, 2, channels).astype(np.float32) for n in ("b", "scale", "bias", "mean", "var")}
    made = (2, channels, *grown)
    nodes = [
        Node(op, ("x", "w", "b"), ("y",), {}, "product"),
        Node("BatchNormalization", ("y", "scale", "bias", "mean", "var"), ("z",), {}, "norm"),
        Node("Relu", ("z",), ("out",), {}, "relu"),
    ]
    return graph_of(nodes, constants, {"x": (2, 3, *plane), "y": made, "z": made, "out": made}, "out")


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose", "Gemm"])
def test_factors_that_go_into_weights_are_certified(op: str) -> None:
    before = normalised(op)
    after = fold_batch_norm(before)
    assert [node.op for node in after.nodes] == [op, "Relu"]
    certificate = certify_pass("fold_batch_norm", before, after)
    assert certificate.verdict is PassVerdict.CERTIFIED, certificate
    assert 0 < certificate.close < 1e-6
    assert str(certificate).startswith(
        f"pass fold_batch_norm: certified, {certificate.results} results, numbers within"
    )


def test_factors_of_other_channels_are_a_difference() -> None:
    before = normalised()
    after = fold_batch_norm(before)
    for name in after.nodes[0].inputs[1:]:
        for change in (lambda value: np.roll(value, 1, 0), lambda value: value * np.float32(1.001)):
            wrong = after.replace(constants={**after.constants, name: change(after.constants[name])})
            assert certify_pass("wrong", before, wrong).verdict is PassVerdict.DIFFERS


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", ["mobilenet_v2", "mobilenet_v3"])
def test_factors_are_certified_where_coefficients_of_many_layers_grow(name: str) -> None:
    network, pairs = NETWORKS[name], []

    def keep(changed: str, before: Graph, after: Graph) -> None:
        if changed == "fold_batch_norm":
            pairs.append((before, after))

    compile_network(network.build(**network.small, seed=0), observe=keep)
    ((before, after),) = pairs
    assert certify_pass("fold_batch_norm", before, after).verdict is PassVerdict.CERTIFIED


def test_constants_that_are_folded_are_numbers() -> None:
    constants = {"a": np.float32([[0.1, 0.2], [0.3, 0.4]]), "c": np.float32([[1.5, 2.5], [3.5, 4.5]])}
    square = dict.fromkeys(("x", "s", "e", "out"), (2, 2))
    nodes = [
        Node("Add", ("a", "c"), ("s",)),
        Node("Exp", ("s",), ("e",)),
        Node("Mul", ("x", "e"), ("out",)),
    ]
    before = graph_of(nodes, constants, square, "out")
    after = fold_constants(before, lambda node, given: evaluate_node(node, given, prefer="numpy"))
    assert len(after.nodes) == 1
    assert certify_pass("fold_constants", before, after).holds
    wrong = after.replace(constants={**after.constants, "e": after.constants["e"] * np.float32(1.0001)})
    assert str(certify_pass("fold_constants", before, wrong)) == (
        "pass fold_constants: not equal by any lemma; the first result is out[0, 0]; 1 Add, 1 Exp became none"
    )


def test_a_fused_node_is_its_nodes() -> None:
    before = normalised()
    after = fuse(before, lambda node: True)
    assert len(after.nodes) < len(before.nodes)
    certificate = certify_pass("fuse", before, after)
    assert certificate.holds
    assert certificate.opaque == ()


def test_a_node_without_an_expression_equals_itself_alone() -> None:
    """On the same input, with the same attributes."""
    shape = {"x": (3, 3), "y": (3, 3), "out": (3, 3)}
    before = graph_of([Node("CumSum", ("x", "axis"), ("out",))], {"axis": np.int64([0])}, shape, "out")
    other = graph_of([Node("CumSum", ("x", "axis"), ("out",))], {"axis": np.int64([1])}, shape, "out")
    same = before.replace(nodes=(replace(before.nodes[0], name="renamed"),))
    assert certify_pass("same", before, same).holds
    assert not certify_pass("other", before, other).holds


def test_a_graph_without_extents_is_not_certified() -> None:
    before = normalised()
    open_graph = before.replace(types={**before.types, "x": TensorType("float32", ("n", 3, 5, 5))})
    certificate = certify_pass("any", open_graph, fold_batch_norm(before))
    assert certificate.verdict is PassVerdict.UNKNOWN
    assert certificate.reason == "input x must have known extents and a type of numbers, got float32[n, 3, 5, 5]"


def test_the_passes_of_a_network_are_certified() -> None:
    network = NETWORKS["digits"]
    certifier = PassCertifier()
    compile_network(network.build(**network.small, seed=0), observe=certifier)
    changed = {one.name: one for one in certifier.certificates if one.verdict is not PassVerdict.SAME}
    assert set(changed) >= {"fold_batch_norm", "layouts", "fuse"}
    assert all(one.holds for one in certifier.certificates)
    certifier.raise_if_bad()


@pytest.mark.parametrize("kind", sorted({*PASS_KINDS} - {*INTEGER_KINDS, "operands that change places"}))
def test_planted_faults_are_refused(kind: str) -> None:
    before = normalised()
    pads = {"pads": (1, 1, 1, 1)}
    wide = dict.fromkeys(("y", "z", "out"), TensorType("float32", (2, 4, 5, 5)))
    product = replace(before.nodes[0], attributes=pads)
    residual = Node("Add", ("relu", "z"), ("out",), {}, "sum")
    relu = replace(before.nodes[2], outputs=("relu",))
    last = Node("Relu", ("out",), ("end",))
    before = before.replace(
        nodes=(product, before.nodes[1], relu, residual, last),
        types={**before.types, **wide, "relu": wide["y"], "end": wide["y"]},
        outputs=("end",),
    )
    first = run_before(before)
    after = fold_batch_norm(before)
    assert certify_pass("right", before, after, first=first).holds
    faults = faults_of(after, kind, default_rng(0), 3)
    assert faults
    assert not any(certify_pass("wrong", before, fault, first=first).holds for fault in faults)


# --- regions of the machine -----------------------------------------------------------------------


def partitioned() -> tuple[Graph, Graph]:
    """A network of integers, and the same with regions for the machine."""
    made = IntegerLayers(3, (1, 6, 5, 6))
    for kind in ("conv", "depthwise", "add", "conv"):
        made.layer(kind)
    graph, pairs = made.graph(), []

    def keep(name: str, before: Graph, after: Graph) -> None:
        if name == "partition":
            pairs.append((before, after))

    places = {node.outputs[0]: "vdla" for node in graph.nodes}
    compile_network(graph, "tiny", place=places, certify=False, observe=keep)
    ((before, after),) = pairs
    return before, after


def test_a_partition_is_certified_by_what_its_regions_hand_on() -> None:
    before, after = partitioned()
    assert any(node.op == ACCELERATED for node in after.nodes)
    certificate = certify_pass("partition", before, after)
    assert certificate.verdict is PassVerdict.CERTIFIED, certificate
    assert ACCELERATED not in certificate.opaque


def test_nodes_of_regions_may_be_copies() -> None:
    """As they are where a pass before made the nodes again, which have the same attributes then."""
    before, after = partitioned()
    copied = before.replace(nodes=tuple(replace(node, attributes=dict(node.attributes)) for node in before.nodes))
    certificate = certify_pass("partition", copied, after)
    assert certificate.verdict is PassVerdict.CERTIFIED, certificate


def changed_regions(after: Graph, change: Callable[[Any], Any]) -> Graph:
    """A partitioned graph with other regions."""
    nodes = [
        replace(node, attributes={**node.attributes, REGION: change(node.attributes[REGION])})
        if node.op == ACCELERATED
        else node
        for node in after.nodes
    ]
    return after.replace(nodes=tuple(nodes))


def with_other_bound(region: Any) -> Any:
    node, call, sources = region.calls[0]
    other = replace(node, attributes={**node.attributes, "high": int(node.attributes["high"]) - 1})
    return replace(region, calls=((other, call, sources), *region.calls[1:]))


def test_a_region_of_other_nodes_is_a_difference() -> None:
    before, after = partitioned()
    assert not certify_pass("wrong", before, changed_regions(after, with_other_bound)).holds


def test_values_that_are_packed_or_unpacked_otherwise_are_a_difference() -> None:
    """Two dimensions of equal extents change places; the fourth constant is the same everywhere."""
    before, after = partitioned()
    wrong = []
    for node in after.nodes:
        if node.op == "Transpose" and not node.outputs[0].startswith("c4"):
            perm, extents = node.attributes["perm"], after.tensor(node.outputs[0]).extents
            pairs = [(a, b) for a in range(len(perm)) for b in range(a) if extents[a] == extents[b] > 1]
            for a, b in pairs:
                swapped = tuple(perm[{a: b, b: a}.get(d, d)] for d in range(len(perm)))
                other = replace(node, attributes={**node.attributes, "perm": swapped})
                wrong.append(after.replace(nodes=tuple(other if one is node else one for one in after.nodes)))
    assert len(wrong) > 3
    assert not any(certify_pass("wrong", before, one).holds for one in wrong)
