# SPDX-License-Identifier: Apache-2.0
"""From the statistics of a value to the range that its integers cover, by one of four methods.

minmax: every value. percentile: all but the outermost values. mse: the least squared error.
entropy: the least Kullback-Leibler divergence of the distributions (Migacz, 8-bit inference with
TensorRT, 2017).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from vdla.compiler.graph.quantise.statistics import Float64, ValueStatistics

Range = tuple[float, float]
LEVELS = 256
_SHRINK = np.linspace(1, 0.3, 36)
_OUTERMOST = 1e-4  # the share of values beyond a percentile range, on either side


def minmax(statistics: ValueStatistics) -> Range:
    """The least and the greatest value."""
    return statistics.low, statistics.high


def percentile(statistics: ValueStatistics) -> Range:
    """The range without 0.01 % of the values on either side."""
    reached = np.cumsum(statistics.counts) / max(statistics.elements, 1)
    low, high = np.searchsorted(reached, [_OUTERMOST, 1 - _OUTERMOST])
    last = len(reached) - 1
    edges = (statistics.first + np.array([min(low, last), min(high, last) + 1])) * statistics.width
    return max(float(edges[0]), statistics.low), min(float(edges[1]), statistics.high)


def least_squares(statistics: ValueStatistics) -> Range:
    """The range of the least squared error: both ends are moved in turn until neither improves."""
    used = statistics.counts > 0
    values, counts = statistics.centres[used], statistics.counts[used].astype(np.float64)
    ends = np.array([min(statistics.low, 0.0), max(statistics.high, 0.0)])
    full, best = ends.copy(), squared_error(values, counts, ends[0], ends[1])
    for _ in range(2):
        for side in range(2):
            for shrink in _SHRINK:
                tried = ends.copy()
                tried[side] = full[side] * shrink
                error = squared_error(values, counts, tried[0], tried[1])
                if error < best:
                    best, ends = error, tried
    return float(ends[0]), float(ends[1])


def squared_error(values: Float64, counts: Float64, low: float, high: float) -> float:
    """The sum of squared errors of values quantised to LEVELS levels of a range."""
    scale = (high - low) / (LEVELS - 1)
    if scale <= 0:
        return float((counts * values**2).sum())
    levels = np.clip(np.rint((values - low) / scale), 0, LEVELS - 1)
    return float((counts * (levels * scale + low - values) ** 2).sum())


def entropy(statistics: ValueStatistics) -> Range:
    """The range whose quantised distribution diverges least, both ends shrunk alike.

    Exact zeros, often half of the values behind a Relu, have a level of their own in any range and
    are left out.
    """
    ends = np.array([min(statistics.low, 0.0), max(statistics.high, 0.0)])
    tried = [ends * shrink for shrink in _SHRINK]
    counts = _without_zeros(statistics)
    costs = [_divergence(statistics.centres, counts, *bounds) for bounds in tried]
    best = tried[int(np.argmin(costs))]
    return float(best[0]), float(best[1])


def _without_zeros(statistics: ValueStatistics) -> Float64:
    """The histogram with no more values in the bin of 0 than beside it."""
    counts, zero = statistics.counts.astype(np.float64), -statistics.first
    if 0 <= zero < len(counts):
        beside = counts[[i for i in (zero - 1, zero + 1) if 0 <= i < len(counts)]]
        counts[zero] = min(counts[zero], beside.max(initial=0))
    return counts


def _divergence(centres: Float64, counts: Float64, low: float, high: float) -> float:
    """The divergence of the values, clipped to a range, from their quantised distribution."""
    scale = (high - low) / (LEVELS - 1)
    if scale <= 0:
        return np.inf
    inside = (centres >= low) & (centres <= high)
    if not inside.any():
        return np.inf
    kept = counts[inside]
    clipped = kept.copy()
    clipped[0] += counts[centres < low].sum()
    clipped[-1] += counts[centres > high].sum()
    level = np.clip(np.rint((centres[inside] - low) / scale), 0, LEVELS - 1).astype(np.int64)
    used = kept > 0
    totals = np.bincount(level, kept, LEVELS)
    bins = np.bincount(level, used, LEVELS)
    spread = np.where(used, totals[level] / np.maximum(bins[level], 1), 0)
    p, q = clipped / clipped.sum(), spread / max(spread.sum(), 1)
    both = (p > 0) & (q > 0)
    lost = p[(p > 0) & (q == 0)].sum()
    return float((p[both] * np.log(p[both] / q[both])).sum() + lost * np.log(LEVELS))


METHODS: Mapping[str, Callable[[ValueStatistics], Range]] = {
    "minmax": minmax,
    "percentile": percentile,
    "mse": least_squares,
    "entropy": entropy,
}
