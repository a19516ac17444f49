# SPDX-License-Identifier: Apache-2.0
"""Products and sums of activations on the accelerator, against the NumPy definitions."""

import numpy as np
import pytest
from helpers.accelerated_graph import run_accelerated
from helpers.graphs import operators_of

from vdla.compiler.graph import Graph, Node, TensorType, check_graph
from vdla.compiler.graph.accelerator import ACCELERATED, candidates, partition
from vdla.compiler.graph.passes import run_passes
from vdla.hardware.config import Config
from vdla.runtime.network.evaluate_nodes import REGIONS
from vdla.runtime.network.evaluator import evaluate

PYNQ = Config.preset("pynq_z1")
RESULTS = {"shift": np.array([31]), "low": -128, "high": 127}


def multiplied(batch, rows, depth, columns, a_zero, b_zero, **results):
    """A product whose greatest sums are about 100 times the step of its results."""
    multiplier = int(100 * 2**33 / (depth * (128 + abs(a_zero)) * (128 + abs(b_zero))))
    zeros = {"a_zero_point": a_zero, "b_zero_point": b_zero, "y_zero_point": 3}
    factor = {"multiplier": np.array([multiplier])}
    node = Node("vdla.QMatMul", ("a", "b"), ("y",), {**RESULTS, **zeros, **factor, **results}, "product")
    shapes = {"a": (*batch, rows, depth), "b": (*batch, depth, columns), "y": (*batch, rows, columns)}
    types = {name: TensorType("int8", shape) for name, shape in shapes.items()}
    return check_graph(Graph("g", ("a", "b"), ("y",), (node,), {}, types))


def agrees(graph, config, inputs):
    """The results on the accelerator, which have many values, are those of the definitions."""
    calls = candidates(graph, config).calls
    assert len(calls) == len(graph.nodes)
    wanted = evaluate(graph, inputs, prefer="numpy")
    placed = check_graph(partition(graph, config, calls))
    for name, array in run_accelerated(placed, inputs).items():
        assert np.array_equal(array, wanted[name]), name
        assert np.unique(array).size > 3
    return placed


def random_inputs(graph, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.integers(-128, 128, graph.tensor(name).extents, np.int8) for name in graph.inputs}


@pytest.mark.parametrize("preset", ["pynq_z1", "tiny", "batch4"])
@pytest.mark.parametrize("zero_points", [(0, 0), (9, 0), (0, -4), (-128, 5), (-128, -128)])
def test_zero_points(preset, zero_points):
    graph = multiplied((1, 2), 5, 12, 7, *zero_points)
    agrees(graph, Config.preset(preset), random_inputs(graph))


@pytest.mark.parametrize("seed", range(8))
def test_random_products(seed):
    rng = np.random.default_rng(seed)
    batch = tuple(map(int, rng.integers(1, 4, rng.integers(0, 3))))
    rows, depth, columns = map(int, rng.integers(1, 40, 3))
    zeros = [int(zero) for zero in rng.integers(-128, 128, 2)]
    graph = multiplied((*batch, 1), rows, depth, columns, *zeros, low=-90, high=100)
    agrees(graph, Config.preset("pynq_z1"), random_inputs(graph, seed))


def test_extremes_of_the_terms():
    """Rows of the least and of the greatest element, and the zero point farthest from 0."""
    graph = multiplied((1,), 2, 200, 8, 0, -128)
    rows = np.stack([np.full((1, 200), value, np.int8) for value in (-128, 127)], axis=1)
    columns = np.linspace(-128, np.arange(-128, 127, 32), 200).astype(np.int8)[None]
    agrees(graph, Config.preset("pynq_z1"), {"a": rows, "b": columns})


def test_a_smaller_operand_is_added_to_every_row():
    """A constant is packed at compile time."""
    rng, x = np.random.default_rng(0), TensorType("int8", (2, 20, 6))
    zeros = {"a_zero_point": 4, "b_zero_point": -9, "y_zero_point": 3}
    factors = {"multiplier": np.array([1 << 23]), "shift": np.array([26]), "factors": (7, 9)}
    nodes = (Node("vdla.QAdd", ("x", "c"), ("y",), {**RESULTS, **zeros, **factors}, "add"),)
    constants = {"c": rng.integers(-128, 128, (20, 1), np.int8)}
    types = {"x": x, "y": x, "c": TensorType("int8", (20, 1))}
    graph = check_graph(Graph("g", ("x",), ("y",), nodes, constants, types))
    placed = run_passes(agrees(graph, Config.preset("pynq_z1"), random_inputs(graph)), REGIONS)
    assert "c.packed.broadcast16" in placed.constants
    assert "Expand" not in operators_of(placed)


