# SPDX-License-Identifier: Apache-2.0
"""`GeneratedText`: what `Model.generate` returns; `runtime.generate` makes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from vdla.runtime.executor.token_rates import TokenRates


class GeneratedText(Protocol):
    """Pieces of text, generated while they are iterated over."""

    def __iter__(self) -> Iterator[str]:
        """The text, a piece for each token that completes one."""

    @property
    def text(self) -> str:
        """What was generated so far."""

    @property
    def rates(self) -> TokenRates:
        """How fast it came."""
