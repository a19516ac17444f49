# SPDX-License-Identifier: Apache-2.0
"""Sums of products of symbols, as products of matrices.

The bounds of a sum are the sums of the bounds of its terms, the same in every order. Operands have
few different bounds, if they are inputs, so that these sums are counts or products of matrices too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates import field
from vdla.compiler.certificates.operations import fitted, ring_bounds
from vdla.compiler.certificates.symbols import LARGE, SymbolForm, Symbols, elements_of, type_bounds

_Bounds = npt.NDArray[np.float64]
_MOST_PAIRS = 4  # of bounds, of the operand with fewer of them
_EXACT = 1 << 53  # integers of smaller magnitude are floats


def sums_of_products(a: Symbols, b: Symbols, dtype: str) -> Symbols | None:
    """Symbols `[..., M, K]` and `[..., K, N]` of a type multiplied as matrices.

    None where a term may leave the type, where both operands have many different bounds, or where
    coefficients may be large.
    """
    if (a["form"] == SymbolForm.POLYNOMIAL).any() or (b["form"] == SymbolForm.POLYNOMIAL).any() or not a.shape[-1]:
        return None
    least, most = type_bounds(dtype)
    extremes = [(min(0, int(x["low"].min())), max(0, int(x["high"].max()))) for x in (a, b)]
    corners = [x * y for x in extremes[0] for y in extremes[1]]
    if min(corners) < least or max(corners) > most or max(map(abs, corners)) * a.shape[-1] >= _EXACT:
        return None
    bounds = _bounds_of_sums(a, b)
    if bounds is None:
        return None
    norm = float(a["norm"].max()) * float(b["norm"].max()) * a.shape[-1]
    if norm >= LARGE:
        return None
    a, b = elements_of(a), elements_of(b)
    value = field.matmul(np.ascontiguousarray(a["value"]), np.ascontiguousarray(b["value"]))
    return fitted(value, *bounds, np.zeros(value.shape, np.bool_), norm, dtype)


def _bounds_of_sums(a: Symbols, b: Symbols) -> tuple[_Bounds, _Bounds] | None:
    """The bounds of a product of matrices."""
    pairs = _pairs(a)
    if pairs is None:
        pairs = _pairs(b)
        if pairs is None:
            return None
        flipped = _sums_by_pair(pairs, b.swapaxes(-1, -2), a.swapaxes(-1, -2))
        return flipped[0].swapaxes(-1, -2), flipped[1].swapaxes(-1, -2)
    return _sums_by_pair(pairs, a, b)


def _sums_by_pair(pairs: list[tuple[int, int]], a: Symbols, b: Symbols) -> tuple[_Bounds, _Bounds]:
    """The bounds of a product of matrices, the first of which has these pairs of bounds."""
    others = _pairs(b)
    if others is not None and len(others) == 1:
        b = b[(slice(0, 1),) * b.ndim]
    low, high = np.zeros(()), np.zeros(())
    for pair in pairs:
        terms = ring_bounds("mul", *(np.array(float(bound)) for bound in pair), *_as_floats(b))
        here = np.asarray((a["low"] == pair[0]) & (a["high"] == pair[1]))
        if b.size == 1:
            counts = np.count_nonzero(here, axis=-1)[..., None]
            low, high = low + counts * terms[0].reshape(()), high + counts * terms[1].reshape(())
        else:
            chosen = here.astype(np.float64)
            low, high = low + chosen @ terms[0], high + chosen @ terms[1]
    return low, high


def _as_floats(a: Symbols) -> Iterator[_Bounds]:
    return (a[part].astype(np.float64) for part in ("low", "high"))


def _pairs(a: Symbols) -> list[tuple[int, int]] | None:
    """The different bounds of symbols, or None if there are more than `_MOST_PAIRS`."""
    low, high = a["low"].reshape(-1), a["high"].reshape(-1)
    pairs: list[tuple[int, int]] = []
    while len(low):
        if len(pairs) == _MOST_PAIRS:
            return None
        pairs.append((int(low[0]), int(high[0])))
        rest = np.asarray((low != low[0]) | (high != high[0]))
        low, high = low[rest], high[rest]
    return pairs
