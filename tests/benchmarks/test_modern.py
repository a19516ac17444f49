# SPDX-License-Identifier: Apache-2.0
"""The benchmark of networks of today, on small variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vdla.benchmarks import modern
from vdla.networks.registry import NETWORKS, Network, NetworkError
from vdla.runtime.network.evaluator import Evaluator

FIGURES = ("programs", "cpu_over_accelerator", "accelerator_ms", "cpu_ms", "handovers", "handover_ms", "exact")


def small(name: str) -> Network:
    subject = NETWORKS[name]
    return replace(subject, build=lambda **options: subject.build(**subject.small | options))


def test_a_small_network_on_both_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modern, "network", small)
    result = modern.run(subjects=["mobilenet_v3"])
    assert [(row["network"], row["machine"]) for row in result.rows] == [
        ("mobilenet_v3", "plain"),
        ("mobilenet_v3", "stage"),
    ]
    for row in result.rows:
        assert {key: result.figures[f"mobilenet_v3_{row['machine']}_{key}"] for key in FIGURES} == {
            key: row[key] for key in FIGURES
        }
        assert row["programs"] > 0 and row["handovers"] > 0
    assert result.figures["all_exact"] == 1
    assert result.receipt["command"] == "vdla bench modern mobilenet_v3 --seed 0"


def test_a_wrong_result_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(Evaluator):
        def run(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
            return {name: np.asarray(array) + 1 for name, array in super().run(inputs).items()}

    monkeypatch.setattr(modern, "network", small)
    monkeypatch.setattr(modern, "Evaluator", Wrong)
    assert modern.run(subjects=["mobilenet_v3"]).figures["all_exact"] == 0


def test_an_unknown_network_is_refused() -> None:
    with pytest.raises(
        NetworkError, match=r"^network: name must be one of .*, got yolo_v8 \(did you mean yolo_v8n\?\)$"
    ):
        modern.run(subjects=["yolo_v8"])


def test_without_a_checkout_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(modern, "STAGE", tmp_path / "lut.py")
    with pytest.raises(
        modern.StageError, match=r"^bench modern: the stage must be in .*lut\.py, got no such file; run it in"
    ):
        modern.run()
