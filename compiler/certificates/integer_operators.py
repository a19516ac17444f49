# SPDX-License-Identifier: Apache-2.0
"""The integer operators of quantised graphs as plain tensor expressions of integers.

They say what `runtime/numpy_operators/integer.py` computes, with which tests compare them: zero
points are subtracted from elements, padding is 0, sums wrap at 32 bits, results are rounded half to
even. The expressions of operators that kernels are made of compute the same in floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from vdla.compiler import te
from vdla.compiler.certificates.operations import binary, cast
from vdla.compiler.certificates.requantise import Bounds, requantised_by_numbers
from vdla.compiler.certificates.symbols import Symbols, numbers
from vdla.compiler.graph import Node
from vdla.compiler.operators.definitions.row_norm import normal_numbers, of_sign
from vdla.compiler.operators.definitions.row_softmax import row_shares
from vdla.compiler.operators.definitions.sliding import SlidingWindow, sliding
from vdla.hardware.factors import UNIT_SLOPE
from vdla.hardware.numerics import pack_scale, scales_from_floats, unpack_scale

Array = np.ndarray[Any, np.dtype[Any]]


class IntegerNode:
    """The operands of a node as tensors, and how its sums are requantised.

    `scales` are lanes of scales, and how many sums next to each other have the same one; `bounds`
    those of results, if they are not those of the node.
    """

    def __init__(self, node: Node, tensors: Sequence[te.Tensor]) -> None:
        self.node, self.tensors = node, tensors
        self.scales: tuple[Array, int] = np.zeros(0, np.int64), 1
        self.bounds: Bounds | None = None

    def __getitem__(self, attribute: str) -> Any:  # noqa: ANN401  of any attribute
        return self.node.attributes[attribute]

    def centred(self, index: int, zero_point: str) -> te.Tensor:
        """An operand less its zero point."""
        x, zero = self.tensors[index], self[zero_point]
        made: te.Tensor = te.compute(x.shape, lambda *i: te.cast("int32", x[i]) - zero, f"centred{index}")
        return made

    def results(self, sums: te.Tensor, axis: int) -> te.Tensor:
        """Sums that are requantised; there may be a multiplier for each index of an axis."""
        lanes = _lanes(self._factors())
        return self._requantised(sums, lanes, int(prod(sums.shape[axis + 1 :])) if len(lanes) > 1 else 1)

    def averages(self, sums: te.Tensor, counts: Array) -> te.Tensor:
        """Sums of so many elements, `[places...]`, requantised after they are divided by these."""
        return self._requantised(sums, _lanes((self._factors() / counts).reshape(-1)), 1)

    def unchanged(self, elements: te.Tensor) -> te.Tensor:
        """Elements of 8 bits, requantised by 1 as the machine does."""
        self.bounds = 0, -128, 127
        return self._requantised(elements, _lanes(np.ones(1)), 1)

    def _factors(self) -> Array:
        return np.asarray(np.ldexp(self["multiplier"].astype(np.float64), -self["shift"]))

    def _requantised(self, sums: te.Tensor, lanes: Array, inner: int) -> te.Tensor:
        self.scales = lanes, inner
        return sums

    def requantised(self, sums: Symbols) -> Symbols:
        """The results of sums, as symbols."""
        return requantised_by_numbers(sums, *self.scales, self.result_bounds, "int8")

    @property
    def result_bounds(self) -> Bounds:
        """The zero point of results, their least and their most."""
        return self.bounds or (int(self["y_zero_point"]), int(self["low"]), int(self["high"]))

    @property
    def by_one(self) -> bool:
        """Whether sums are requantised by 1."""
        _, mult, shift = unpack_scale(self.scales[0])
        return bool((mult == np.int64(1) << shift).all())

    def clipped(self, sums: Symbols) -> Symbols:
        """The results of sums that are requantised by 1, by the lemma on it."""
        zero, low, high = self.result_bounds
        wide = binary("add", cast(sums, "int32", "int64"), numbers(zero), "int64")
        return cast(binary("min", binary("max", wide, numbers(low), "int64"), numbers(high), "int64"), "int64", "int8")


def _lanes(factors: Array) -> Array:
    """Multipliers as lanes of scales without bias."""
    return np.asarray(pack_scale(0, *scales_from_floats(factors)).view(np.int64))


# --- products -------------------------------------------------------------------------------------


def _window(operands: IntegerNode, taps: Sequence[int]) -> SlidingWindow:
    size = operands.tensors[0].shape[2:]
    return sliding("window", size, taps, *(operands[name] for name in ("strides", "pads", "dilations")))


def qconv(operands: IntegerNode) -> te.Tensor:
    """vdla.QConv."""
    x, (_, weight, bias) = operands.centred(0, "x_zero_point"), operands.tensors
    window, groups = _window(operands, weight.shape[2:]), operands["group"]
    image, taps, channel = window.padded(x, 0), window.axes(), te.reduce_axis(weight.shape[1], "c")
    outputs, inputs = weight.shape[0] // groups, weight.shape[1]

    def total(n: te.Value, o: te.Value, *place: te.Value) -> te.Value:
        first = o // outputs * inputs if groups > 1 else 0
        element = image[(n, channel + first, *window.reads(place, taps))]
        return te.sum(element * te.cast("int32", weight[(o, channel, *taps)]), axis=[channel, *taps])

    return _biased(operands, te.compute((x.shape[0], weight.shape[0], *window.places), total, "products"), bias)


def _biased(operands: IntegerNode, products: te.Tensor, bias: te.Tensor) -> te.Tensor:
    return operands.results(te.compute(products.shape, lambda *i: products[i] + bias[i[1]], "sums"), 1)


def qdense(operands: IntegerNode) -> te.Tensor:
    """vdla.QDense."""
    x, (_, weight, bias) = operands.centred(0, "x_zero_point"), operands.tensors
    k, last = te.reduce_axis(x.shape[-1], "k"), len(x.shape) - 1
    taps = (0,) * (len(weight.shape) - 2)

    def total(*i: te.Value) -> te.Value:
        return te.sum(x[(*i[:-1], k)] * te.cast("int32", weight[(i[-1], k, *taps)]), axis=k)

    products = te.compute((*x.shape[:-1], weight.shape[0]), total, "products")
    return operands.results(te.compute(products.shape, lambda *i: products[i] + bias[i[-1]], "sums"), last)


def qmatmul(operands: IntegerNode) -> te.Tensor:
    """vdla.QMatMul of factors with the same batches."""
    a, b = operands.centred(0, "a_zero_point"), operands.centred(1, "b_zero_point")
    k = te.reduce_axis(a.shape[-1], "k")

    def total(*i: te.Value) -> te.Value:
        return te.sum(a[(*i[:-1], k)] * b[(*i[:-2], k, i[-1])], axis=k)

    return operands.results(te.compute((*a.shape[:-1], b.shape[-1]), total, "sums"), len(a.shape) - 1)


def qconv_transpose(operands: IntegerNode) -> te.Tensor:
    """vdla.QConvTranspose: every element is multiplied with all taps, and added where they lie."""
    x, (_, weight, bias) = operands.centred(0, "x_zero_point"), operands.tensors
    axes, groups = range(len(weight.shape) - 2), operands["group"]
    strides, dilations, pads = (operands[name] for name in ("strides", "dilations", "pads"))
    extra = operands["output_padding"] or (0,) * len(axes)
    spans = [(weight.shape[2 + d] - 1) * dilations[d] + 1 for d in axes]
    places = [(x.shape[2 + d] - 1) * strides[d] + spans[d] + extra[d] - pads[d] - pads[d + len(axes)] for d in axes]
    spread = [(x.shape[2 + d] - 1) * strides[d] + 1 for d in axes]
    before = [spans[d] - 1 - pads[d] for d in axes]
    outputs, inputs = weight.shape[1], weight.shape[0] // groups
    channel, taps = te.reduce_axis(inputs, "c"), [te.reduce_axis(weight.shape[2 + d], f"t{d}") for d in axes]

    def element(n: te.Value, c: te.Value, *place: te.Value) -> te.Value:
        inside = [place[d] % strides[d] == 0 for d in axes if strides[d] > 1]
        value = x[(n, c, *(place[d] // strides[d] for d in axes))]
        return te.select(te.all_of(*inside), value, te.const(0, "int32")) if inside else value

    image = te.compute((*x.shape[:2], *spread), element, "spread")
    ends = [places[d] + spans[d] - 1 - before[d] - spread[d] for d in axes]
    grown = te.pad(image, [0, 0, *(max(0, one) for one in before)], [0, 0, *(max(0, one) for one in ends)], 0, "grown")
    shift = [max(0, -before[d]) for d in axes]

    def total(n: te.Value, o: te.Value, *place: te.Value) -> te.Value:
        first = o // outputs * inputs if groups > 1 else 0
        reads = [place[d] + shift[d] + (weight.shape[2 + d] - 1 - taps[d]) * dilations[d] for d in axes]
        factor = weight[(channel + first, o % outputs if groups > 1 else o, *taps)]
        return te.sum(grown[(n, channel + first, *reads)] * te.cast("int32", factor), axis=[channel, *taps])

    return _biased(operands, te.compute((x.shape[0], outputs * groups, *places), total, "products"), bias)


# --- element-wise ---------------------------------------------------------------------------------


def _broadcast(a: te.Tensor, shape: Sequence[int], index: Sequence[te.Value]) -> te.Value:
    """The element of an operand that broadcasts to a shape."""
    inner = index[len(shape) - len(a.shape) :]
    return a[tuple(0 if extent == 1 else i for extent, i in zip(a.shape, inner, strict=True))]


def _combined(operands: IntegerNode, combine: Callable[[te.Value, te.Value], te.Value]) -> te.Tensor:
    a, b = operands.centred(0, "a_zero_point"), operands.centred(1, "b_zero_point")
    shape = np.broadcast_shapes(a.shape, b.shape)
    sums = te.compute(shape, lambda *i: combine(_broadcast(a, shape, i), _broadcast(b, shape, i)), "sums")
    return operands.results(sums, len(shape) - 1)


def qadd(operands: IntegerNode) -> te.Tensor:
    """vdla.QAdd."""
    first, second = operands["factors"]
    return _combined(operands, lambda a, b: a * int(first) + b * int(second))


def qmul(operands: IntegerNode) -> te.Tensor:
    """vdla.QMul."""
    return _combined(operands, lambda a, b: a * b)


def qrescale(operands: IntegerNode) -> te.Tensor:
    """vdla.QRescale."""
    x = operands.centred(0, "x_zero_point")
    return operands.results(x, len(x.shape) - 1)


def qleaky_relu(operands: IntegerNode) -> te.Tensor:
    """vdla.QLeakyRelu."""
    x, (first, second) = operands.centred(0, "x_zero_point"), operands["factors"]
    sums = te.compute(x.shape, lambda *i: te.maximum(x[i] * int(first), x[i] * int(second)), "sums")
    return operands.results(sums, len(x.shape) - 1)


def qprelu(operands: IntegerNode) -> te.Tensor:
    """vdla.QPRelu."""
    x, slope = operands.centred(0, "x_zero_point"), operands.tensors[1]

    def element(*i: te.Value) -> te.Value:
        below = te.minimum(x[i], 0) * te.cast("int32", _broadcast(slope, x.shape, i))
        return te.maximum(x[i], 0) * UNIT_SLOPE + below

    return operands.results(te.compute(x.shape, element, "sums"), len(x.shape) - 1)


# --- pools ----------------------------------------------------------------------------------------


def qmax_pool(operands: IntegerNode) -> te.Tensor:
    """vdla.QMaxPool."""
    (x,), window = operands.tensors, _window(operands, operands["kernel_shape"])
    image, taps, zero = window.padded(x, -128), window.axes(), operands["x_zero_point"]

    def largest(n: te.Value, c: te.Value, *place: te.Value) -> te.Value:
        return te.max(te.cast("int32", image[(n, c, *window.reads(place, taps))]), axis=taps)

    maxima = te.compute((*x.shape[:2], *window.places), largest, "maxima")
    return operands.results(te.compute(maxima.shape, lambda *i: maxima[i] - zero, "sums"), 1)


def qaverage_pool(operands: IntegerNode) -> te.Tensor:
    """vdla.QAveragePool."""
    x, window = operands.centred(0, "x_zero_point"), _window(operands, operands["kernel_shape"])
    image, taps = window.padded(x, 0), window.axes()

    def total(n: te.Value, c: te.Value, *place: te.Value) -> te.Value:
        return te.sum(image[(n, c, *window.reads(place, taps))], axis=taps)

    sums = te.compute((*x.shape[:2], *window.places), total, "sums")
    return operands.averages(sums, np.broadcast_to(_counts(operands, window), window.places))


def _counts(operands: IntegerNode, window: SlidingWindow) -> Array:
    """The number of elements under each window, `[places...]`."""
    if operands["count_include_pad"]:
        return np.full(window.places, prod(window.taps))
    counts = np.ones((), np.int64)
    for axis in range(len(window.size)):
        counts = np.multiply.outer(counts, window.reads_image(axis).sum(axis=1))
    return np.maximum(counts, 1)


# --- rows -----------------------------------------------------------------------------------------


def qrow_softmax(operands: IntegerNode) -> te.Tensor:
    """vdla.QRowSoftmax, along the last dimension."""
    (x,) = operands.tensors
    return operands.results(row_shares(x, operands["factor"]), len(x.shape) - 1)


def qfactor(operands: IntegerNode) -> te.Tensor:
    """vdla.QFactor: matrices or their transposes, which a requantisation by 1 does not change."""
    (x,) = operands.tensors
    (*outer, rows, columns), transposed = x.shape, operands["transposed"]
    shape = (*outer, columns, rows) if transposed else x.shape

    def element(*i: te.Value) -> te.Value:
        return te.cast("int32", x[(*i[:-2], i[-1], i[-2])] if transposed else x[i])

    return operands.unchanged(te.compute(shape, element, "factor"))


def qrow_norm(operands: IntegerNode) -> te.Tensor:
    """vdla.QRowNorm, along the last dimension."""
    x, sign, bias = operands.tensors
    normal = normal_numbers(x, bool(operands["centred"]), operands["least"])
    signed = te.compute(x.shape, lambda *i: of_sign(normal[i], sign[i[-1]]) + bias[i[-1]], "sums")
    return operands.results(signed, len(x.shape) - 1)


OPERATORS: Mapping[str, Callable[[IntegerNode], te.Tensor]] = {
    "vdla.QAdd": qadd,
    "vdla.QAveragePool": qaverage_pool,
    "vdla.QConv": qconv,
    "vdla.QConvTranspose": qconv_transpose,
    "vdla.QDense": qdense,
    "vdla.QFactor": qfactor,
    "vdla.QLeakyRelu": qleaky_relu,
    "vdla.QMatMul": qmatmul,
    "vdla.QMaxPool": qmax_pool,
    "vdla.QMul": qmul,
    "vdla.QPRelu": qprelu,
    "vdla.QRescale": qrescale,
    "vdla.QRowNorm": qrow_norm,
    "vdla.QRowSoftmax": qrow_softmax,
}
"""The expressions of the sums by operator, which `IntegerNode.requantised` makes results of."""
