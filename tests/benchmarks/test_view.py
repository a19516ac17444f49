# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the viewer, on a small program."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.small_programs import small_gemm

import vdla
from vdla.benchmarks import chromium, view
from vdla.benchmarks.chromium import BrowserError, browser, open_page
from vdla.benchmarks.harness import SubjectError
from vdla.hardware.config import Config
from vdla.simulator.timing import time_program
from vdla.viewer.recording import ViewedProgram


@pytest.mark.skipif(browser() is None, reason="needs Chromium")
def test_the_figures_are_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    program, _, _ = small_gemm(Config.preset("tiny"))
    viewed = [ViewedProgram(program, time_program(program))]
    monkeypatch.setattr(view, "_SUBJECTS", {"small": lambda config, seed: viewed})
    monkeypatch.setattr(view, "OPENINGS", 1)
    result = view.run()
    names = ("first_paint_s", "steps_per_s", "close_steps_per_s", "file_mb")
    assert set(result.figures) == {f"small_{name}" for name in names}
    assert all(value > 0 for value in result.figures.values())
    assert result.rows[0]["instructions"] == len(program)


@pytest.mark.skipif(browser() is None, reason="needs Chromium")
def test_steps_are_taken(tmp_path: Path) -> None:
    program, _, _ = small_gemm(Config.preset("tiny"))
    vdla.view(program).save(tmp_path / "view.html")
    with open_page() as page:
        view.measure(page, tmp_path / "view.html", openings=1, count=4)
        assert page.value("viewer.state.instruction") > 0


def test_a_subject_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SubjectError) as error:
        view.run(subjects=["resnet"])
    assert (
        str(error.value) == "bench view: subject must be one of resnet18, million, got resnet (did you mean resnet18?)"
    )


def test_a_missing_browser_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chromium, "browser", lambda: None)
    with pytest.raises(BrowserError) as error:
        view.run()
    assert str(error.value) == "browser: chromium must be installed, got none (apt-get install chromium)"
