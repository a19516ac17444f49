# SPDX-License-Identifier: Apache-2.0
"""Images in blocks of channels: layout NCHW<L>c, [N, C / L, H, W, L], the last block padded.

A pixel of a block is one vector, so that no kernel reorders channels. Padding channels hold
arbitrary values: their weights are zero.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler import te
from vdla.compiler.ir import Array
from vdla.compiler.operators.checks import OperatorError, at_least, check_rank, static_extent
from vdla.compiler.operators.results import result_name


def blocks_of(channels: int, lanes: int) -> int:
    """The blocks of `lanes` channels."""
    return -(-channels // lanes)


def check_blocked(where: str, what: str, tensor: te.Tensor) -> tuple[int, int]:
    """The blocks and the lanes of an image [N, C / L, H, W, L]."""
    check_rank(where, what, tensor, 5, 5)
    return static_extent(where, f"extent 1 of {what}", tensor.shape[1]), static_extent(
        where, f"extent 4 of {what}", tensor.shape[4]
    )


def check_channels(where: str, channels: object, blocks: int, lanes: int) -> int:
    """A number of channels that need exactly `blocks` blocks."""
    count = at_least(where, "channels", channels, 1)
    if blocks_of(count, lanes) != blocks:
        raise OperatorError(f"{where}: channels must fill {blocks} blocks of {lanes} lanes, got {count}")
    return count


def to_blocked(x: te.Tensor, lanes: int, name: str | None = None) -> te.Tensor:
    """An image [N, C, H, W] as [N, C / lanes, H, W, lanes]; padding channels are zero."""
    where = "to_blocked"
    check_rank(where, "x", x, 4, 4)
    count = at_least(where, "lanes", lanes, 1)
    channels = static_extent(where, "extent 1 of x", x.shape[1])

    def value(n: te.Value, cb: te.Value, h: te.Value, w: te.Value, c: te.Value) -> te.Value:
        channel = cb * count + c
        element = x[n, channel, h, w]
        return te.select(channel < channels, element, te.const(0, x.dtype)) if channels % count else element

    shape = (x.shape[0], blocks_of(channels, count), *x.shape[2:], count)
    return te.compute(shape, value, result_name(x, where, name))


def from_blocked(x: te.Tensor, channels: int, name: str | None = None) -> te.Tensor:
    """An image [N, C / L, H, W, L] as [N, channels, H, W]."""
    where = "from_blocked"
    blocks, lanes = check_blocked(where, "x", x)
    count = check_channels(where, channels, blocks, lanes)
    shape = (x.shape[0], count, *x.shape[2:4])
    return te.compute(shape, lambda n, c, h, w: x[n, c // lanes, h, w, c % lanes], result_name(x, where, name))


def pack_channels(vector: Array, lanes: int) -> Array:
    """A vector of one number a channel, padded with zeros to whole blocks."""
    if not isinstance(vector, np.ndarray) or vector.ndim != 1:
        raise OperatorError(f"pack_channels: vector must be an array [C], got {vector!r}")
    return np.pad(vector, (0, -len(vector) % at_least("pack_channels", "lanes", lanes, 1)))
