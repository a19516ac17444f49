# SPDX-License-Identifier: Apache-2.0
"""Exact integer sums by float64 matrix products, which are exact below 2^53."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from math import prod
from typing import Any

import numpy as np

from helpers.integer_evaluator.quantised import Array
from helpers.integer_evaluator.windows import views, window

EXACT = 2**53


def matrix_product(a: Array, b: Array) -> Array:
    """int64 a @ b."""
    depth = a.shape[-1]
    largest = depth * int(np.abs(a).max(initial=0)) * int(np.abs(b).max(initial=0))
    assert largest < EXACT, "operands are too large for float64"
    return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)


def convolution(x: Array, w: Array, attributes: Mapping[str, Any]) -> Array:
    """x [N, C, *S], w [M, C / group, *K] to [N, M, *O]; padding is 0."""
    group, rank = attributes.get("group", 1), x.ndim - 2
    shape = window(x.shape[2:], w.shape[2:], attributes)
    under = views(x, shape, 0).reshape(len(x), group, -1, *shape.results, *shape.kernel)
    # [N, G, C / G, *K, *O], so that a column holds all that one result sums.
    order = (0, 1, 2, *range(3 + rank, 3 + 2 * rank), *range(3, 3 + rank))
    columns = under.transpose(order).reshape(len(x), group, -1, prod(shape.results))
    rows = w.reshape(group, len(w) // group, -1)
    return matrix_product(rows, columns).reshape(len(x), len(w), *shape.results)


def transposed_convolution(x: Array, w: Array, attributes: Mapping[str, Any]) -> Array:
    """x [N, C, *S], w [C, M / group, *K] to [N, M, *O]."""
    group, rank = attributes.get("group", 1), x.ndim - 2
    kernel, sizes = w.shape[2:], x.shape[2:]
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    extra = attributes.get("output_padding", [0] * rank)
    full = [(n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(sizes, strides, kernel, dilations, strict=True)]
    before, after = _cropped(full, sizes, strides, extra, attributes)
    assert all(value >= 0 for value in before)
    channels = group * w.shape[1]
    total = np.zeros((len(x), channels, *(n + e for n, e in zip(full, extra, strict=True))), np.int64)
    inputs = x.reshape(len(x), group, -1, prod(sizes))
    for tap in product(*map(range, kernel)):
        rows = w[(slice(None), slice(None), *tap)].reshape(group, -1, w.shape[1]).transpose(0, 2, 1)
        part = matrix_product(rows, inputs).reshape(len(x), channels, *sizes)
        places = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilations, sizes, strides, strict=True)
        )
        total[(slice(None), slice(None), *places)] += part
    kept = tuple(slice(b, n - a) for b, a, n in zip(before, after, total.shape[2:], strict=True))
    return total[(slice(None), slice(None), *kept)]


def _cropped(
    full: list[int], sizes: tuple[int, ...], strides: list[int], extra: list[int], attributes: Mapping[str, Any]
) -> tuple[list[int], list[int]]:
    """The pads: results that are cut off before and after each dimension."""
    rank, mode = len(full), attributes.get("auto_pad", b"NOTSET").decode()
    wanted = attributes.get("output_shape")
    if wanted is None and mode.startswith("SAME"):
        wanted = [n * s for n, s in zip(sizes, strides, strict=True)]
    if wanted is None:
        pads = attributes.get("pads", [0] * (2 * rank))
        return list(pads[:rank]), list(pads[rank:])
    total = [n + e - out for n, e, out in zip(full, extra, wanted[-rank:], strict=True)]
    less, more = [value // 2 for value in total], [value - value // 2 for value in total]
    return (less, more) if mode == "SAME_UPPER" else (more, less)


def window_sums(x: Array, kernel: list[int], attributes: Mapping[str, Any]) -> Array:
    """[N, C, *O]: the sum under each window of x [N, C, *S]; padding is 0."""
    rank = x.ndim - 2
    return views(x, window(x.shape[2:], kernel, attributes), 0).sum(axis=tuple(range(-rank, 0)))


def window_maxima(x: Array, kernel: list[int], attributes: Mapping[str, Any]) -> Array:
    """[N, C, *O]: the largest element under each window."""
    rank = x.ndim - 2
    return views(x, window(x.shape[2:], kernel, attributes), -(2**40)).max(axis=tuple(range(-rank, 0)))
