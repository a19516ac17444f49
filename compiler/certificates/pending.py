# SPDX-License-Identifier: Apache-2.0
"""Products of GEMMs that are added to their sums later, many instructions at once.

The sums of a result are those of hundreds of instructions, each with few terms. A term remains
valid after its entries are overwritten, since the entries that loads wrote are all kept until then.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates.operations import binary, cast, summed
from vdla.compiler.certificates.products import sums_of_products
from vdla.compiler.certificates.symbols import OPAQUE, SYMBOL, Symbols, gathered, numbers
from vdla.hardware.config import Config

_Ints = npt.NDArray[np.int64]
_KEPT_DEPTHS = 4  # the entries that are kept, in depths of their buffer


class KeptEntries:
    """The entries of a buffer, `[depth, ...]`, and those that were in it since `forget`."""

    def __init__(self, entries: Symbols) -> None:
        self.now = entries
        self._kept = np.empty((_KEPT_DEPTHS * len(entries), *entries.shape[1:]), SYMBOL)
        self.forget()

    def forget(self) -> None:
        """Keep the present entries only."""
        self._count = len(self.now)
        self._kept[: self._count] = self.now
        self.places: _Ints = np.arange(self._count)

    def has_room(self, entries: int) -> bool:
        """Whether so many entries can be written before `forget`."""
        return self._count + entries <= len(self._kept)

    def write(self, first: int, entries: Symbols) -> None:
        """Overwrite entries."""
        written, end = slice(first, first + len(entries)), self._count + len(entries)
        self.now.view(OPAQUE)[written] = entries.view(OPAQUE)
        self._kept.view(OPAQUE)[self._count : end] = entries.view(OPAQUE)
        self.places[written] = np.arange(self._count, end)
        self._count = end

    def kept(self, places: _Ints) -> Symbols:
        """Entries by their places among all that are kept."""
        return gathered(self._kept, places)


class PendingProducts:
    """Terms of sums: products of entries of `inp` with entries of `wgt`."""

    def __init__(self, config: Config, inp: KeptEntries, wgt: KeptEntries, acc: Symbols) -> None:
        self._config, self.inputs, self.weights, self._acc = config, inp, wgt, acc
        self._waiting = np.zeros(len(acc), np.bool_)
        self._terms: list[tuple[_Ints, _Ints, _Ints]] = []

    def add(self, acc: _Ints, src: _Ints, wgt: _Ints) -> None:
        """Terms of different sums: `src` and `wgt` have entries for each, `[sums, terms]`."""
        self._terms.append((acc, self.inputs.places[src], self.weights.places[wgt]))
        self._waiting[acc] = True

    def start(self, acc: _Ints) -> None:
        """Make sums zero."""
        if self._waiting[acc].any():
            self.flush()
        self._acc[acc] = numbers(0)

    def flush(self) -> None:
        """Add all terms to their sums."""
        if not self._terms:
            return
        by_sums: dict[bytes, list[tuple[_Ints, _Ints, _Ints]]] = {}
        for terms in self._terms:
            by_sums.setdefault(terms[0].tobytes(), []).append(terms)
        for parts in by_sums.values():
            acc = parts[0][0]
            products = self._products(*(np.concatenate([part[i] for part in parts], axis=1) for i in (1, 2)))
            self._acc[acc] = binary("add", gathered(self._acc, acc), products, "int32")
        self._terms.clear()
        self._waiting[...] = False

    def write(self, buffer: KeptEntries, first: int, entries: Symbols) -> None:
        """Overwrite entries of one of the buffers."""
        if not buffer.has_room(len(entries)):
            self.flush()
            buffer.forget()
        buffer.write(first, entries)

    def _products(self, src: _Ints, wgt: _Ints) -> Symbols:
        """Sums of products of kept entries, `[sums, terms]` of places."""
        made = np.empty((len(src), self._acc.shape[1]), SYMBOL)
        order, groups = alike(wgt)
        for group in groups:
            some = order[group]
            rows = self.inputs.kept(src[some]).view(OPAQUE).swapaxes(1, 2)
            columns = self.weights.kept(wgt[some[0]]).view(OPAQUE).transpose(0, 2, 1)
            a = rows.reshape(len(some) * rows.shape[1], -1).view(SYMBOL)
            b = columns.reshape(-1, columns.shape[-1]).view(SYMBOL)
            made[some] = self._matrix(a, b).reshape(len(some), -1)
        return made

    def _matrix(self, inputs: Symbols, weights: Symbols) -> Symbols:
        a, b = cast(inputs, self._config.inp_dtype, "int32"), cast(weights, self._config.wgt_dtype, "int32")
        products = sums_of_products(a, b, "int32")
        if products is not None:
            return products
        return summed(binary("mul", a[:, :, None], b[None], "int32"), (1,), "int32")[:, 0]


def alike(rows: npt.NDArray[Any]) -> tuple[_Ints, list[slice]]:
    """An order of rows in which equal ones follow each other, and the slices of these."""
    words = np.ascontiguousarray(rows).view(f"V{rows.shape[1] * rows.itemsize}")[:, 0]
    _, number, counts = np.unique(words, return_inverse=True, return_counts=True)
    bounds = np.r_[0, np.cumsum(counts)]
    return np.argsort(number, kind="stable"), [slice(*pair) for pair in pairwise(bounds)]
