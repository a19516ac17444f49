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
from vdla.compiler.certificates.elementwise import Elementwise, Leaf, loads
from vdla.compiler.certificates.evaluate import evaluate
from vdla.compiler.certificates.symbols import OPAQUE, SYMBOL, Symbols, gathered
from vdla.compiler.codegen.vdla.intrinsics.requantise import requantisation

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
_Bounds = tuple[int, int, int]
_MOST_WAITING = 1 << 16  # sums, which bounds the memory of their requantisation


class PendingResults:
    """The entries of `out`, `[depth, lanes]`, and the stores of those whose sums wait."""

    def __init__(self, entries: Symbols, dtype: str, batch: int, dram: Mapping[str, Symbols]) -> None:
        self._now, self._dtype, self._batch, self._dram = entries, dtype, batch, dram
        self._place = np.full(len(entries), -1)  # among the sums that wait
        self._waiting: dict[_Bounds, list[tuple[_Ints, Symbols, _Ints]]] = {}
        self._stored: dict[str, _Bools] = {}  # where results wait that are stored
        self._scales: list[Symbols] = []
        self._scale_count = 0
        self._stores: list[tuple[str, _Ints, _Ints]] = []
        self._count = 0

    def emit(self, bounds: _Bounds, sums: Symbols, scales: Symbols, scale: _Ints, out: _Ints) -> None:
        """Sums, `[entries, lanes]`, with bounds and places among scales, for entries of `out`."""
        places = self._count + np.arange(len(out))
        self._waiting.setdefault(bounds, []).append((places, sums, self._scale_count + scale))
        self._scales.append(scales)
        self._scale_count += len(scales)
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
        if tensor not in self._stored:
            self._stored[tensor] = np.zeros(len(self._dram[tensor]), np.bool_)
        self._stored[tensor][places] = True
        if self._count * self._now.shape[1] >= _MOST_WAITING:
            self.flush()

    def has_stores(self, tensor: str) -> bool:
        """Whether something is stored in a tensor, which may wait."""
        return tensor in self._stored

    def before_read(self, tensor: str, places: _Ints) -> None:
        """Make places of a tensor hold what is stored there."""
        if self._stored[tensor][places].any():
            self.flush()

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
            made = _requantised(sums, Leaf(scales.reshape(-1), lanes.reshape(-1)), bounds, self._dtype)
            results.view(OPAQUE)[places] = made.view(OPAQUE)
        emitted = np.flatnonzero(self._place >= 0)
        self._now.view(OPAQUE)[emitted] = results.view(OPAQUE)[self._place[emitted]]
        for tensor, where, waiting in self._stores:
            write(self._dram[tensor], where, gathered(results, waiting))
            self._stored[tensor][where] = False
        self._place[...] = -1
        self._waiting.clear()
        self._scales.clear()
        self._scale_count = 0
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


def _requantised(sums: Symbols, scales: Leaf, bounds: _Bounds, dtype: str) -> Symbols:
    """Sums, `[entries, lanes]`, requantised with a scale each."""
    fn = _requantising(bounds, dtype)
    (store,) = ir.find(fn.body, ir.Store)
    leaves = {"sums": Leaf(sums.reshape(-1)), "lanes": scales}
    elements = Elementwise(lambda expr: ir.dtype_of(expr, fn.buffers), loads(leaves))
    made = elements.value(store.value, sums.size)
    if made is None:
        assert scales.places is not None
        lanes = gathered(scales.array, scales.places)
        made = evaluate(_requantising(bounds, dtype, sums.size), {"sums": sums.reshape(-1), "lanes": lanes})["result"]
    return made.reshape(sums.shape)


@lru_cache(maxsize=256)
def _requantising(bounds: _Bounds, dtype: str, count: int = 1) -> ir.Function:
    sums, lanes = te.placeholder((count,), "int32", "sums"), te.placeholder((count,), "int64", "lanes")
    zero, low, high = (te.const(bound, "int64") for bound in bounds)
    result = te.compute((count,), lambda n: requantisation(sums[n], lanes[n], zero, low, high, dtype), "result")
    return te.create_function([sums, lanes], [result], "requantise")
