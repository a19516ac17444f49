# SPDX-License-Identifier: Apache-2.0
"""Statistics of values over calibration data, gathered batch by batch in bounded memory.

The bins of a histogram are [k * width, (k + 1) * width) for a width that is a power of two. When
values leave the range that the bins cover, pairs of bins become one, without any error.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph.graph import Array
from vdla.support.errors import Error, Notice

Float64 = npt.NDArray[np.float64]
_MOST_BINS = 8192
_FIRST_BINS = 2048  # at least, over the range of the first batch


class QuantiseError(Error, ValueError):
    """Options, calibration data or weights with which a network cannot be quantised."""


class QuantiseWarning(Notice):
    """A part of a result is lost in int8; the message names it."""


@dataclass(slots=True)
class ValueStatistics:
    """The range, the histogram and the means along one dimension of one value.

    `counts[i]` elements lie in bin `first + i`. Unless all must be `finite`, others do not count.
    """

    name: str
    channel_axis: int = 1
    finite: bool = True
    low: float = np.inf
    high: float = -np.inf
    elements: int = 0
    width: float = 0.0
    first: int = 0
    counts: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    totals: Float64 | None = None
    per_channel: int = 0

    def update(self, values: Array) -> None:
        """Adds a batch.

        Raises:
            QuantiseError: the batch contains NaN or infinity.
        """
        if self.finite:
            check_finite(f"calibration: {self.name}", values)
        elif not np.isfinite(values).all():
            values = values[np.isfinite(values)].reshape(-1, 1)
        if not values.size:
            return
        flat = values.astype(np.float64).reshape(-1)
        self.low, self.high = min(self.low, float(flat.min())), max(self.high, float(flat.max()))
        self.elements += flat.size
        self._update_means(values)
        self._cover(float(flat.min()), float(flat.max()))
        bins = np.floor(flat / self.width).astype(np.int64) - self.first
        self.counts += np.bincount(bins, minlength=len(self.counts))

    @property
    def centres(self) -> Float64:
        """The centres of the bins."""
        return np.asarray((self.first + np.arange(len(self.counts)) + 0.5) * self.width, np.float64)

    @property
    def means(self) -> Float64:
        """The means along the dimension of channels; one mean for values without it."""
        if self.totals is None:
            return np.zeros(1)
        return np.asarray(self.totals / max(self.per_channel, 1), np.float64)

    def _update_means(self, values: Array) -> None:
        channel = self.channel_axis % max(values.ndim, 1)
        axes = tuple(d for d in range(values.ndim) if d != channel)
        totals = values.astype(np.float64).sum(axis=axes).reshape(-1)
        if self.totals is not None and self.totals.shape != totals.shape:
            self.totals, self.per_channel = np.zeros_like(totals), 0  # a dimension of varying extent
        self.totals = totals if self.totals is None else self.totals + totals
        self.per_channel += values.size // max(len(totals), 1)

    def _cover(self, low: float, high: float) -> None:
        """Bins that hold values from `low` to `high`."""
        if not self.width:
            span = max(high - low, abs(low), abs(high), 1e-30)
            self.width = 2.0 ** np.floor(np.log2(span / _FIRST_BINS))
            self.first = int(np.floor(low / self.width))
        while self._needed(low, high)[1] > _MOST_BINS:
            self._merge()
        first, length = self._needed(low, high)
        wider = np.zeros(length, np.int64)
        start = self.first - first
        wider[start : start + len(self.counts)] = self.counts
        self.first, self.counts = first, wider

    def _needed(self, low: float, high: float) -> tuple[int, int]:
        """The first bin and the number of bins for the old and the new values."""
        first, last = int(np.floor(low / self.width)), int(np.floor(high / self.width))
        if len(self.counts):
            first, last = min(first, self.first), max(last, self.first + len(self.counts) - 1)
        return first, last - first + 1

    def _merge(self) -> None:
        """Bins of twice the width."""
        before = self.first % 2
        padded = np.pad(self.counts, (before, (before + len(self.counts)) % 2))
        self.counts = padded.reshape(-1, 2).sum(axis=1)
        self.first, self.width = self.first // 2, 2 * self.width


def check_finite(where: str, values: Array) -> None:
    """Refuses NaN and infinity."""
    bad = ~np.isfinite(values)
    if bad.any():
        raise QuantiseError(f"{where} must be finite, got {values[bad].flat[0]} in {int(bad.sum())} of {values.size}")
