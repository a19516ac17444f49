# SPDX-License-Identifier: Apache-2.0
"""Terms of a minimum or maximum that change nothing, since they repeat the term before them.

Entries are filled so beyond the last term: by the same element, with later places in a key.
"""

from __future__ import annotations

import numpy as np

from vdla.compiler.certificates import field
from vdla.compiler.certificates.lemmas import KEEPS_BETTER
from vdla.compiler.certificates.operations import SymbolAlgebra, SymbolOperand, holds
from vdla.compiler.certificates.symbols import LARGE, SymbolForm, Symbols, numbers
from vdla.compiler.ir import Array

_FURTHEST = 1 << 8
"""The distance of a repeated term: as small as places within an entry, so that terms of other
elements have it with a probability of 2^-53.
"""


def repeated(op: str, term: Symbols, after: Symbols, dtype: str) -> Array:
    """Where the extreme of a term and that after it is the term: both differ by a number."""
    high, low = (term, after) if op == "max" else (after, term)
    distance = field.subtract(high["value"], low["value"])
    near = distance < _FURTHEST
    if not near.any():
        return near
    for one in (term, after):
        near = near & ((one["form"] == SymbolForm.PLAIN) & (one["norm"] < LARGE) | (distance == 0))
    lemma, number = KEEPS_BETTER[op], numbers(np.where(near, distance, 0))
    return near & holds(lemma.needs, SymbolAlgebra(dtype), [SymbolOperand(one) for one in (term, number, number)])
