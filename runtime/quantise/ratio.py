"""Signal and noise of arrays, summed batch by batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vdla.compiler.graph import Array


@dataclass(slots=True)
class Ratio:
    """Sums of signal and noise: 10 log10(sum x^2 / sum (x' - x)^2) dB of x' for x."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, exact: Array, found: Array) -> None:
        """Adds a batch."""
        wide = exact.astype(np.float64)
        self.signal += float((wide**2).sum())
        self.noise += float(((found.astype(np.float64) - wide) ** 2).sum())

    @property
    def db(self) -> float:
        """The ratio; infinite without noise."""
        if not self.noise:
            return float("inf")
        return 10 * float(np.log10(max(self.signal, 1e-300) / self.noise))
