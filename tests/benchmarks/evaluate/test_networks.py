# SPDX-License-Identifier: Apache-2.0
"""The gallery's extensions in compiled networks: what is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vdla.benchmarks.evaluate import examples, networks
from vdla.hardware.config import Config
from vdla.networks.digits import digits
from vdla.support.progress import silent

ARGMAX = Path(examples.ROOT) / "examples" / "argmax" / "argmax.py"


def test_figures_count_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter(
        [
            {"applied": 1, "wrong": 0, "cycles": 5, "verdict": 5},
            {"applied": 0, "wrong": 3, "cycles": 5, "verdict": 6},
        ]
    )
    monkeypatch.setattr(networks, "in_network", lambda *_: next(made))
    section = networks.networks(silent, 0, ["argmax", "sparse"])
    assert section.figures == {"extensions": 2, "applied": 1, "wrong": 3, "other_cycles": 1}
    assert [row["extension"] for row in section.rows] == ["argmax", "sparse"]


@pytest.mark.slow
def test_an_extension_without_a_layer_says_why() -> None:
    row: dict[str, Any] = networks.in_network(ARGMAX, digits(), 0, Config.preset("pynq_z1"))
    assert (row["applied"], row["operators"], row["wrong"]) == (0, 0, 0)
    assert row["cycles"] == row["verdict"] > 0
    rule = "fit a program of an extension; the stage must accumulate by max from "
    assert row["reason"].startswith(rule)
