# SPDX-License-Identifier: Apache-2.0
"""Images in blocks of channels, [N, C / lanes, H, W, lanes]: any operator by that of plain images.

Padding channels are zero here; kernels may leave any values in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vdla.runtime.numpy_operators.function import Array, Attributes, Function, Value


@dataclass(frozen=True, slots=True)
class ChannelBlocks:
    """The layout of an image in blocks of `lanes` channels, of elements of `dtype`."""

    channels: int
    lanes: int
    dtype: str


def to_blocked(x: Array, lanes: int) -> Array:
    """[N, C, H, W] -> [N, C / lanes, H, W, lanes]; padding channels are zero."""
    batch, channels, height, width = x.shape
    whole = np.pad(x, [(0, 0), (0, -channels % lanes), (0, 0), (0, 0)])
    return np.ascontiguousarray(whole.reshape(batch, -1, lanes, height, width).transpose(0, 1, 3, 4, 2))


def from_blocked(x: Array, channels: int) -> Array:
    """[N, C / lanes, H, W, lanes] -> [N, channels, H, W]."""
    batch, blocks, height, width, lanes = x.shape
    return np.ascontiguousarray(x.transpose(0, 1, 4, 2, 3).reshape(batch, blocks * lanes, height, width)[:, :channels])


def call_in_layouts(
    function: Callable[..., Sequence[Value]],
    attributes: Attributes,
    arrays: Sequence[Value],
    inputs: Sequence[ChannelBlocks | None],
    outputs: Sequence[ChannelBlocks | None],
) -> tuple[Value, ...]:
    """The results of a function of plain images, for images in layouts; plain values have None."""
    plain = [
        array if layout is None else from_blocked(array, layout.channels)
        for array, layout in zip(arrays, inputs, strict=True)
    ]
    results = function(attributes, *plain)
    known = (*outputs, *(None,) * (len(results) - len(outputs)))
    return tuple(
        result if layout is None else _in_layout(result, layout) for result, layout in zip(results, known, strict=False)
    )


def _in_layout(result: Array, layout: ChannelBlocks) -> Array:
    """A plain image in blocks; int8 numbers are 128 more where the elements are uint8."""
    is_same = result.dtype.name == layout.dtype
    return to_blocked(result if is_same else (result.view(np.uint8) ^ np.uint8(0x80)).view(layout.dtype), layout.lanes)


REPACK: Mapping[str, Function] = {"vdla.Repack": lambda attributes, x: (x,)}
"""A repack is the image itself: the layouts of its types say the rest."""
