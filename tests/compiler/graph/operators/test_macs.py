# SPDX-License-Identifier: Apache-2.0
"""Multiply-accumulates of convolutions: the same in every layout."""

from __future__ import annotations

import pytest

from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.operators.macs import macs_of

X, WIDE = (2, 20, 7, 9), (2, 24, 4, 5)  # the image, and the result of a convolution of stride 2


def macs(op: str, x: TensorType, weight: tuple[int, ...], y: TensorType) -> int:
    kinds = {"x": x, "w": TensorType("float32", weight), "y": y}
    node = Node(op, ("x", "w"), ("y",))
    return macs_of(Graph("g", ("x", "w"), ("y",), (node,), {}, kinds), node)


@pytest.mark.parametrize(
    ("op", "x", "weight", "y", "count"),
    [
        ("Conv", X, (24, 20, 3, 3), WIDE, 2 * 4 * 5 * 24 * 20 * 9),
        ("Conv", X, (20, 1, 3, 3), X, 2 * 7 * 9 * 20 * 9),
        ("ConvTranspose", WIDE, (24, 20, 3, 3), X, 2 * 4 * 5 * 24 * 20 * 9),
    ],
)
def test_padding_channels_of_blocks_do_not_count(
    op: str, x: tuple[int, ...], weight: tuple[int, ...], y: tuple[int, ...], count: int
) -> None:
    for lanes in ((0, 0), (16, 16), (0, 16), (16, 0)):
        image, result = (TensorType("float32", shape, each) for shape, each in zip((x, y), lanes, strict=True))
        assert macs(op, image, weight, result) == count
