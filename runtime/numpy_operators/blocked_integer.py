"""Integer operators on images in blocks of channels, [N, C / lanes, H, W, lanes], in NumPy.

The arithmetic is that of `integer.py` on the plain image, and attributes are the same. Elements are
int8, or uint8 that stand for int8 numbers plus 128. The last block may have padding channels, whose
values mean nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from vdla.runtime.numpy_operators.blocked import from_blocked, to_blocked
from vdla.runtime.numpy_operators.function import Array, Attributes, Function
from vdla.runtime.numpy_operators.integer import as_dtype, qconv, qconv_transpose, qmax_pool, signed
from vdla.runtime.numpy_operators.requantise import Int8
from vdla.runtime.numpy_operators.windows import qaverage_pool


def _conv(attributes: Attributes, x: Array, weight: Int8, bias: npt.NDArray[np.int32]) -> tuple[Array]:
    """x plain or in blocks, weight and bias of vdla.QConv -> [N, CO / lanes, OH, OW, lanes]."""
    image = x if x.ndim == weight.ndim else from_blocked(x, weight.shape[1] * attributes["group"])
    return _convolved(qconv, attributes, image, weight, bias)


def _conv_transpose(attributes: Attributes, x: Array, weight: Int8, bias: npt.NDArray[np.int32]) -> tuple[Array]:
    """x plain or in blocks, weight and bias of vdla.QConvTranspose, the result in blocks."""
    image = x if x.ndim == weight.ndim else from_blocked(x, len(weight))
    return _convolved(qconv_transpose, attributes, image, weight, bias)


def _convolved(compute: Callable[..., Int8], attributes: Attributes, image: Array, *operands: Array) -> tuple[Array]:
    """The result for a plain image in blocks."""
    lanes, dtype = attributes["lanes"], np.dtype(attributes["dtype"])
    options = {key: value for key, value in attributes.items() if key not in ("lanes", "dtype")}
    return (as_dtype(to_blocked(compute(signed(image), *operands, **options), lanes), dtype),)


def _pool(compute: Callable[..., Int8]) -> Function:
    """A pool of blocks; the result has their lanes and their dtype."""

    def function(attributes: Attributes, x: Array) -> tuple[Array]:
        return (as_dtype(to_blocked(compute(signed(from_blocked(x)), **attributes), x.shape[-1]), x.dtype),)

    return function


def _global_average_pool(attributes: Attributes, x: Array) -> tuple[Int8]:
    """vdla.QAveragePool of whole images in blocks: int8 [N, channels, 1, 1]."""
    options = {key: value for key, value in attributes.items() if key != "channels"}
    return (qaverage_pool(signed(from_blocked(x, attributes["channels"])), **options),)


BLOCKED_INTEGER: Mapping[str, Function] = {
    "vdla.BlockedQConv": _conv,
    "vdla.BlockedQConvTranspose": _conv_transpose,
    "vdla.BlockedQMaxPool": _pool(qmax_pool),
    "vdla.BlockedQAveragePool": _pool(qaverage_pool),
    "vdla.BlockedQGlobalAveragePool": _global_average_pool,
}
