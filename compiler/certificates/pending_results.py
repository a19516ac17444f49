# SPDX-License-Identifier: Apache-2.0
"""Results that are requantised and stored later, those of many instructions at once.

A result waits from the instruction that emits it until a load reads its tensor, or until many wait.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates.elementwise import Leaf
from vdla.compiler.certificates.requantise import Bounds, requantised
from vdla.compiler.certificates.symbols import OPAQUE, SYMBOL, Symbols, gathered

_Ints = npt.NDArray[np.int64]
_MOST_WAITING = 1 << 16  # sums, which bounds the memory of their requantisation


class PendingResults:
    """The entries of `out`, `[depth, lanes]`, and the stores of those whose sums wait."""

    def __init__(self, entries: Symbols, dtype: str, batch: int, dram: Mapping[str, Symbols]) -> None:
        self._now, self._dtype, self._batch, self._dram = entries, dtype, batch, dram
        self.places = np.full(len(entries), -1)  # of entries among the sums that wait
        self._waiting: dict[Bounds, list[tuple[_Ints, Symbols, _Ints]]] = {}
        self._stored: set[str] = set()  # tensors in which results wait to be stored
        self._scales: list[Symbols] = []
        self._scale_count = 0
        self._stores: list[tuple[str, _Ints, _Ints]] = []
        self._count = 0

    def emit(self, bounds: Bounds, sums: Symbols, scales: Symbols, scale: _Ints, out: _Ints) -> None:
        """Sums, `[entries, lanes]`, with bounds and places among scales, for entries of `out`."""
        places = self._count + np.arange(len(out))
        self._waiting.setdefault(bounds, []).append((places, sums, self._scale_count + scale))
        self._scales.append(scales)
        self._scale_count += len(scales)
        self.places[out] = places  # of an entry that is emitted twice, the last sums
        self._count += len(out)

    def overwrite(self, out: _Ints) -> None:
        """Note that entries hold something else now."""
        self.places[out] = -1

    def entries(self) -> Symbols:
        """All entries, none of which waits."""
        self.flush()
        return self._now

    def store(self, tensor: str, places: _Ints, entries: slice) -> None:
        """Move entries to places of a tensor; IndexError, now and not when they are written, where
        it has no such places.
        """
        if places.max(initial=0) >= len(self._dram[tensor]):
            raise IndexError(f"{tensor} must have the places of a store, got {len(self._dram[tensor])} elements")
        waiting = self.places[entries].copy()
        if (waiting < 0).any():
            write(self._dram[tensor], places, self.entries()[entries])
            return
        self._stores.append((tensor, places, waiting))
        self._stored.add(tensor)
        if self._count * self._now.shape[1] >= _MOST_WAITING:
            self.flush()

    def has_stores(self, tensor: str) -> bool:
        """Whether something is stored in a tensor that waits."""
        return tensor in self._stored

    def flush(self) -> None:
        """Requantise and store everything."""
        if not self._count:
            return
        results = np.empty((self._count, self._now.shape[1]), SYMBOL)
        scales = np.concatenate([one.view(OPAQUE) for one in self._scales]).view(SYMBOL)
        for bounds, parts in self._waiting.items():
            places, scale = (np.concatenate([part[i] for part in parts]) for i in (0, 2))
            sums = np.concatenate([part[1].view(OPAQUE) for part in parts]).view(SYMBOL)
            lanes = scale[:, None] * scales.shape[1] + np.tile(np.arange(scales.shape[1]), self._batch)
            made = requantised(sums, Leaf(scales.reshape(-1), lanes.reshape(-1)), bounds, self._dtype)
            results.view(OPAQUE)[places] = made.view(OPAQUE)
        emitted = np.flatnonzero(self.places >= 0)
        self._now.view(OPAQUE)[emitted] = results.view(OPAQUE)[self.places[emitted]]
        for tensor, where, waiting in self._stores:
            write(self._dram[tensor], where, gathered(results, waiting))
        self.places[...] = -1
        self._waiting.clear()
        self._scales.clear()
        self._scale_count = 0
        self._stores.clear()
        self._stored.clear()
        self._count = 0


def write(tensor: Symbols, places: _Ints, entries: Symbols) -> None:
    """Overwrite the places `[z, y, x]` of a flat tensor; where rows overlap, the last one wins."""
    values, flat = entries.view(OPAQUE).reshape(places.shape), tensor.view(OPAQUE)
    begins = np.sort(places[..., 0], axis=None)
    if (np.diff(begins) >= places.shape[2]).all():
        flat[places] = values
        return
    for plane, line in np.ndindex(*places.shape[:2]):
        flat[places[plane, line]] = values[plane, line]
