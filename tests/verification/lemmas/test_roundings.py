# SPDX-License-Identifier: Apache-2.0
"""The lemmas on rounding hold for small numbers and are proven for all; wrong ones are neither."""

from __future__ import annotations

import pytest

pytest.importorskip("cvc5")

from vdla.verification.lemmas.roundings import (
    ROUNDINGS,
    WRONG_ROUNDINGS,
    RoundingLemma,
    rounding_holds_for_small,
    rounding_is_proven,
)


@pytest.mark.parametrize("lemma", ROUNDINGS, ids=lambda lemma: lemma.name)
def test_a_lemma_on_rounding_is_proven(lemma: RoundingLemma) -> None:
    assert rounding_holds_for_small(lemma)
    assert rounding_is_proven(lemma)


@pytest.mark.parametrize("lemma", WRONG_ROUNDINGS, ids=lambda lemma: lemma.name)
def test_a_wrong_lemma_is_not_proven(lemma: RoundingLemma) -> None:
    assert not rounding_holds_for_small(lemma)
    assert not rounding_is_proven(lemma)
