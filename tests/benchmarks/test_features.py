# SPDX-License-Identifier: Apache-2.0
"""The benchmark of features: a row of a layer."""

from __future__ import annotations

from vdla.benchmarks.features import _row
from vdla.compiler.tune.features import FEATURES
from vdla.hardware.config import Config


def test_a_row_counts_all_candidates_of_a_small_space() -> None:
    row = _row("D8", Config.preset("pynq_z1"), 0)
    assert row["features"] == len(FEATURES)
    assert 2_000 < row["candidates"] < 20_000
    assert row["per_s"] > 2_000
