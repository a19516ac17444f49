"""Multiply-accumulates of convolutions: the same in every layout."""

from __future__ import annotations

import pytest

from vdla.compiler.graph import Graph, Node, TensorType
from vdla.compiler.graph.operators.macs import macs_of

X, WIDE = (2, 20, 7, 9), (2, 24, 4, 5)  # the image, and the result of a convolution of stride 2


def macs(op: str, x: tuple[int, ...], weight: tuple[int, ...], y: tuple[int, ...]) -> int:
    kinds = {name: TensorType("int8", shape) for name, shape in (("x", x), ("w", weight), ("y", y))}
    node = Node(op, ("x", "w"), ("y",))
    return macs_of(Graph("g", ("x", "w"), ("y",), (node,), {}, kinds), node)


def blocks(shape: tuple[int, ...]) -> tuple[int, ...]:
    count, channels, *plane = shape
    return (count, -(-channels // 16), *plane, 16)


@pytest.mark.parametrize(
    ("op", "plain", "x", "weight", "y", "count"),
    [
        ("vdla.BlockedQConv", "Conv", X, (24, 20, 3, 3), WIDE, 2 * 4 * 5 * 24 * 20 * 9),
        ("vdla.BlockedConv", "Conv", X, (20, 1, 3, 3), X, 2 * 7 * 9 * 20 * 9),
        ("vdla.BlockedQConvTranspose", "ConvTranspose", WIDE, (24, 20, 3, 3), X, 2 * 4 * 5 * 24 * 20 * 9),
    ],
)
def test_padding_channels_of_blocks_do_not_count(
    op: str, plain: str, x: tuple[int, ...], weight: tuple[int, ...], y: tuple[int, ...], count: int
) -> None:
    assert macs(plain, x, weight, y) == macs(op, blocks(x), weight, blocks(y)) == count
    assert macs(op, x, weight, blocks(y)) == count
