# SPDX-License-Identifier: Apache-2.0
"""What no program of a region can do without: steps for its products, its weights, its results.

It is counted as for single layers: a step adds at most `block_in` products to each of
`batch * block_out` results, or one product to each where channels have products of their own.
Values between operators may stay in buffers, so they are neither read nor written here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import reduce
from math import prod

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.graph.graph import Graph, Node, TensorType
from vdla.compiler.operators.least_cycles import SCALE_BYTES, LeastCycles, window_places
from vdla.hardware.config import Config

_CONVOLUTIONS = ("vdla.QConv", "vdla.QConvTranspose")
_PRODUCTS = (*_CONVOLUTIONS, "vdla.QDense", "vdla.QMatMul")
_Places = tuple[NDArray[np.int64], NDArray[np.bool_]]


def least_steps(graph: Graph, node: Node, config: Config) -> int:
    """Steps of the compute unit that the products of a node need at least; 0 of one that has
    none.
    """
    if node.op not in _PRODUCTS:
        return 0
    x, weight, result = (_extents(graph, name) for name in (*node.inputs[:2], node.outputs[0]))
    lanes = config.batch * config.block_out
    if node.op not in _CONVOLUTIONS:
        return -(-prod(result) * -(-x[-1] // config.block_in) // lanes)
    inner = x[1] // int(node.attributes["group"])
    counts = [valid.sum(axis=1) for _, valid in _windows(node, x, weight, result)]
    products = reduce(np.multiply.outer, counts) * inner  # of each output pixel
    if inner > 1:
        products = -(-products // config.block_in)
    return -(-int(products.sum()) * result[0] * result[1] // lanes)


def least_cycles_of(graph: Graph, config: Config, free: Collection[str] = ()) -> LeastCycles:
    """The cycles that no program of a region is below; the nodes with results in `free` may be
    computed in fewer steps, by an extension.
    """
    steps = sum(least_steps(graph, node, config) for node in graph.nodes if node.outputs[0] not in free)
    read = sum(_weight_bytes(graph, node, config) for node in graph.nodes)
    read += sum(_input_elements(graph, name) for name in graph.inputs) * config.inp_bits // 8
    written = sum(prod(_extents(graph, name)) for name in graph.outputs) * config.out_bits // 8
    return LeastCycles.of(config, steps, read, written, operands=1)


def _weight_bytes(graph: Graph, node: Node, config: Config) -> int:
    """The weights of a node that some product needs, and the scales of its channels."""
    if node.op not in _PRODUCTS or node.inputs[1] not in graph.constants:
        return 0
    x, weight, result = (_extents(graph, name) for name in (*node.inputs[:2], node.outputs[0]))
    if node.op not in _CONVOLUTIONS:
        return prod(weight) * config.wgt_bits // 8 + result[-1] * SCALE_BYTES
    used = [int(valid.any(axis=0).sum()) for _, valid in _windows(node, x, weight, result)]
    return prod((*weight[:2], *used)) * config.wgt_bits // 8 + result[1] * SCALE_BYTES


def _input_elements(graph: Graph, name: str) -> int:
    """The elements of an input of the region that some product needs."""
    return max((_elements_read(graph, node, name) for node in graph.nodes if name in node.inputs), default=0)


def _elements_read(graph: Graph, node: Node, name: str) -> int:
    if node.op not in _PRODUCTS:
        return 0
    if node.op not in _CONVOLUTIONS:
        return prod(_extents(graph, name))
    x, weight, result = (_extents(graph, one) for one in (*node.inputs[:2], node.outputs[0]))
    rows = [len(np.unique(places[valid])) for places, valid in _windows(node, x, weight, result)]
    return prod((*x[:2], *rows))


def _windows(node: Node, x: tuple[int, ...], weight: tuple[int, ...], result: tuple[int, ...]) -> Iterator[_Places]:
    """The taps of each axis of an image."""
    strides, pads, dilations = (node.attributes[name] for name in ("strides", "pads", "dilations"))
    transposed = node.op == "vdla.QConvTranspose"
    for d, (size, kernel, out_size) in enumerate(zip(x[2:], weight[2:], result[2:], strict=True)):
        yield window_places(size, out_size, kernel, strides[d], pads[d], dilations[d], transposed=transposed)


def _extents(graph: Graph, name: str) -> tuple[int, ...]:
    kind = graph.types[name]
    assert isinstance(kind, TensorType)
    return kind.extents
