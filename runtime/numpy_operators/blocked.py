"""Operators on images in blocks of channels: each by that of the plain image.

An image in blocks is [N, C / lanes, H, W, lanes]. Here padding channels are zero or the result of
zeros; kernels may leave any values there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.runtime.numpy_operators.convolutions import CONVOLUTIONS
from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.pools import POOLS

_PLAIN_RANK = 4


def to_blocked(x: Array, lanes: int) -> Array:
    """[N, C, H, W] -> [N, C / lanes, H, W, lanes]; padding channels are zero."""
    batch, channels, height, width = x.shape
    whole = np.pad(x, [(0, 0), (0, -channels % lanes), (0, 0), (0, 0)])
    return np.ascontiguousarray(whole.reshape(batch, -1, lanes, height, width).transpose(0, 1, 3, 4, 2))


def from_blocked(x: Array, channels: int | None = None) -> Array:
    """[N, C / lanes, H, W, lanes] -> [N, channels, H, W], by default with padding channels."""
    batch, blocks, height, width, lanes = x.shape
    return np.ascontiguousarray(x.transpose(0, 1, 4, 2, 3).reshape(batch, blocks * lanes, height, width)[:, :channels])


def _conv(attributes: Attributes, x: Array, weight: Array, bias: Array | None = None) -> tuple[Array]:
    """`x` may be a plain image; the result is in blocks of `lanes`, or plain without them."""
    channels = weight.shape[1] * attributes.get("group", 1)
    image = x if x.ndim == _PLAIN_RANK else from_blocked(x, channels)
    (result,) = CONVOLUTIONS["Conv"](attributes, image, weight, bias)
    lanes = attributes.get("lanes")
    return (result if lanes is None else to_blocked(result, lanes),)


def _pool(operator: str) -> Function:
    """A pool by that of the plain image."""

    def function(attributes: Attributes, x: Array) -> tuple[Array]:
        with np.errstate(all="ignore"):  # of padding channels
            result = POOLS[operator](attributes, from_blocked(x))[0]
        return (to_blocked(result, x.shape[-1]),)

    return function


def _global_average_pool(attributes: Attributes, x: Array) -> tuple[Array]:
    (result,) = POOLS["GlobalAveragePool"]({}, from_blocked(x, attributes["channels"]))
    return (result,)


BLOCKED: Mapping[str, Function] = {
    "vdla.BlockedAveragePool": _pool("AveragePool"),
    "vdla.BlockedConv": _conv,
    "vdla.BlockedGlobalAveragePool": _global_average_pool,
    "vdla.BlockedMaxPool": _pool("MaxPool"),
    "vdla.FromBlocked": lambda attributes, x: (from_blocked(x, attributes["channels"]),),
    "vdla.ToBlocked": lambda attributes, x: (to_blocked(x, attributes["lanes"]),),
}
