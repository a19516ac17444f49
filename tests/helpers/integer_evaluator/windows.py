# SPDX-License-Identifier: Apache-2.0
"""Windows of convolutions and pools over any number of spatial dimensions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from helpers.integer_evaluator.quantised import Array


@dataclass(frozen=True, slots=True)
class Window:
    """One value a spatial dimension; `after` may reach past the declared padding (ceil_mode)."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    results: tuple[int, ...]
    declared_after: tuple[int, ...]


def window(sizes: Sequence[int], kernel: Sequence[int], attributes: Mapping[str, Any]) -> Window:
    """The windows over a tensor of spatial `sizes`, from the attributes of a node."""
    rank = len(sizes)
    strides = tuple(attributes.get("strides", [1] * rank))
    dilations = tuple(attributes.get("dilations", [1] * rank))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    before, after = _pads(sizes, strides, reach, attributes)
    results, covered = [], []
    for size, step, far, first, last in zip(sizes, strides, reach, before, after, strict=True):
        space = size + first + last - far
        count = space // step + 1
        if attributes.get("ceil_mode", 0):
            count = -(-space // step) + 1
            count -= (count - 1) * step >= size + first  # a window may not begin in the padding behind
        results.append(count)
        covered.append(max(last, (count - 1) * step + far - size - first))
    return Window(
        kernel=tuple(kernel),
        strides=strides,
        dilations=dilations,
        before=tuple(before),
        after=tuple(covered),
        results=tuple(results),
        declared_after=tuple(after),
    )


def _pads(
    sizes: Sequence[int], strides: Sequence[int], reach: Sequence[int], attributes: Mapping[str, Any]
) -> tuple[list[int], list[int]]:
    rank, mode = len(sizes), attributes.get("auto_pad", b"NOTSET").decode()
    if mode == "NOTSET":
        pads = list(attributes.get("pads", [0] * (2 * rank)))
        return pads[:rank], pads[rank:]
    if mode == "VALID":
        return [0] * rank, [0] * rank
    total = [
        max((-(-size // step) - 1) * step + far - size, 0)
        for size, step, far in zip(sizes, strides, reach, strict=True)
    ]
    less, more = [value // 2 for value in total], [value - value // 2 for value in total]
    return (less, more) if mode == "SAME_UPPER" else (more, less)


def views(x: Array, shape: Window, fill: int) -> Array:
    """[N, C, *results, *kernel]: the elements under each window of x [N, C, *sizes]."""
    ends = zip(shape.before, shape.after, strict=True)
    return _views_of_padded(np.pad(x, [(0, 0), (0, 0), *ends], constant_values=fill), shape)


def counts(sizes: Sequence[int], shape: Window, include_pad: bool) -> Array:
    """[*results]: the elements that each window of an average pool divides by."""
    inside = np.ones((1, 1, *sizes), np.int64)
    declared = zip(shape.before, shape.declared_after, strict=True)
    inside = np.pad(inside, [(0, 0), (0, 0), *declared], constant_values=int(include_pad))
    beyond = ((0, after - last) for after, last in zip(shape.after, shape.declared_after, strict=True))
    inside = np.pad(inside, [(0, 0), (0, 0), *beyond])
    return _views_of_padded(inside, shape).sum(axis=tuple(range(-len(sizes), 0)))[0, 0]


def _views_of_padded(padded: Array, shape: Window) -> Array:
    reach = [(k - 1) * d + 1 for k, d in zip(shape.kernel, shape.dilations, strict=True)]
    everywhere = np.lib.stride_tricks.sliding_window_view(padded, reach, axis=tuple(range(2, padded.ndim)))
    places = [slice(0, (n - 1) * s + 1, s) for n, s in zip(shape.results, shape.strides, strict=True)]
    taps = [slice(None, None, d) for d in shape.dilations]
    return everywhere[(slice(None), slice(None), *places, *taps)]
