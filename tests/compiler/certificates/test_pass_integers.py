# SPDX-License-Identifier: Apache-2.0
"""Certificates of passes over integer operators: blocks of channels, tables, factors of 1."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.integer_layers import IntegerLayers
from numpy.random import default_rng

from vdla.compiler.certificates.pass_certificate import certify_pass
from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.passes import choose_layouts, for_machine
from vdla.compiler.target import Target, host
from vdla.runtime.network.evaluate_nodes import evaluate_node

_ONE: dict[str, Any] = {"multiplier": np.array([1 << 23]), "shift": np.array([23])}
_SAME = {"x_zero_point": 0, "y_zero_point": 0, "low": -128, "high": 127}
_IMAGE = (1, 6, 4, 5)


def of_functions(*functions: Node, shape: tuple[int, ...] = _IMAGE) -> Graph:
    """An image x through functions in a row; the last result is the output."""
    types = {name: TensorType("int8", shape) for node in functions for name in (*node.inputs, *node.outputs)}
    return Graph("small", ("x",), functions[-1].outputs, functions, {}, types)


def table(of: str, result: str, values: np.ndarray) -> Node:
    return Node("vdla.QTable", (of,), (result,), {"table": values.astype(np.int8)})


def rescale(of: str, result: str, factor: float = 0.5, **options: int) -> Node:
    scale = {"multiplier": np.array([round(factor * (1 << 23))]), "shift": np.array([23])}
    return Node("vdla.QRescale", (of,), (result,), {**_SAME, **scale, **options})


def with_attribute(graph: Graph, op: str, name: str, value: object) -> Graph:
    """A graph with another attribute of all nodes of an operator."""
    nodes = [
        replace(node, attributes={**node.attributes, name: value}) if node.op == op else node for node in graph.nodes
    ]
    assert nodes != list(graph.nodes)
    return graph.replace(nodes=tuple(nodes))


def test_functions_of_8_bits_are_one_table() -> None:
    values = default_rng(0).integers(-128, 128, 256)
    before = of_functions(
        table("x", "a", values), rescale("a", "b", 0.75, y_zero_point=3), table("b", "y", values[::-1])
    )
    after = for_machine(before, evaluate_node, {})
    assert [node.op for node in after.nodes] == ["vdla.QTable"]
    assert certify_pass("for_machine", before, after).holds
    for place in (0, 100, 255):
        wrong = after.nodes[0].attributes["table"].copy()
        wrong[place] += 1 if wrong[place] < 127 else -1
        assert not certify_pass("wrong", before, with_attribute(after, "vdla.QTable", "table", wrong)).holds


def test_entries_of_a_table_that_no_element_reads_do_not_count() -> None:
    values = default_rng(1).integers(-128, 128, 256)
    clipped = rescale("x", "a", 1.0, low=0, high=9)
    other = values.copy()
    other[:128], other[138:] = 5, 6
    graphs = [of_functions(clipped, table("a", "y", one)) for one in (values, other)]
    assert certify_pass("other entries", *graphs).holds
    other[137] += 1
    assert not certify_pass("wrong", graphs[0], of_functions(clipped, table("a", "y", other))).holds


@pytest.mark.parametrize("op", ["vdla.QRescale", "vdla.QMaxPool"])
def test_a_requantisation_by_1_changes_nothing(op: str) -> None:
    window = {"kernel_shape": (1, 1), "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
    options = {**_SAME, **_ONE, **(window if op == "vdla.QMaxPool" else {})}
    first = rescale("x", "a")
    before = of_functions(first)
    after = of_functions(first, Node(op, ("a",), ("y",), options))
    assert certify_pass("copied", before, after).holds
    for name, value in (("high", 60), ("y_zero_point", 1), ("shift", np.array([24]))):
        assert not certify_pass("wrong", before, with_attribute(after, op, name, value)).holds


def test_pixels_that_a_product_repeats_are_certified() -> None:
    resize = Node("Resize", ("x", "", "scales"), ("y",), {"mode": "nearest", "nearest_mode": "floor",
                  "coordinate_transformation_mode": "asymmetric"})  # fmt: skip
    wide = TensorType("int8", (1, 6, 8, 15))
    scales = np.float32([1, 1, 2, 3])
    types = {"x": TensorType("int8", _IMAGE), "y": wide, "scales": TensorType("float32", (4,))}
    before = Graph("small", ("x",), ("y",), (resize,), {"scales": scales}, types)
    after = for_machine(before, evaluate_node, {})
    assert [node.op for node in after.nodes] == ["vdla.QConvTranspose"]
    assert certify_pass("for_machine", before, after).holds
    (weight,) = (name for name, value in after.constants.items() if value.ndim == 4)
    for change in (np.roll(after.constants[weight], 1, 0), after.constants[weight] * 2):
        assert not certify_pass("wrong", before, after.replace(constants={**after.constants, weight: change})).holds


@pytest.mark.parametrize("target", [Target.named("x86-64"), host()])
def test_integer_operators_in_blocks_are_those_of_plain_images(target: Target) -> None:
    made = IntegerLayers(2, (1, 20, 6, 7))
    for kind in ("conv", "rescale", "add", "average", "conv", "leaky"):
        made.layer(kind)
    before = made.graph()
    before = before.replace(outputs=before.outputs[-1:])
    after = choose_layouts(before, target)
    kinds = [kind for kind in after.types.values() if isinstance(kind, TensorType)]
    assert any(kind.lanes for kind in kinds)
    certificate = certify_pass("layouts", before, after, target=target)
    assert certificate.holds, certificate
    assert certificate.opaque == ()
    for node in after.nodes:
        if "multiplier" in node.attributes:
            other = replace(node, attributes={**node.attributes, "multiplier": node.attributes["multiplier"] // 2})
            wrong = after.replace(nodes=tuple(other if one is node else one for one in after.nodes))
            assert not certify_pass("wrong", before, wrong, target=target).holds
