"""Integer operators on images in blocks of channels, [N, C / lanes, H, W, lanes], in NumPy.

The arithmetic is that of `integer.py` on the plain image, and attributes are the same. Elements are
int8, or uint8 that stand for int8 numbers plus 128. The last block may have padding channels, whose
values mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.integer import Int8, as_dtype, qaverage_pool, qconv, qmax_pool, signed


def _conv(attributes: Attributes, x: Array, weight: Int8, bias: npt.NDArray[np.int32]) -> tuple[Array]:
    """x plain or in blocks, weight and bias of vdla.QConv -> [N, CO / lanes, OH, OW, lanes]."""
    lanes, dtype = attributes["lanes"], np.dtype(attributes["dtype"])
    options = {key: value for key, value in attributes.items() if key not in ("lanes", "dtype")}
    image = x if x.ndim == weight.ndim else plain(x, weight.shape[1] * attributes["group"])
    return (as_dtype(blocked(qconv(signed(image), weight, bias, **options), lanes), dtype),)


def _pool(compute: Callable[..., Int8]) -> Function:
    """A pool of blocks; the result has their lanes and their dtype."""

    def function(attributes: Attributes, x: Array) -> tuple[Array]:
        return (as_dtype(blocked(compute(signed(plain(x)), **attributes), x.shape[-1]), x.dtype),)

    return function


def _global_average_pool(attributes: Attributes, x: Array) -> tuple[Int8]:
    """vdla.QAveragePool of whole images in blocks: int8 [N, channels, 1, 1]."""
    options = {key: value for key, value in attributes.items() if key != "channels"}
    return (qaverage_pool(signed(plain(x, attributes["channels"])), **options),)


def blocked(x: Array, lanes: int) -> Array:
    """[N, C, H, W] as [N, C / lanes, H, W, lanes], padded with zeros."""
    padded = np.pad(x, [(0, 0), (0, -x.shape[1] % lanes), (0, 0), (0, 0)])
    count, channels, rows, columns = padded.shape
    parts = padded.reshape(count, channels // lanes, lanes, rows, columns)
    return np.ascontiguousarray(parts.transpose(0, 1, 3, 4, 2))


def plain(x: Array, channels: int | None = None) -> Array:
    """[N, C / L, H, W, L] as [N, channels, H, W], by default with the padding channels."""
    count, blocks, rows, columns, lanes = x.shape
    return x.transpose(0, 1, 4, 2, 3).reshape(count, blocks * lanes, rows, columns)[:, :channels]


BLOCKED_INTEGER: Mapping[str, Function] = {
    "vdla.BlockedQConv": _conv,
    "vdla.BlockedQMaxPool": _pool(qmax_pool),
    "vdla.BlockedQAveragePool": _pool(qaverage_pool),
    "vdla.BlockedQGlobalAveragePool": _global_average_pool,
}
