# SPDX-License-Identifier: Apache-2.0
"""TensorFlow Lite's normalisation of int8 rows in NumPy, in fixed point throughout."""

from __future__ import annotations

import numpy as np

from vdla.hardware.fixed_point import scale_fixed_point
from vdla.hardware.inverse_root import inverse_root
from vdla.runtime.numpy_operators.requantise import Int8

_UNITS = 7  # bits of a fraction in the result


def qnormalise(x: Int8, *, x_zero_point: int) -> Int8:
    """Rows of the last dimension over their Euclidean lengths, in units of 1/128."""
    centred = x.astype(np.int64) - x_zero_point
    multiplier, shift = inverse_root((centred * centred).sum(axis=-1, keepdims=True))
    return np.asarray(np.clip(scale_fixed_point(centred, multiplier, shift + _UNITS), -128, 127), np.int8)
