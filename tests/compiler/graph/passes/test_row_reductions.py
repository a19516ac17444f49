# SPDX-License-Identifier: Apache-2.0
"""Reductions of rows of quantised values: what they become, what stays, and that values stay."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.qdq_graphs import QdqBuilder, run

from vdla.compiler.graph import Graph
from vdla.compiler.graph.passes import fuse_qdq

RANDOM = np.random.default_rng(5)


def operators(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def rows(b: QdqBuilder, shape: tuple[int, ...], zero_point: int = 0) -> str:
    return b.dequantise(b.input("x", shape), 0.03, zero_point)


def data(shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {"x": RANDOM.integers(-128, 127, shape, np.int8, endpoint=True)}


@pytest.mark.parametrize(("op", "last"), [("ArgMax", 0), ("ArgMax", 1), ("ArgMin", 0)])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 300)])
def test_the_place_of_an_extreme_is_that_of_the_integer(op: str, last: int, shape: tuple[int, ...]) -> None:
    b = QdqBuilder()
    more = {"axis": -1, "keepdims": 0, "select_last_index": last}
    before = b.graph(b.add(op, rows(b, shape, 9), shape=shape[:-1], dtype="int64", result="y", **more))
    after = fuse_qdq(before)
    assert operators(after) == [op] and after.nodes[0].inputs == ("x",)
    given = data(shape)
    np.testing.assert_array_equal(run(after, given)["y"], run(before, given)["y"])


@pytest.mark.parametrize("form", ["RMSNormalization", "Mul", "Pow", "ReduceSumSquare", "ReduceSum"])
@pytest.mark.parametrize(("shape", "zero_point"), [((1, 6, 48), 0), ((3, 5), -7), ((2, 1, 1), 127)])
def test_squares_are_summed_in_integers(form: str, shape: tuple[int, ...], zero_point: int) -> None:
    before = graph_of(form, shape, zero_point)
    after = fuse_qdq(before)
    made = next(node for node in after.nodes if node.op == "vdla.QSquares")
    assert dict(made.attributes) == {"x_zero_point": zero_point, "keepdims": 1}
    given = data(shape)
    wanted = run(before, given)["y"]
    np.testing.assert_allclose(run(after, given)["y"], wanted, rtol=1e-5, atol=1e-6)


def graph_of(form: str, shape: tuple[int, ...], zero_point: int, axis: int = -1) -> Graph:
    """RMSNormalization, or a sum or a mean of squares in one of the ways that ONNX has."""
    b = QdqBuilder()
    x = rows(b, shape, zero_point)
    if form == "RMSNormalization":
        weight = b.constant(RANDOM.uniform(0.5, 2, shape[axis:]).astype(np.float32))
        return b.graph(b.add(form, x, weight, shape=shape, axis=axis, epsilon=1e-5, result="y"))
    axes, reduced = b.constant(np.array([axis])), tuple(1 if d == axis % len(shape) else n for d, n in enumerate(shape))
    if form == "ReduceSumSquare":
        return b.graph(b.add(form, x, axes, shape=reduced, keepdims=1, result="y"))
    two = b.constant(np.array(2, np.float32))
    square = b.add("Pow", x, two, shape=shape) if form == "Pow" else b.add("Mul", x, x, shape=shape)
    return b.graph(
        b.add("ReduceSum" if form == "ReduceSum" else "ReduceMean", square, axes, shape=reduced, keepdims=1, result="y")
    )


def test_rows_that_are_not_the_last_dimension_or_too_long_stay() -> None:
    assert "vdla.QSquares" not in operators(fuse_qdq(graph_of("Mul", (3, 4, 5), 0, axis=1)))
    assert "vdla.QSquares" not in operators(fuse_qdq(graph_of("RMSNormalization", (3, 4, 5), 0, axis=-2)))
    assert "vdla.QSquares" in operators(fuse_qdq(graph_of("Mul", (1, 33025), 0)))
    assert "vdla.QSquares" not in operators(fuse_qdq(graph_of("Mul", (1, 33026), 0)))


def test_the_longest_row_of_the_farthest_elements_fits() -> None:
    graph = fuse_qdq(graph_of("ReduceSumSquare", (1, 33025), 127))
    largest = run(graph, {"x": np.full((1, 33025), -128, np.int8)})["y"]
    np.testing.assert_allclose(largest, [[33025 * 255**2 * 0.03**2]], rtol=1e-5)


# --- distances ------------------------------------------------------------------------------------


def distances_graph(
    form: str = "ReduceSum",
    lead: tuple[int, ...] = (2, 5),
    codes: int = 7,
    features: int = 12,
    scale: float = 0.03,
    zero_point: int = 4,
    turned: bool = False,
    axis: int = -1,
) -> Graph:
    """Sums of |x - codes| along rows; `scale` is that of the codes, the other one 0.03."""
    b = QdqBuilder()
    x = rows(b, (*lead, features), zero_point)
    alone = b.add("Unsqueeze", x, b.constant(np.array([len(lead)])), shape=(*lead, 1, features))
    integers = b.constant(RANDOM.integers(-100, 100, (codes, features)).astype(np.int8))
    sides = (alone, b.dequantise(integers, scale, zero_point))
    full = (*lead, codes, features)
    apart = b.add("Sub", *(sides[::-1] if turned else sides), shape=full)
    if form != "ReduceL1":
        apart = b.add("Abs", apart, shape=full)
    reduced = tuple(1 if d == axis % len(full) else extent for d, extent in enumerate(full))
    far = b.add(form, apart, b.constant(np.array([axis])), shape=reduced, keepdims=1, result="y")
    return b.graph(far)


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("form", "lead"), [("ReduceSum", (2, 5)), ("ReduceL1", (9,)), ("ReduceMean", (1, 3, 4))])
def test_distances_of_rows_are_summed_in_integers(form: str, lead: tuple[int, ...], turned: bool) -> None:
    before = distances_graph(form, lead, turned=turned)
    after = fuse_qdq(before)
    made = next(node for node in after.nodes if node.op == "vdla.QDistances")
    assert made.inputs[0] == "x" and after.constants[made.inputs[1]].shape == (7, 12)
    given = data((*lead, 12))
    wanted = run(before, given)["y"]
    np.testing.assert_allclose(run(after, given)["y"], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("more", [{"scale": 0.031}, {"axis": -2}, {"zero_point": -60, "scale": 0.09}])
def test_distances_that_are_not_of_integers_of_one_scale_along_rows_stay(more: dict[str, float]) -> None:
    assert "vdla.QDistances" not in operators(fuse_qdq(distances_graph(**more)))  # type: ignore[arg-type]


def test_codes_in_multiples_of_the_scale_are_integers_of_it() -> None:
    codes = distances_graph(scale=0.03, zero_point=0)
    assert "vdla.QDistances" in operators(fuse_qdq(codes))
