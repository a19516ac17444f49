# SPDX-License-Identifier: Apache-2.0
"""Matrix products: `matmul`, batched, and `dense`, whose weight may be packed.

With a bias, or for float16 and bfloat16, `<name>_sum` holds the sums and `<name>` the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vdla.compiler import te
from vdla.compiler.ir import SMALL_FLOATS, Array, storage_dtype
from vdla.compiler.operators.broadcast import broadcast_shape
from vdla.compiler.operators.checks import (
    OperatorError,
    at_least,
    check_bias,
    check_number,
    check_rank,
    check_same_dtype,
    check_weights,
    dim_text,
    is_one,
    same_extent,
    static_extent,
    target_of,
)
from vdla.compiler.operators.layouts import block_size, check_layout
from vdla.compiler.operators.results import accumulator_dtype, result_name, to_accumulator
from vdla.compiler.operators.roles import OPERATOR
from vdla.compiler.target import Target


def matmul(a: te.Tensor, b: te.Tensor, bias: te.Tensor | None = None, name: str | None = None) -> te.Tensor:
    """a [batch..., M, K], b [batch..., K, N], bias [N] -> [batch..., M, N].

    Batch dimensions broadcast as in NumPy. float16 and bfloat16 are summed in float32; integers
    wrap.
    """
    where = "matmul"
    for what, tensor in (("a", a), ("b", b)):
        check_rank(where, what, tensor, 2)
        check_number(where, what, tensor)
    _check_operands(where, a, b, bias, a.shape[-1], b.shape[-2], b.shape[-1])
    batch = broadcast_shape("matmul of batches", a.shape[:-2], b.shape[:-2])
    k = te.reduce_axis(a.shape[-1], "k")

    def value(*i: te.Value) -> te.Value:
        *at, m, n = i
        element = a[(*_batch_index(a, at), m, k)]
        return te.sum(to_accumulator(element) * to_accumulator(b[(*_batch_index(b, at), k, n)]), axis=k)

    return _with_bias(a, bias, (*batch, a.shape[-2], b.shape[-1]), value, result_name(a, where, name))


def dense(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    out_features: int | None = None,
    weight_layout: str = "OI",
    name: str | None = None,
) -> te.Tensor:
    """x [..., M, K], weight [N, K], bias [N] -> [..., M, N]: x times the weight transposed.

    `weight_layout` "OI16o" is a weight that `pack_dense` packed for 16 lanes, [N / 16, K, 16], of
    which the first `out_features` are used.
    """
    where = "dense"
    check_rank(where, "x", x, 2)
    check_number(where, "x", x)
    lanes = block_size(where, "weight_layout", weight_layout, "OI", "o")
    check_layout(where, "weight", weight, weight_layout, lanes)
    features = _out_features(where, weight, lanes, out_features)
    _check_operands(where, x, weight, bias, x.shape[-1], weight.shape[1], features)
    k = te.reduce_axis(x.shape[-1], "k")

    def value(*i: te.Value) -> te.Value:
        *row, n = i
        factor = weight[n, k] if lanes is None else weight[n // lanes, k, n % lanes]
        return te.sum(to_accumulator(x[(*row, k)]) * to_accumulator(factor), axis=k)

    return _with_bias(x, bias, (*x.shape[:-1], features), value, result_name(x, where, name))


def pack_dense(weight: Array, target: Target | str = "host", lanes: int | None = None) -> Array:
    """Packs a weight [N, K] as "OI<lanes>o": [N / lanes, K, lanes], padded with zeros.

    By default `lanes` is the vector length.
    """
    check_weights("pack_dense", weight, "[N, K]")
    lanes = lanes or target_of("pack_dense", target).lanes(storage_dtype(accumulator_dtype(str(weight.dtype))).itemsize)
    padded = np.pad(weight, [(0, -len(weight) % lanes), (0, 0)])
    return np.ascontiguousarray(padded.reshape(-1, lanes, weight.shape[1]).transpose(0, 2, 1))


# --- parts ----------------------------------------------------------------------------------------


def _with_bias(
    x: te.Tensor, bias: te.Tensor | None, shape: Sequence[te.Dim], value: Callable[..., te.Value], name: str
) -> te.Tensor:
    """The stage of the sums, and a stage that adds the bias and rounds if either is needed."""
    annotations = {OPERATOR: "matmul"}
    if bias is None and x.dtype not in SMALL_FLOATS:
        return te.compute(shape, value, name, annotations=annotations)
    total = te.compute(shape, value, f"{name}_sum", annotations=annotations)

    def result(*i: te.Value) -> te.Value:
        return te.cast(x.dtype, total[i] if bias is None else total[i] + to_accumulator(bias[i[-1]]))

    return te.compute(shape, result, name)


def _batch_index(tensor: te.Tensor, at: Sequence[te.Value]) -> tuple[te.Operand, ...]:
    """The batch indices of an operand for the batch indices of the result."""
    extents = tensor.shape[:-2]
    indices = at[len(at) - len(extents) :]
    return tuple(0 if is_one(extent) else index for extent, index in zip(extents, indices, strict=True))


def _check_operands(
    where: str, a: te.Tensor, b: te.Tensor, bias: te.Tensor | None, k: te.Dim, weight_k: te.Dim, features: te.Dim
) -> None:
    """Refuse operands whose dtypes or extents do not fit together."""
    check_same_dtype(where, a, b, *([] if bias is None else [bias]))
    if not same_extent(k, weight_k):
        text = f"{dim_text(k)} and {dim_text(weight_k)}"
        raise OperatorError(f"{where}: both operands must have the same K, got {text}")
    check_bias(where, bias, features)


def _out_features(where: str, weight: te.Tensor, lanes: int | None, out_features: int | None) -> te.Dim:
    """The output features: `out_features`, by default all of the weight's."""
    if out_features is None and lanes is None:
        return weight.shape[0]
    most = static_extent(where, "extent 0 of weight", weight.shape[0]) * (lanes or 1)
    features = most if out_features is None else at_least(where, "out_features", out_features, 1)
    if features > most:
        raise OperatorError(f"{where}: out_features must be at most {most}, those of weight, got {features}")
    return features
