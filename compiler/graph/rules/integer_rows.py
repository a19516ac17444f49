# SPDX-License-Identifier: Apache-2.0
"""Rules of integer operators of rows: sums of squares, softmax, norms, rotation, factors."""

from __future__ import annotations

import numpy as np

from vdla.compiler import te
from vdla.compiler.graph.rules.requantise import rescaled_sums
from vdla.compiler.graph.rules.rule import NodeCall
from vdla.compiler.operators.definitions.rotary import rotated
from vdla.compiler.operators.definitions.row_norm import NORMAL_BITS, normal_numbers, of_sign
from vdla.compiler.operators.definitions.row_softmax import SHARE_BITS, row_shares
from vdla.compiler.operators.reduction import reduce_with


def qsquares(call: NodeCall) -> te.Tensor:
    """Along the last dimension, in 32 bits."""
    x, name, zero = call.tensor(0), call.name(), call.attribute("x_zero_point")
    if x.dtype != "int8":
        call.decline(f"read int8 elements, got {x.dtype}")

    def square(*i: te.Value) -> te.Value:
        centred: te.Value = te.cast("int32", x[i]) - zero
        return centred * centred

    squares = te.compute(x.shape, square, f"{name}_squares")
    return reduce_with(te.sum, squares, (len(x.shape) - 1,), bool(call.attribute("keepdims")), name)


def qdistances(call: NodeCall) -> te.Tensor:
    """Of the rows of the last dimension from those of the second operand, in 32 bits."""
    x, codes, name = call.tensor(0), call.tensor(1), call.name()
    if (x.dtype, codes.dtype) != ("int8", "int8"):
        call.decline(f"read int8 elements, got {x.dtype} and {codes.dtype}")
    k = te.reduce_axis(x.shape[-1], "k")

    def value(*i: te.Value) -> te.Value:
        return te.sum(te.abs(te.cast("int32", x[(*i[:-1], k)]) - te.cast("int32", codes[i[-1], k])), axis=k)

    return te.compute(call.result.extents, value, name)


def qrow_softmax(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QRowSoftmax, along the last dimension."""
    shares, rescale = row_shares(_rows(call), call.attribute("factor")), rescaled_sums(call, 1 << SHARE_BITS)
    return te.compute(shares.shape, lambda *i: rescale(shares[i], 0), call.name())


def qrow_norm(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QRowNorm, along the last dimension; signs and biases are constants."""
    x, sign, bias = _rows(call), call.constant(1, "sign"), call.constant(2, "bias")
    if sign is None or bias is None:
        call.decline("have constant signs and biases")
    greatest = int(np.abs(bias.astype(np.int64)).max()) + (1 << (NORMAL_BITS + x.shape[-1].bit_length() // 2 + 1))
    rescale, signs, biases = rescaled_sums(call, greatest), call.pack("sign", sign), call.pack("bias", bias)
    normal = normal_numbers(x, bool(call.attribute("centred")), call.attribute("least"))

    def value(*i: te.Value) -> te.Value:
        return rescale(of_sign(normal[i], signs[i[-1]]) + biases[i[-1]], i[-1])

    return te.compute(x.shape, value, call.name())


def qrotary(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QRotary, along the last dimension, which has all heads."""
    x, turns, rescale = _rows(call), call.tensor(1), rescaled_sums(call, 1 << 15)
    size, turned = x.shape[-1] // call.attribute("heads"), call.attribute("turned")
    interleaved = bool(call.attribute("interleaved"))
    return te.compute(x.shape, lambda *i: rescale(rotated(x, turns, i, size, turned, interleaved), 0), call.name())


def qfactor(call: NodeCall) -> te.Tensor:
    """The rule of vdla.QFactor: matrices, or their transposes."""
    x, transposed = call.tensor(0), call.attribute("transposed")
    if not transposed:
        return te.compute(x.shape, lambda *i: x[i], call.name())
    return te.compute(call.result.extents, lambda *i: x[(*i[:-2], i[-1], i[-2])], call.name())


def _rows(call: NodeCall) -> te.Tensor:
    x = call.tensor(0)
    if x.dtype != "int8":
        call.decline(f"read int8 elements, got {x.dtype}")
    return x
