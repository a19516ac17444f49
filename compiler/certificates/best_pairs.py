# SPDX-License-Identifier: Apache-2.0
"""Values with places, of which a reduction keeps the best pair, on symbols: by lemmas on keys.

A key holds both, so that the best pair is the extreme of keys, in every order. Whatever is a key
in a program, such as that of an instruction, is the same symbol.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from vdla.compiler import ir
from vdla.compiler.certificates.lemmas import BEST_PAIRS, BestPair
from vdla.compiler.certificates.operations import SymbolAlgebra, SymbolOperand, holds
from vdla.compiler.certificates.symbols import OPAQUE, Symbols, chosen

_KEYS = SymbolAlgebra("int64")
_Pair = tuple[Symbols, Symbols]


@dataclass(frozen=True, slots=True)
class PairChoice:
    """Two stores of the better one of two pairs: which pair is better, and both as expressions."""

    lemma: BestPair
    new: tuple[ir.Expr, ir.Expr]
    old: tuple[ir.Expr, ir.Expr]


def pair_choice(stores: tuple[ir.Store, ...]) -> PairChoice | None:
    """The choice that stores of a value and a place make by one condition; None if they do not."""
    match [store.value for store in stores]:
        case [ir.Select(cond=condition, a=x, b=a), ir.Select(cond=other, a=y, b=b)] if condition == other:
            for lemma in BEST_PAIRS:
                tie = ir.Binary("and", ir.Binary("eq", x, a), ir.Binary("lt", y, b))
                if condition == ir.Binary("or", ir.Binary(lemma.compare, x, a), tie):
                    return PairChoice(lemma, (x, y), (a, b))
    return None


@dataclass
class BestPairs:
    """The keys of places that were chosen, with which a choice goes on."""

    _keys: dict[tuple[str, int, int], Symbols] = field(default_factory=dict)

    def better(self, lemma: BestPair, new: _Pair, old: _Pair, otherwise: Callable[[], Symbols]) -> _Pair:
        """The better one of two pairs of integers; `otherwise` is its place where no lemma says
        which.
        """
        arrays = np.broadcast_arrays(*new, *old)
        operands = [SymbolOperand(one) for one in arrays]
        values = lemma.value.right(_KEYS, *operands).symbols
        first, second, keyed = (
            np.broadcast_to(holds(one.needs, _KEYS, operands), values.shape)
            for one in (lemma.first, lemma.second, lemma.key)
        )
        places = chosen(first, arrays[1], arrays[3])
        if not (first | second | keyed).all():
            places = chosen(first | second, places, otherwise())
        some = keyed & ~(first | second)
        if some.any():
            places = np.array(places)
            given = [one[some] for one in arrays]
            places.view(OPAQUE)[some] = self._place(lemma, given, values[some]).view(OPAQUE)
        return values, places

    def _place(self, lemma: BestPair, pairs: list[Symbols], values: Symbols) -> Symbols:
        """The places of the extremes of keys, `[elements]`, which are the keys of the results."""
        keys = [SymbolOperand(self._key(lemma, *pair)) for pair in (pairs[:2], pairs[2:])]
        extreme = _KEYS.op(lemma.extreme, *keys)
        made: Symbols = lemma.place_of(_KEYS, extreme).symbols
        names = zip(values["value"].tolist(), made["value"].tolist(), strict=True)
        self._keys |= {(lemma.extreme, *name): extreme.symbols[n] for n, name in enumerate(names)}
        return made

    def _key(self, lemma: BestPair, value: Symbols, place: Symbols) -> Symbols:
        """The keys of pairs, `[elements]`."""
        made = np.array(lemma.key_of(_KEYS, SymbolOperand(value), SymbolOperand(place)).symbols)
        names = zip(value["value"].tolist(), place["value"].tolist(), strict=True)
        for n, name in enumerate(names):
            known = self._keys.get((lemma.extreme, *name))
            if known is not None:
                made[n] = known
        return made
