# SPDX-License-Identifier: Apache-2.0
"""Elements that are looked up at places that depend on inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.integer_layers import IntegerLayers

from vdla import Config, te
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.network_certificate import certify_network
from vdla.compiler.certificates.symbols import CertificateError, Symbols, numbers, unknowns
from vdla.compiler.extensions import extend
from vdla.compiler.graph import Graph, Node
from vdla.runtime.executor.model import Model
from vdla.runtime.network.compile_network import compile_network

LUT = Path(__file__).parents[3] / "examples" / "look_up_table" / "lut.py"
TABLE = np.arange(16) * 7 % 13


def looked_up(content: np.ndarray, shape: tuple[int, ...], move: int = 8, name: str = "x") -> Symbols:
    """Elements of a table of a shape at the place of eight inputs of int4."""
    x, table = te.placeholder((8,), "int4", "x"), te.placeholder(shape, "int8", "table")

    def element(i: te.Value) -> te.Value:
        at = te.cast("int32", x[i]) + move
        return table[at] if len(shape) == 1 else table[at // shape[1], at % shape[1]]

    fn = te.create_function([x, table], [te.compute((8,), element, "y")], "look_up")
    inputs = {"x": unknowns(name, (8,), "int4", 0), "table": numbers(content.reshape(shape))}
    return evaluate(fn, inputs)["y"]


def test_a_place_in_rows_is_that_in_the_flat_table() -> None:
    flat = looked_up(TABLE, (16,))
    assert len(set(flat["value"].tolist())) == 8
    for shape in ((4, 4), (2, 8)):
        assert looked_up(TABLE, shape)["value"].tolist() == flat["value"].tolist()
    for other in (looked_up(TABLE[::-1], (16,)), looked_up(TABLE, (16,), name="z")):
        assert not (other["value"] == flat["value"]).any()


def test_a_known_place_is_an_element() -> None:
    x, table = te.placeholder((16,), "int8", "x"), te.placeholder((16,), "int8", "table")
    fn = te.create_function([x, table], [te.compute((16,), lambda i: table[te.cast("int32", x[i])], "y")], "look_up")
    order = np.arange(16)[::-1]
    assert evaluate(fn, {"x": numbers(order), "table": numbers(TABLE)})["y"]["low"].tolist() == TABLE[order].tolist()


def test_a_place_that_may_be_outside_is_refused() -> None:
    with pytest.raises(CertificateError) as error:
        looked_up(TABLE, (16,), move=7)
    assert "an index that depends on inputs must be inside the shape [16] for all inputs, got one of table" in str(
        error.value
    )


def network(table: np.ndarray) -> Model:
    """A convolution whose results are looked up on their way out of the machine."""
    made = IntegerLayers(3, (1, 6, 5, 6))
    made.layer("conv")
    graph: Graph = made.graph()
    (source,) = graph.outputs
    node = Node("vdla.QTable", (source,), ("t",), {"table": table})
    types = {**graph.types, "t": graph.types[source]}
    graph = replace(graph, nodes=(*graph.nodes, node), outputs=("t",), types=types)
    machine = extend(Config.preset("tiny"), str(LUT))
    return compile_network(graph, machine, place={source: "vdla", "t": "vdla"})


def test_a_network_with_a_table_is_certified_and_another_table_is_not() -> None:
    table = (np.arange(256) * 11 % 251 - 125).astype(np.int8)
    one, other = network(table), network(np.roll(table, 1))
    assert one.artifact.programs[0].config.stage is not None
    assert certify_network(one).holds
    mixed = Model(other.artifact, expressions=lambda: one.expressions)
    assert "differs" in str(certify_network(mixed).regions[0])
