# SPDX-License-Identifier: Apache-2.0
"""Minima and maxima of symbols, the same in every order.

The value of an extreme is the sum of a function without structure of each unknown operand, and one
of its form and of the numbers that clip it, which are its bounds. So a clip is one, whichever bound
comes first, and numbers that clip several times count once.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler.certificates import field
from vdla.compiler.certificates.symbols import SymbolForm, Symbols, chosen, key, known, symbols
from vdla.compiler.ir import Array

EXTREMES = {"min": (SymbolForm.MINIMUM, SymbolForm.AT_MOST), "max": (SymbolForm.MAXIMUM, SymbolForm.AT_LEAST)}
_FLAGS = np.uint8(SymbolForm.AT_LEAST | SymbolForm.AT_MOST)


def extreme(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """The minimum or the maximum of operands, in every order; clips by numbers, in every order."""
    swap = known(a)
    a, b = chosen(swap, b, a), chosen(swap, a, b)
    made, clips = _of_members(op, a, b), known(b)
    return chosen(clips, _clipped(op, a, b), made) if clips.any() else made


def _clipped(op: str, a: Symbols, b: Symbols) -> Symbols:
    """A minimum or maximum with a number that is inside the bounds of the operand."""
    extreme = a["form"] >= SymbolForm.CLIPPED
    form = np.where(extreme, a["form"], np.uint8(SymbolForm.CLIPPED)) | np.uint8(EXTREMES[op][1])
    low, high = (a["low"], b["low"]) if op == "min" else (b["low"], a["high"])
    return _of_core(_core(a), form, low, high)


def _of_members(op: str, a: Symbols, b: Symbols) -> Symbols:
    """A minimum or maximum as the sum of the shares of its operands, which may be extremes."""
    form, flag = EXTREMES[op]
    shares = [_share(x, form, flag) for x in (a, b)]
    flagged = [whole & ((x["form"] & flag) != 0) for x, (_, whole) in zip((a, b), shares, strict=True)]
    nearer, further = (a["low"] > b["low"], b["low"] > a["low"])
    if op == "min":
        nearer, further = (a["high"] < b["high"], b["high"] < a["high"])
    kept = (flagged[0] & flagged[1]) | (flagged[0] & nearer) | (flagged[1] & further)
    choose = np.minimum if op == "min" else np.maximum
    low, high = choose(a["low"], b["low"]), choose(a["high"], b["high"])
    return _of_core(field.add(shares[0][0], shares[1][0]), np.where(kept, form | flag, form), low, high)


def _share(a: Symbols, form: int, flag: int) -> tuple[field.Elements, Array]:
    """The share of an operand in an extreme of a form, and where it is that of all its members."""
    kind, flags = a["form"] & ~_FLAGS, a["form"] & _FLAGS
    whole = ((kind == form) | (kind == SymbolForm.CLIPPED)) & ((flags & ~np.uint8(flag)) == 0)
    return np.where(whole, _core(a), _member(a)), whole


def _member(a: Symbols) -> field.Elements:
    return field.hashed(key("member"), a["value"])


def _core(a: Symbols) -> field.Elements:
    """The members of an extreme without its form and numbers; what is none is a member itself."""
    extreme = a["form"] >= SymbolForm.CLIPPED
    if not extreme.any():
        return _member(a)
    return np.where(extreme, field.subtract(a["value"], _tag(a["form"], a["low"], a["high"])), _member(a))


def _of_core(core: field.Elements, form: Array, low: Array, high: Array) -> Symbols:
    return symbols(field.add(core, _tag(form, low, high)), low, high, form)


def _tag(form: Array, low: Array, high: Array) -> field.Elements:
    """The share of its form and of the numbers that clip it in the value of an extreme."""
    low = np.where((form & SymbolForm.AT_LEAST) != 0, low, 0)
    high = np.where((form & SymbolForm.AT_MOST) != 0, high, 0)
    return field.hashed(key("clipped"), form, low.view(np.uint64), high.view(np.uint64))
