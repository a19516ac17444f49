# SPDX-License-Identifier: Apache-2.0
"""Scales of groups of a weight as small integers times one scale for each output."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph.graph import Array

MOST_FACTOR = 16
"""The greatest factor: times a number of four bits, it fits int8."""


def common_scale(scales: Array) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]] | None:
    """The greatest scale of each output, and factors up to MOST_FACTOR, whose products are the
    scales of groups [groups, outputs]; None if there are none.
    """
    wide = scales.astype(np.float64)
    result, factors = np.zeros(wide.shape[1]), np.zeros(wide.shape, np.int64)
    for factor in range(1, MOST_FACTOR + 1):
        tried = (wide.max(axis=0) / factor).astype(np.float32).astype(np.float64)
        whole = np.rint(wide / tried)
        fits = (whole * tried == wide).all(axis=0) & (whole >= 1).all(axis=0) & (result == 0)
        result, factors = np.where(fits, tried, result), np.where(fits, whole.astype(np.int64), factors)
    return (result.astype(np.float32), factors) if result.all() else None
