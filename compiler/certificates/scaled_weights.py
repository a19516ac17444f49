# SPDX-License-Identifier: Apache-2.0
"""The lemma of folded factors: `(W x + b) f + g` is `(W f) x + (b f + g)`, for each channel.

A pass that folds factors into weights rounds the new numbers. Here they are the exact products of
the old weights and of the factors that the graph before multiplies by, if they are close to these.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vdla.compiler.certificates import field
from vdla.compiler.certificates.float_graph_run import PRODUCTS, GraphRun
from vdla.compiler.certificates.float_operations import float_binary
from vdla.compiler.certificates.float_symbols import any_float, float_numbers
from vdla.compiler.certificates.symbols import Symbols
from vdla.compiler.graph import Array, Graph, Node

_CLOSE = 1e-5  # of the largest number, relative
_NORM = np.float32(1 << 24)
_MOST_FACTORS = 4  # nodes after one product


class FoldedWeights:
    """Symbols of the weights and biases of a graph that are products of the graph before.

    `close` is the largest relative difference between a number and the product it stands for.
    """

    def __init__(self, before: GraphRun, after: Graph) -> None:
        self._before = before
        self.symbols: dict[str, Symbols] = {}
        self.close = 0.0
        for node in after.nodes:
            if node.op in PRODUCTS and len(node.inputs) > 2:
                self._fold(node, after)

    def _fold(self, node: Node, after: Graph) -> None:
        """The weights of a product, if the graph before has it with factors after it."""
        arrays, names = self._before.arrays, node.inputs[1:3]
        values = [after.constant(name) for name in names]
        if any(value is None for value in values) or all(name in arrays for name in names):
            return
        chain = list(self._chain(node.outputs[0]))
        if not chain or chain[-1].op != node.op:
            return
        product, *factors = chain[::-1]
        weight = arrays.get(product.inputs[1])
        name = product.inputs[2] if len(product.inputs) > 2 else ""
        channels = values[1].size  # type: ignore[union-attr]
        bias = arrays.get(name) if name else np.zeros(channels, np.float32)
        if weight is None or bias is None or weight.shape != values[0].shape:  # type: ignore[union-attr]
            return
        factor, shift = float_numbers(np.ones(channels)), float_numbers(np.zeros(channels))
        numbers = np.ones(channels), np.zeros(channels)
        for one in factors:
            made = _affine(self._before, one, channels)
            if made is None:
                return
            numbers = numbers[0] * made[0], numbers[1] * made[0] + made[1]
            f_symbol, g_symbol = _affine_symbols(self._before, one)
            factor = _times(factor, f_symbol)
            shift = float_binary("add", _times(shift, f_symbol), g_symbol, "float64")
        flat = np.broadcast_to(bias, (channels,))
        wanted = (weight * _spread(node, weight, numbers[0]), flat * numbers[0] + numbers[1])
        differences = [_difference(a, b) for a, b in zip(wanted, values, strict=True)]  # type: ignore[arg-type]
        if max(differences) > _CLOSE:
            return
        self.close = max(self.close, *differences)
        self.symbols[names[0]] = _times(float_numbers(weight), _spread(node, weight, factor))
        self.symbols[names[1]] = float_binary("add", _times(float_numbers(flat), factor), shift, "float64")

    def _chain(self, name: str) -> Iterator[Node]:
        """The nodes from a value back to the product that it is made of."""
        for _ in range(_MOST_FACTORS + 1):
            node = self._before.graph.producers.get(name)
            if node is None:
                return
            yield node
            if node.op in PRODUCTS:
                return
            name = next((one for one in node.inputs if one and one not in self._before.arrays), "")


def _affine(run: GraphRun, node: Node, channels: int) -> tuple[Array, Array] | None:
    """The factor and the shift of each channel by which a node is affine."""
    constants = [run.arrays.get(name) for name in node.inputs]
    if node.op == "BatchNormalization" and all(value is not None for value in constants[1:5]):
        scale, bias, mean, variance = (np.asarray(value, np.float64) for value in constants[1:5])
        factor = scale / np.sqrt(variance + float(node.attribute("epsilon")))
        return factor, bias - mean * factor
    if node.op not in ("Add", "Sub", "Mul") or sum(value is None for value in constants) != 1:
        return None
    side = 0 if constants[0] is None else 1
    value = np.asarray(constants[1 - side])
    rank = len(run.graph.tensor(node.outputs[0]).extents)
    padded = value.reshape((1,) * (rank - value.ndim) + value.shape)
    if any(extent != 1 for axis, extent in enumerate(padded.shape) if axis != 1):
        return None
    flat = np.broadcast_to(padded.reshape(-1), (channels,)).astype(np.float64)
    ones, zeros = np.ones(channels), np.zeros(channels)
    return {"Mul": (flat, zeros), "Add": (ones, flat), "Sub": (-ones, flat) if side else (ones, -flat)}[node.op]


def _affine_symbols(run: GraphRun, node: Node) -> tuple[Symbols, Symbols]:
    """The same as the node's expression has it, from its results for 0 and for 1."""
    name = next(one for one in node.inputs if one and one not in run.arrays)
    shape = run.values[name].shape
    zeros, ones = (np.broadcast_to(float_numbers(number), shape).copy() for number in (0.0, 1.0))
    ones["norm"] = _NORM  # of 1 at least; it shows what the factor adds to the norm
    made = (run.results_of(node, {name: constant}) for constant in (zeros, ones))
    zero, one = (array[0].reshape(shape[1], -1)[:, 0] for array in made)
    norm = np.maximum(1, (one["norm"] - zero["norm"]) / _NORM * 1.01)
    return any_float(field.subtract(one["value"], zero["value"]), norm), zero


def _times(a: Symbols, b: Symbols) -> Symbols:
    return float_binary("mul", a, b, "float64")


def _spread(node: Node, weight: Array, factor: Array) -> Array:
    """Factors of output channels in the shape of a weight."""
    ones = (1,) * (weight.ndim - 2)
    if node.op == "Conv":
        return factor.reshape(-1, 1, *ones)
    if node.op == "Gemm":
        return factor.reshape((-1, 1) if node.attribute("transB") else (1, -1))
    groups = int(node.attribute("group"))
    spread = np.broadcast_to(
        factor.reshape(groups, 1, -1, *ones), (groups, weight.shape[0] // groups, weight.shape[1], *ones)
    )
    return spread.reshape(weight.shape[0], weight.shape[1], *ones)


def _difference(wanted: Array, value: Array) -> float:
    largest = float(np.abs(wanted).max(initial=0.0))
    return float(np.abs(wanted - value.astype(np.float64)).max(initial=0.0)) / largest if largest else 0.0