def attention(rows, heads, size, b_zero=0):
    """A layer, its heads times a constant, joined again, and a second layer."""
    width, rng = heads * size, np.random.default_rng(0)
    scale = {"multiplier": np.array([1 << 23]), "y_zero_point": 1}
    zeros = {"a_zero_point": 1, "b_zero_point": b_zero}
    turn = {"perm": (0, 2, 1, 3)}
    nodes = (
        Node("vdla.QDense", ("x", "w", "c"), ("q",), {**RESULTS, **scale, "x_zero_point": 2}, "q"),
        Node("Reshape", ("q", "split"), ("parts",)),
        Node("Transpose", ("parts",), ("heads",), turn),
        Node("vdla.QMatMul", ("heads", "b"), ("products",), {**RESULTS, **scale, **zeros}, "products"),
        Node("Transpose", ("products",), ("turned",), turn),
        Node("Reshape", ("turned", "whole"), ("joined",)),
        Node("vdla.QDense", ("joined", "w", "c"), ("y",), {**RESULTS, **scale, "x_zero_point": 1}, "y"),
    )
    constants = {
        "w": rng.integers(-128, 128, (width, width), np.int8),
        "c": rng.integers(-999, 999, width, np.int32),
        "b": rng.integers(-128, 128, (1, heads, size, size), np.int8),
        "split": np.array([1, rows, heads, size]),
        "whole": np.array([1, rows, width]),
    }
    shapes = {
        **dict.fromkeys(("x", "q", "joined", "y"), (1, rows, width)),
        **dict.fromkeys(("parts", "turned"), (1, rows, heads, size)),
        **dict.fromkeys(("heads", "products"), (1, heads, rows, size)),
    }
    types = {name: TensorType("int8", shape) for name, shape in shapes.items()}
    types |= {name: TensorType(str(value.dtype), value.shape) for name, value in constants.items()}
    return check_graph(Graph("g", ("x",), ("y",), nodes, constants, types))


@pytest.mark.parametrize(
    ("graph", "regions"),
    [
        (attention(5, 2, 16), 1),
        (attention(2, 2, 16), 1),
        (attention(5, 1, 32), 1),
        (attention(5, 2, 12), 3),
        (attention(5, 2, 16, b_zero=3), 2),
    ],
    ids=["whole blocks", "as many rows as heads", "one head", "parts of blocks", "terms of a zero point"],
)
@pytest.mark.parametrize("preset", ["pynq_z1", "batch4"])
def test_heads_of_whole_blocks_are_not_repacked(graph, regions, preset):
    """batch4 reads blocks of other sizes than it writes."""
    config = Config.preset(preset)
    placed = check_graph(partition(graph, config, candidates(graph, config).calls))
    inputs = random_inputs(graph)
    assert np.array_equal(run_accelerated(placed, inputs)["y"], evaluate(graph, inputs, prefer="numpy")["y"])
    assert operators_of(placed).count(ACCELERATED) == (regions if config.block_in == config.block_out else 3)


def test_heads_that_others_read_are_unpacked():
    graph = attention(5, 2, 16)
    graph = check_graph(graph.replace(outputs=("y", "joined", "heads")))
    calls = candidates(graph, PYNQ).calls
    inputs = random_inputs(graph)
    found, wanted = run_accelerated(partition(graph, PYNQ, calls), inputs), evaluate(graph, inputs, prefer="numpy")
    assert all(np.array_equal(found[name], wanted[name]) for name in graph.outputs)


@pytest.mark.parametrize(
    ("shapes", "reason"),
    [
        (
            ((2, 3, 4), (1, 4, 5), (2, 3, 5)),
            "have factors of the same batch dimensions, got [2] and [1]",
        ),
    ],
)
def test_reasons_to_stay(shapes, reason):
    graph = multiplied((1,), 3, 4, 5, 0, 0)
    types = {name: TensorType("int8", shape) for name, shape in zip(("a", "b", "y"), shapes, strict=True)}
    found = candidates(graph.replace(types=types), Config.preset("pynq_z1"))
    assert found.reasons == {"y": f"on the accelerator it must {reason}"}
