# SPDX-License-Identifier: Apache-2.0
"""Results that are requantised and stored later, those of many instructions at once.

A result waits from the instruction that emits it until a load reads its tensor, or until many wait.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.pending import alike
from vdla.compiler.certificates.symbols import OPAQUE, SYMBOL, Symbols, gathered
from vdla.compiler.codegen.vdla.intrinsics.requantise import requantisation

_Ints = npt.NDArray[np.int64]
_Bounds = tuple[int, int, int]
_MOST_WAITING = 1 << 16  # sums, which bounds the memory of their requantisation


class PendingResults:
    """The entries of `out`, `[depth, lanes]`, and the stores of those whose sums wait."""

    def __init__(self, entries: Symbols, dtype: str, batch: int, dram: Mapping[str, Symbols]) -> None:
        self._now, self._dtype, self._batch, self._dram = entries, dtype, batch, dram
        self._place = np.full(len(entries), -1)  # among the sums that wait
        self._waiting: dict[_Bounds, list[tuple[_Ints, Symbols, Symbols]]] = {}
        self._stores: list[tuple[str, _Ints, _Ints]] = []
        self._count = 0

    def emit(self, bounds: _Bounds, sums: Symbols, scales: Symbols, out: _Ints) -> None:
        """Sums, `[entries, lanes]`, with their scales and bounds, for entries of `out`."""
        places = self._count + np.arange(len(out))
        self._waiting.setdefault(bounds, []).append((places, sums, scales))
        self._place[out] = places  # of an entry that is emitted twice, the last sums
        self._count += len(out)

    def overwrite(self, out: _Ints) -> None:
        """Note that entries hold something else now."""
        self._place[out] = -1

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
        waiting = self._place[entries].copy()
        if (waiting < 0).any():
            write(self._dram[tensor], places, self.entries()[entries])
            return
        self._stores.append((tensor, places, waiting))
        if self._count * self._now.shape[1] >= _MOST_WAITING:
            self.flush()

    def before_read(self, tensor: str) -> None:
        """Make a tensor hold what is stored in it."""
        if any(name == tensor for name, _, _ in self._stores):
            self.flush()

    def flush(self) -> None:
        """Requantise and store everything."""
        if not self._count:
            return
        results = np.empty((self._count, self._now.shape[1]), SYMBOL)
        for bounds, parts in self._waiting.items():
            places = np.concatenate([part[0] for part in parts])
            sums, scales = (np.concatenate([part[i].view(OPAQUE) for part in parts]).view(SYMBOL) for i in (1, 2))
            order, groups = alike(scales["value"])
            for group in groups:
                some = order[group]
                lanes = np.tile(scales[some[:1]].view(OPAQUE), (1, self._batch)).view(SYMBOL)
                made = _requantised(gathered(sums, some), lanes, bounds, self._dtype)
                results.view(OPAQUE)[places[some]] = made.view(OPAQUE)
        emitted = np.flatnonzero(self._place >= 0)
        self._now.view(OPAQUE)[emitted] = results.view(OPAQUE)[self._place[emitted]]
        for tensor, where, waiting in self._stores:
            write(self._dram[tensor], where, gathered(results, waiting))
        self._place[...] = -1
        self._waiting.clear()
        self._stores.clear()
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


def _requantised(sums: Symbols, lanes: Symbols, bounds: _Bounds, dtype: str) -> Symbols:
    return evaluate(_requantising(sums.shape, bounds, dtype), {"sums": sums, "lanes": lanes})["result"]


@lru_cache(maxsize=256)
def _requantising(shape: tuple[int, int], bounds: _Bounds, dtype: str) -> ir.Function:
    sums, lanes = te.placeholder(shape, "int32", "sums"), te.placeholder((1, shape[1]), "int64", "lanes")
    zero, low, high = (te.const(bound, "int64") for bound in bounds)
    result = te.compute(shape, lambda n, o: requantisation(sums[n, o], lanes[0, o], zero, low, high, dtype), "result")
    return te.create_function([sums, lanes], [result], "requantise")
