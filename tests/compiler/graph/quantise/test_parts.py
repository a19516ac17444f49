# SPDX-License-Identifier: Apache-2.0
"""Values of parts whose ranges differ: boxes in pixels beside scores from 0 to 1."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from helpers.qdq_graphs import QdqBuilder

from vdla.compiler.graph import Graph
from vdla.compiler.graph.passes import fuse_qdq
from vdla.compiler.graph.quantise import METHODS
from vdla.compiler.graph.quantise.parts import parts_of
from vdla.runtime.network.evaluate_nodes import evaluate_node
from vdla.runtime.network.evaluator import Evaluator
from vdla.runtime.network.quantise import quantise
from vdla.runtime.network.quantised_network import QuantisedNetwork

SHAPE = (2, 4, 6, 6)
PLANES = (1, 4, 6, 6)
Tail = Callable[[QdqBuilder, str, str], None]


def conv(b: QdqBuilder, x: str, result: str, scale: float = 1.0, offset: float = 0.0) -> str:
    """Four channels of about `scale` times normal values around the offset."""
    random = np.random.default_rng(len(b.nodes))
    channels = b.types[x].extents[1]
    weight = b.constant((random.standard_normal((4, channels, 1, 1)) * scale).astype(np.float32))
    bias = b.constant(np.full(4, offset, np.float32))
    return b.add("Conv", x, weight, bias, shape=SHAPE, result=result)


def network(tail: Tail, *outputs: str, scale: float = 20.0, offset: float = 320.0) -> Graph:
    """Boxes and scores from an image, and what follows."""
    b = QdqBuilder()
    x = b.input("x", SHAPE, "float32")
    boxes = conv(b, x, "boxes", scale, offset)
    tail(b, boxes, b.add("Sigmoid", conv(b, x, "logits"), result="scores"))
    return b.graph(*outputs)


def joined(b: QdqBuilder, axis: int, *parts: str, result: str = "joined") -> str:
    shape = list(SHAPE)
    shape[axis] = sum(b.types[part].extents[axis] for part in parts)
    return b.add("Concat", *parts, shape=tuple(shape), axis=axis, result=result)


def along(axis: int) -> Tail:
    def tail(b: QdqBuilder, boxes: str, scores: str) -> None:
        joined(b, axis, boxes, scores)

    return tail


def moved(b: QdqBuilder, boxes: str, scores: str) -> None:
    flat = b.add("Reshape", joined(b, 1, boxes, scores), b.constant(np.array([2, 8, 36])), shape=(2, 8, 36))
    b.add("Transpose", flat, shape=(2, 36, 8), perm=(0, 2, 1), result="moved")


def nested(b: QdqBuilder, boxes: str, scores: str) -> None:
    others = b.add("Sigmoid", conv(b, "x", "more"), result="others")
    joined(b, 1, boxes, joined(b, 1, scores, others, result="inner"), boxes)


def bounded(b: QdqBuilder, boxes: str, scores: str) -> None:
    b.add("Relu", joined(b, 1, scores, boxes), result="bounded")


def balanced(b: QdqBuilder, x: str, result: str, boxes: int) -> None:
    """A convolution to which boxes and scores contribute alike."""
    factors = np.full(b.types[x].extents[1], 1.0)
    factors[:boxes] = 1 / 300
    weight = np.random.default_rng(5).standard_normal((3, len(factors), 1, 1)) * factors.reshape(1, -1, 1, 1)
    shape = (2, 3, *b.types[x].extents[2:])
    b.add("Conv", x, b.constant(weight.astype(np.float32)), shape=shape, result=result)


def middle(b: QdqBuilder, boxes: str, scores: str) -> None:
    """In the middle of a network, and an output as well."""
    balanced(b, joined(b, 1, boxes, scores), "after", 4)


def behind(op: str, **options: object) -> Tail:
    """A convolution of what an operator makes of both."""

    def tail(b: QdqBuilder, boxes: str, scores: str) -> None:
        shape = (2, 8, 1, 1) if op == "GlobalAveragePool" else (2, 8, 6, 6)
        x = b.add(op, joined(b, 1, boxes, scores), shape=shape, **options)
        balanced(b, x, "after", 4)

    return tail


def split(b: QdqBuilder, boxes: str, scores: str) -> None:
    whole, sizes = joined(b, 1, boxes, scores), b.constant(np.array([2, 6]))
    names = ("upper", "lower")
    b.types |= {name: b.types[whole].__class__("float32", (2, n, 6, 6)) for name, n in zip(names, (2, 6), strict=True)}
    b.nodes.append(b.nodes[-1].__class__("Split", (whole, sizes), names, {"axis": 1}, "split"))
    balanced(b, "upper", "of_upper", 2)
    balanced(b, "lower", "of_lower", 2)


def padded(b: QdqBuilder, boxes: str, scores: str) -> None:
    pads = b.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1]))
    wide = b.add("Pad", scores, pads, b.constant(np.float32(-500)), shape=(2, 4, 8, 8), result="padded")
    weight = b.constant(np.random.default_rng(6).standard_normal((3, 4, 1, 1)).astype(np.float32))
    inner = b.add("Conv", wide, weight, shape=(2, 3, 8, 8), result="wide")
    ends = [b.constant(np.array(value)) for value in ([1, 1], [7, 7], [2, 3])]
    b.add("Slice", inner, *ends, shape=(2, 3, 6, 6), result="inside")


def chosen(b: QdqBuilder, boxes: str, scores: str) -> None:
    mask = b.constant(np.arange(36).reshape(6, 6) % 2 == 0)
    value = b.add("Where", mask, boxes, scores, shape=SHAPE, result="chosen")
    kernel = np.zeros((4, 4, 1, 1), np.float32)
    kernel[np.arange(4), np.arange(4)] = 1
    odd = b.add("Mul", b.add("Conv", value, b.constant(kernel), result="same"), b.constant(np.float32(2)), result="odd")
    ends = [b.constant(np.array(value)) for value in ([1], [6], [3], [2])]
    b.add("Slice", odd, *ends, shape=(2, 4, 6, 3), result="unchosen")


CASES: dict[str, tuple[Tail, tuple[str, ...]]] = {
    **{f"axis {axis}": (along(axis), ("joined",)) for axis in (0, 1, 2, 3, -1)},
    "moved": (moved, ("moved",)),
    "nested": (nested, ("joined",)),
    "bounded": (bounded, ("bounded",)),
    "middle": (middle, ("joined", "after")),
    "behind a function": (behind("LeakyRelu", alpha=0.1), ("after",)),
    "behind a mean": (behind("GlobalAveragePool"), ("after",)),
    "behind a maximum": (behind("MaxPool", kernel_shape=(3, 3), pads=(1, 1, 1, 1)), ("after",)),
    "split": (split, ("of_upper", "of_lower")),
    "padded": (padded, ("inside",)),
    "chosen": (chosen, ("unchosen",)),
}


def data(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(SHAPE).astype(np.float32)


def integer(made: QuantisedNetwork) -> Graph:
    return fuse_qdq(made.graph, lambda node, inputs: evaluate_node(node, inputs, prefer="numpy"))


def small_db(exact: np.ndarray, found: np.ndarray) -> float:
    """The ratio of those elements that are at most 1: the scores, where there are any."""
    small = np.abs(exact) <= 1
    exact, found = (exact[small], found[small]) if small.any() else (exact, found)
    return 10 * float(np.log10((exact.astype(float) ** 2).sum() / ((found.astype(float) - exact) ** 2).sum()))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_no_part_is_lost(case, method):
    tail, outputs = CASES[case]
    made = quantise(network(tail, *outputs), calibration=[data(1), data(2)], method=method)
    exact, found = (Evaluator(graph, prefer="numpy").run({"x": data(1)}) for graph in (made.float_graph, integer(made)))
    for name in outputs:
        assert small_db(exact[name], found[name]) > 25, name


def test_parts_of_values():
    graph = network(nested, "joined")
    assert parts_of(graph, "joined") == ("boxes", "scores", "others")
    assert parts_of(graph, "scores") == ("scores",)
    assert parts_of(network(moved, "moved"), "moved") == ("boxes", "scores")


def test_plan_names_the_value_and_the_part():
    made = quantise(network(nested, "joined"), calibration=data())
    assert dict(made.plan.mixed) == {"joined": "scores"}
    assert made.layers == ("boxes", "logits", "more")


@pytest.mark.parametrize("offset", [0.0, 0.5])
@pytest.mark.parametrize("scale", [0.2, 1.0])
def test_parts_of_similar_ranges_share_a_scale(scale, offset):
    made = quantise(network(middle, "joined", "after", scale=scale, offset=offset), calibration=data())
    assert not made.plan.mixed and made.layers == ("boxes", "logits", "joined", "after")
    owners = {made.plan.values[name] for name in ("boxes", "scores", "joined")}
    assert owners == {"joined"}


def test_parts_that_are_nothing_are_not_lost():
    """A part that is 0, and a padding of little more: neither has a signal."""
    b = QdqBuilder()
    x = b.input("x", PLANES, "float32")
    zero, pads = b.constant(np.zeros(SHAPE, np.float32)), b.constant(np.array([0, 0, 1, 0, 0, 0, 1, 0]))
    b.types[x] = b.types[x].__class__("float32", SHAPE)
    whole = joined(b, 1, conv(b, x, "boxes", 10.0), zero)
    b.add("Pad", whole, pads, b.constant(np.float32(1e-6)), shape=(2, 8, 8, 6), result="wide")
    weight = b.constant(np.ones((1, 8, 1, 1), np.float32))
    b.add("Conv", "wide", weight, shape=(2, 1, 8, 6), result="y")
    made = quantise(b.graph("y"), calibration=data())
    assert not made.plan.mixed and made.layers == ("boxes", "joined", "y")


def test_padding_that_a_maximum_drops_may_be_infinite():
    b = QdqBuilder()
    x = conv(b, b.input("x", SHAPE, "float32"), "boxes")
    pads = b.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1]))
    wide = b.add("Pad", x, pads, b.constant(np.float32(-np.inf)), shape=(2, 4, 8, 8), result="wide")
    pool = b.add("MaxPool", wide, shape=SHAPE, kernel_shape=(3, 3), strides=(1, 1), result="pool")
    conv(b, pool, "y")
    made = quantise(b.graph("y"), calibration=data())
    assert not made.plan.mixed and made.layers == ("boxes", "y")
