"""Products of matrices and vectors, one or many, as networks use them."""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.definitions.definition import Definition, defined, product, require_extents, with_options


@with_options
def dense(
    *, rows: int, in_features: int, out_features: int, raw: bool = True, dtype: str = "int8", weight_dtype: str = "int8"
) -> Definition:
    """[rows, in_features] times the transpose of [out_features, in_features]."""
    require_extents("dense", rows=rows, in_features=in_features, out_features=out_features)
    data = te.placeholder((rows, in_features), dtype, "data")
    weight = te.placeholder((out_features, in_features), weight_dtype, "weight")
    k = te.reduce_axis(in_features, "k")
    sums = te.compute((rows, out_features), lambda m, n: te.sum(product(data[m, k], weight[n, k]), axis=k), "sums")
    return defined("dense", [data, weight], sums, None if raw else 1, dtype)


@with_options
def matrix_vector(*, rows: int, columns: int, dtype: str = "int8", weight_dtype: str = "int8") -> Definition:
    """[rows, columns] times [columns]."""
    require_extents("matrix_vector", rows=rows, columns=columns)
    matrix = te.placeholder((rows, columns), weight_dtype, "matrix")
    vector = te.placeholder((columns,), dtype, "vector")
    k = te.reduce_axis(columns, "k")
    sums = te.compute((rows,), lambda m: te.sum(product(vector[k], matrix[m, k]), axis=k), "sums")
    return Definition("matrix_vector", (matrix, vector), sums)


@with_options
def batched_product(
    *, batch: int, rows: int, depth: int, columns: int, dtype: str = "int8", weight_dtype: str = "int8"
) -> Definition:
    """[batch, rows, depth] times [batch, depth, columns]."""
    require_extents("batched_product", batch=batch, rows=rows, depth=depth, columns=columns)
    data = te.placeholder((batch, rows, depth), dtype, "data")
    other = te.placeholder((batch, depth, columns), weight_dtype, "other")
    k = te.reduce_axis(depth, "k")
    sums = te.compute(
        (batch, rows, columns), lambda b, m, n: te.sum(product(data[b, m, k], other[b, k, n]), axis=k), "sums"
    )
    return Definition("batched_product", (data, other), sums)


@with_options
def attention_scores(
    *, batch: int, heads: int, tokens: int, size: int, dtype: str = "int8", weight_dtype: str = "int8"
) -> Definition:
    """Queries times keys, both [batch, tokens, heads, size]: [batch, heads, tokens, tokens]."""
    require_extents("attention_scores", batch=batch, heads=heads, tokens=tokens, size=size)
    queries = te.placeholder((batch, tokens, heads, size), dtype, "queries")
    keys = te.placeholder((batch, tokens, heads, size), weight_dtype, "keys")
    d = te.reduce_axis(size, "d")
    sums = te.compute(
        (batch, heads, tokens, tokens),
        lambda b, h, q, k: te.sum(product(queries[b, q, h, d], keys[b, k, h, d]), axis=d),
        "sums",
    )
    return Definition("attention_scores", (queries, keys), sums)


@with_options
def attention_values(
    *, batch: int, heads: int, tokens: int, size: int, dtype: str = "int8", weight_dtype: str = "int8"
) -> Definition:
    """Weights [batch, heads, tokens, tokens] times values [batch, tokens, heads, size]: [batch,
    tokens, heads, size].
    """
    require_extents("attention_values", batch=batch, heads=heads, tokens=tokens, size=size)
    shares = te.placeholder((batch, heads, tokens, tokens), dtype, "shares")
    values = te.placeholder((batch, tokens, heads, size), weight_dtype, "values")
    k = te.reduce_axis(tokens, "k")
    sums = te.compute(
        (batch, tokens, heads, size),
        lambda b, q, h, d: te.sum(product(shares[b, h, q, k], values[b, k, h, d]), axis=k),
        "sums",
    )
    return Definition("attention_values", (shares, values), sums)


@with_options
def lstm_gates(*, batch: int, inputs: int, hidden: int, dtype: str = "int8", weight_dtype: str = "int8") -> Definition:
    """The sums of the four gates: [batch, inputs + hidden] times [4, hidden, inputs + hidden]."""
    require_extents("lstm_gates", batch=batch, inputs=inputs, hidden=hidden)
    state = te.placeholder((batch, inputs + hidden), dtype, "state")
    weight = te.placeholder((4, hidden, inputs + hidden), weight_dtype, "weight")
    k = te.reduce_axis(inputs + hidden, "k")
    sums = te.compute((batch, 4, hidden), lambda n, g, u: te.sum(product(state[n, k], weight[g, u, k]), axis=k), "sums")
    return Definition("lstm_gates", (state, weight), sums)
