# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the playground."""

from __future__ import annotations

import pytest

from vdla.benchmarks import playground
from vdla.benchmarks.chromium import browser
from vdla.playground.build import PlaygroundError


@pytest.mark.slow
@pytest.mark.skipif(browser() is None, reason="needs Chromium")
def test_the_figures_are_of_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playground, "OPENINGS", 1)
    try:
        result = playground.run()
    except PlaygroundError as error:
        pytest.skip(str(error))
    assert set(result.figures) == {"ready_s", "first_count_s", "download_mb"}
    assert 0 < result.figures["ready_s"] < result.figures["first_count_s"]
    assert 5 < result.figures["download_mb"] < 30
