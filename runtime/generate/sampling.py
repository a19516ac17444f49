# SPDX-License-Identifier: Apache-2.0
"""Which token comes next: the likeliest one, or one that is drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.runtime.generate.errors import GenerateError


class Sampler:
    """Draws tokens among the `top_k` likeliest ones, by scores over `temperature`; 0 is greedy."""

    def __init__(self, temperature: float = 0.0, top_k: int | None = None, seed: int = 0) -> None:
        if not temperature >= 0:
            raise GenerateError(f"generate: temperature must be a number from 0, got {temperature}")
        if top_k is not None and top_k < 1:
            raise GenerateError(f"generate: top_k must be an integer from 1, got {top_k}")
        self.temperature, self.top_k = temperature, top_k
        self._rng = np.random.default_rng(seed)

    def __call__(self, scores: npt.NDArray[Any]) -> int:
        """The next token by its scores, [words]."""
        if not self.temperature:
            return int(scores.argmax())
        wide = scores.astype(np.float64) / self.temperature
        if self.top_k is not None and self.top_k < len(wide):
            wide = np.where(wide >= np.partition(wide, -self.top_k)[-self.top_k], wide, -np.inf)
        shares = np.exp(wide - wide.max())
        return int(self._rng.choice(len(shares), p=shares / shares.sum()))
