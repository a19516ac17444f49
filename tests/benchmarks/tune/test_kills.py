# SPDX-License-Identifier: Apache-2.0
"""The section `kills`, with fewer kills."""

from __future__ import annotations

import pytest

from vdla.benchmarks.tune.kills import kills


@pytest.mark.slow
def test_nothing_is_lost_and_nothing_repeated() -> None:
    assert kills(2, 24, seed=1) == {"kills": 2, "lost": 0, "repeated": 0, "left": 0}
