# SPDX-License-Identifier: Apache-2.0
"""Dense layers of networks with blocks of weights, as block_floating.py has them."""

import numpy as np

import vdla
from vdla import te


def wide(value):
    return te.cast("int32", value)


def exponent(value):
    return wide(value) & 7


def blocks(numbers, size, bits):
    """Blocks of [outputs, terms] integers: mantissas of so many bits, then their exponent."""
    parts = np.asarray(numbers, int).reshape(len(numbers), -1, size - 1)
    most = np.abs(parts).max(axis=-1, keepdims=True)
    shift = np.ceil(np.log2(np.maximum(most, 1) / (2 ** (bits - 1) - 1))).clip(0, 7).astype(int)
    return np.concatenate([parts >> shift, shift], axis=-1).astype(np.int8)


def formulation(layer, config):
    """A dense layer of a network with such blocks of weights; inputs have exponents of 0."""
    layer.definition.require("dense")
    x, weights = layer.definition.inputs[0], layer.constants["weight"]
    size, (outputs, features) = config.block_in, weights.shape
    terms = size - 1
    if features % terms:
        raise vdla.LayerError(f"features must be a multiple of {terms}, got {features}")
    values = blocks(weights, size, config.wgt_bits)
    if not np.array_equal(values[..., :-1].astype(int) << values[..., -1:], weights.reshape(outputs, -1, terms)):
        raise vdla.LayerError(f"blocks of {terms} weights must have mantissas of {config.wgt_bits} bits, got others")
    shape = x.shape[0], features // terms, size
    inputs = te.compute(
        shape, lambda n, k, i: te.select(i < terms, x[n, k * terms + i], te.const(0, x.dtype)), "blocks"
    )
    data = te.placeholder(shape, x.dtype, "blocks")
    w = te.placeholder((outputs, features // terms, size), config.wgt_dtype, "exponents")
    k, i = te.reduce_axis(features // terms, "k"), te.reduce_axis(terms, "i")

    def value(n, m):
        shift = exponent(data[n, k, terms]) + exponent(w[m, k, terms])
        return te.sum(wide(data[n, k, i]) * wide(w[m, k, i]) << shift, axis=[k, i])

    sums = te.compute((x.shape[0], outputs), value, "sums")
    return vdla.Formulation(vdla.definitions.requantised(sums, 1)[1], {"exponents": values}, packed=[inputs])
