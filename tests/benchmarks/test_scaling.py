# SPDX-License-Identifier: Apache-2.0
"""The benchmark of growth: its points, slopes and picture."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from vdla.benchmarks import scaling
from vdla.benchmarks.scaling import figures_of, picture_of, residual_chain, slope
from vdla.compiler.graph.onnx import import_model

ROWS = [
    {"subject": "timing", "size": 10, "seconds": 1.0, "mib": 0.5},
    {"subject": "timing", "size": 100, "seconds": 10.0, "mib": 8.0},
    {"subject": "timing", "size": 1000, "seconds": 100.0, "mib": 80.0},
    {"subject": "verify", "size": 10, "seconds": 1.0, "mib": 0.0},
    {"subject": "verify", "size": 1000, "seconds": 250.0, "mib": 0.0},
]


def test_a_slope_is_the_power_of_growth() -> None:
    assert slope([(10, 3.0), (100, 30.0), (1000, 300.0)]) == 1.0
    assert slope([(10, 1.0), (100, 100.0), (1000, 10_000.0)]) == 2.0


def test_figures_are_slopes_of_each_subject_and_the_largest_programs_compared() -> None:
    figures = figures_of(ROWS)
    assert figures["timing_time_slope"] == 1.0
    assert figures["timing_memory_slope"] == 1.0  # little memory is no point of the line
    assert figures["verify_time_slope"] == pytest.approx(1.199, abs=0.001)
    assert figures["verify_time_last_slope"] == figures["verify_time_slope"]
    assert "verify_memory_slope" not in figures
    assert figures["verify_over_timing"] == 2.5


def test_a_network_has_as_many_operators_as_asked_for() -> None:
    graph = import_model(residual_chain(7))
    kinds = [node.op for node in graph.nodes if node.op in ("Conv", "Add")]
    assert kinds == ["Conv", "Conv", "Add", "Conv", "Conv", "Add", "Conv"]


def test_a_point_is_measured_in_a_process_of_its_own() -> None:
    point = scaling.measured_alone("timing", 8)
    assert point["size"] == len(scaling._program(8))
    assert point["seconds"] > 0


@pytest.mark.parametrize("name", scaling.ACTIONS)
def test_every_subject_runs(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # restored afterwards
    size = 4 if name in scaling.OF_NETWORKS else 8
    result = scaling.ACTIONS[name](size, tmp_path)()
    assert result is None or len(result) == len(scaling._program(8))  # type: ignore[arg-type]


def test_the_benchmark_has_a_row_for_each_size(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def measured(name: str, size: int) -> dict[str, float]:
        return {"size": size, "seconds": size / 10, "mib": float(size)}

    monkeypatch.setattr(scaling, "measured_alone", measured)
    result = scaling.run(long=True, picture=str(tmp_path / "scaling.svg"))
    sizes = [row["size"] for row in result.rows if row["subject"] == "network"]
    assert sizes == [*scaling.OPERATORS, *scaling.MOST_OPERATORS]
    assert all(value == 1.0 for value in result.figures.values())
    ElementTree.parse(tmp_path / "scaling.svg")


def test_the_picture_names_every_subject_once() -> None:
    page = ElementTree.fromstring(picture_of(ROWS))
    names = [text.text for text in page.iter("{http://www.w3.org/2000/svg}text")]
    assert names.count("timing") == names.count("verify") == 1
    lines = [line.get("points", "").split() for line in page.iter("{http://www.w3.org/2000/svg}polyline")]
    assert [len(points) for points in lines] == [2, 3, 2]  # what is linear, then the subjects
