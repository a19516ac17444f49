"""Matrix products: `matmul`, with leading batch dimensions, and `dense`, whose weights may come packed.

Where there is a bias or the dtype is narrow, `<name>_sum` is the sums and `<name>` the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

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
    machine_of,
    same_extent,
    static_extent,
)
from vdla.compiler.operators.results import accumulator_dtype, result_name, to_accumulator
from vdla.compiler.target import Target

PACKED_RANK = 3  # of weights [N / lanes, K, lanes]


def matmul(a: te.Tensor, b: te.Tensor, bias: te.Tensor | None = None, name: str | None = None) -> te.Tensor:
    """a [batch..., M, K], b [batch..., K, N], bias [N] -> [batch..., M, N].

    Batch dimensions of extent 1 and missing ones are broadcast, as numpy does. Narrow floats are summed in float32;
    integers wrap.
    """
    where = "matmul"
    for what, tensor in (("a", a), ("b", b)):
        check_rank(where, what, tensor, 2)
        check_number(where, what, tensor)
    check_operands(where, a, b, bias, a.shape[-1], b.shape[-2], b.shape[-1])
    batch = broadcast_shape("matmul of batches", a.shape[:-2], b.shape[:-2])
    k = te.reduce_axis(a.shape[-1], "k")

    def value(*i: te.Value) -> te.Value:
        *at, m, n = i
        left = a[(*entry(a, at), m, k)]
        return te.sum(to_accumulator(left) * to_accumulator(b[(*entry(b, at), k, n)]), axis=k)

    return finished(a, bias, (*batch, a.shape[-2], b.shape[-1]), value, result_name(a, where, name))


def dense(
    x: te.Tensor,
    weight: te.Tensor,
    bias: te.Tensor | None = None,
    out_features: int | None = None,
    name: str | None = None,
) -> te.Tensor:
    """x [M, K], weight [N, K], bias [N] -> [M, N], the product with the transposed weight.

    A weight of three dimensions is one that `pack_dense` packed, [N / lanes, K, lanes], of `out_features` features.
    """
    where = "dense"
    check_rank(where, "x", x, 2, 2)
    check_number(where, "x", x)
    check_rank(where, "weight", weight, 2, PACKED_RANK)
    features = kept_features(where, weight, out_features)
    check_operands(where, x, weight, bias, x.shape[1], weight.shape[1], features)
    k = te.reduce_axis(x.shape[1], "k")

    def value(m: te.Value, n: te.Value) -> te.Value:
        factor = weight[n, k] if len(weight.shape) == 2 else weight[n // weight.shape[2], k, n % weight.shape[2]]
        return te.sum(to_accumulator(x[m, k]) * to_accumulator(factor), axis=k)

    return finished(x, bias, (x.shape[0], features), value, result_name(x, where, name))


def pack_dense(weight: Array, target: Target | str = "host") -> Array:
    """Weights [N, K] as [N / lanes, K, lanes], the lanes of the last block filled up with zeros."""
    check_weights("pack_dense", weight, "[N, K]")
    lanes = machine_of("pack_dense", target).lanes(storage_dtype(accumulator_dtype(str(weight.dtype))).itemsize)
    whole = np.pad(weight, [(0, -len(weight) % lanes), (0, 0)])
    return np.ascontiguousarray(whole.reshape(-1, lanes, weight.shape[1]).transpose(0, 2, 1))


# --- parts -----------------------------------------------------------------------------------------------------------


def finished(
    x: te.Tensor, bias: te.Tensor | None, shape: Sequence[te.Dim], value: Callable[..., te.Value], name: str
) -> te.Tensor:
    """The stage of the sums and, where there is one, the stage that adds the bias and narrows."""
    annotations = {"operator": "matmul"}
    if bias is None and x.dtype not in SMALL_FLOATS:
        return te.compute(shape, value, name, annotations=annotations)
    total = te.compute(shape, value, f"{name}_sum", annotations=annotations)

    def result(*i: te.Value) -> te.Value:
        return te.cast(x.dtype, total[i] if bias is None else total[i] + to_accumulator(bias[i[-1]]))

    return te.compute(shape, result, name)


def entry(tensor: te.Tensor, at: Sequence[te.Value]) -> tuple[te.Operand, ...]:
    """The batch indices of a tensor at a place of the result."""
    own = tensor.shape[:-2]
    indices = at[len(at) - len(own) :]
    return tuple(0 if is_one(extent) else index for extent, index in zip(own, indices, strict=True))


def check_operands(
    where: str, a: te.Tensor, b: te.Tensor, bias: te.Tensor | None, k: te.Dim, other: te.Dim, features: te.Dim
) -> None:
    """Refuse operands that do not fit each other."""
    check_same_dtype(where, a, b, *([] if bias is None else [bias]))
    if not same_extent(k, other):
        found = f"{dim_text(k)} and {dim_text(other)}"
        raise OperatorError(f"{where}: both operands must have the same K, got {found}")
    check_bias(where, bias, features)


def kept_features(where: str, weight: te.Tensor, out_features: int | None) -> te.Dim:
    """The number of output features, at most those that the weights have."""
    if out_features is None and len(weight.shape) < PACKED_RANK:
        return weight.shape[0]
    blocks = [static_extent(where, f"extent {d} of weight", weight.shape[d]) for d in range(0, len(weight.shape), 2)]
    most = prod(blocks)
    if out_features is None:
        return most
    kept = at_least(where, "out_features", out_features, 1)
    if kept > most:
        raise OperatorError(f"{where}: out_features must be at most {most}, those of the weights, got {kept}")
    return kept
