# SPDX-License-Identifier: Apache-2.0
"""Products of matrices and vectors, one or many, as networks use them."""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.definitions.definition import Sums, definition, product


@definition
def dense(
    *, rows: int, in_features: int, out_features: int, raw: bool = True, dtype: str = "int8", weight_dtype: str = "int8"
) -> Sums:
    """[rows, in_features] times the transpose of [out_features, in_features]."""
    data = te.placeholder((rows, in_features), dtype, "data")
    weight = te.placeholder((out_features, in_features), weight_dtype, "weight")
    k = te.reduce_axis(in_features, "k")
    sums = te.compute((rows, out_features), lambda m, n: te.sum(product(data[m, k], weight[n, k]), axis=k), "sums")
    return [data, weight], sums


@definition
def matrix_vector(*, rows: int, columns: int, dtype: str = "int8", weight_dtype: str = "int8") -> Sums:
    """[rows, columns] times [columns]."""
    matrix = te.placeholder((rows, columns), weight_dtype, "matrix")
    vector = te.placeholder((columns,), dtype, "vector")
    k = te.reduce_axis(columns, "k")
    sums = te.compute((rows,), lambda m: te.sum(product(vector[k], matrix[m, k]), axis=k), "sums")
    return (matrix, vector), sums


@definition
def batched_product(
    *, batch: int, rows: int, depth: int, columns: int, dtype: str = "int8", weight_dtype: str = "int8"
) -> Sums:
    """[batch, rows, depth] times [batch, depth, columns]."""
    data = te.placeholder((batch, rows, depth), dtype, "data")
    second = te.placeholder((batch, depth, columns), weight_dtype, "other")
    k = te.reduce_axis(depth, "k")
    sums = te.compute(
        (batch, rows, columns), lambda b, m, n: te.sum(product(data[b, m, k], second[b, k, n]), axis=k), "sums"
    )
    return (data, second), sums


@definition
def attention_scores(
    *, batch: int, heads: int, tokens: int, size: int, dtype: str = "int8", weight_dtype: str = "int8"
) -> Sums:
    """Queries times keys, both [batch, tokens, heads, size]: [batch, heads, tokens, tokens]."""
    queries = te.placeholder((batch, tokens, heads, size), dtype, "queries")
    keys = te.placeholder((batch, tokens, heads, size), weight_dtype, "keys")
    d = te.reduce_axis(size, "d")
    sums = te.compute(
        (batch, heads, tokens, tokens),
        lambda b, h, q, k: te.sum(product(queries[b, q, h, d], keys[b, k, h, d]), axis=d),
        "sums",
    )
    return (queries, keys), sums


@definition
def attention_values(
    *, batch: int, heads: int, tokens: int, size: int, dtype: str = "int8", weight_dtype: str = "int8"
) -> Sums:
    """Weights [batch, heads, tokens, tokens] times values [batch, tokens, heads, size]: [batch,
    tokens, heads, size].
    """
    shares = te.placeholder((batch, heads, tokens, tokens), dtype, "shares")
    values = te.placeholder((batch, tokens, heads, size), weight_dtype, "values")
    k = te.reduce_axis(tokens, "k")
    sums = te.compute(
        (batch, tokens, heads, size),
        lambda b, q, h, d: te.sum(product(shares[b, h, q, k], values[b, k, h, d]), axis=k),
        "sums",
    )
    return (shares, values), sums


@definition
def lstm_gates(*, batch: int, inputs: int, hidden: int, dtype: str = "int8", weight_dtype: str = "int8") -> Sums:
    """The sums of the four gates: [batch, inputs + hidden] times [4, hidden, inputs + hidden]."""
    state = te.placeholder((batch, inputs + hidden), dtype, "state")
    weight = te.placeholder((4, hidden, inputs + hidden), weight_dtype, "weight")
    k = te.reduce_axis(inputs + hidden, "k")
    sums = te.compute((batch, 4, hidden), lambda n, g, u: te.sum(product(state[n, k], weight[g, u, k]), axis=k), "sums")
    return (state, weight), sums


@definition
def correlation(
    *, batch: int, channels: int, height: int, width: int, reach: int, dtype: str = "int8", weight_dtype: str = "int8"
) -> Sums:
    """The dot product of every pixel's channels with each pixel up to `reach` - 1 rows below and
    columns to the right: [batch, reach, reach, height, width].

    The second map is larger than the first by `reach` - 1 rows and columns.
    """
    first = te.placeholder((batch, channels, height, width), dtype, "first")
    second = te.placeholder((batch, channels, height + reach - 1, width + reach - 1), weight_dtype, "second")
    c = te.reduce_axis(channels, "c")
    sums = te.compute(
        (batch, reach, reach, height, width),
        lambda n, v, u, y, x: te.sum(product(first[n, c, y, x], second[n, c, y + v, x + u]), axis=c),
        "sums",
    )
    return (first, second), sums
