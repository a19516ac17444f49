# SPDX-License-Identifier: Apache-2.0
"""Whether a lemma is proven: for all values and bounds, of each type that has symbols."""

from __future__ import annotations

from vdla.compiler.certificates.lemmas import Law, Lemma, ResultBounds
from vdla.verification.lemmas.exact import proven_exactly
from vdla.verification.lemmas.solver import TYPES, proven


def proof_holds(lemma: Lemma) -> bool:
    """Whether a solver proves a lemma; False too if that is undecided."""
    if isinstance(lemma, (ResultBounds, Law)) and lemma.exact:
        return proven_exactly(lemma)
    return all(proven(lemma, dtype) for dtype in TYPES)
