# SPDX-License-Identifier: Apache-2.0
"""docs/notebooks/board.ipynb on a virtual board of its own (make test-board)."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pynq", reason="pynq is not installed (make test-board)")

from helpers.notebooks import check_notebook

from vdla.benchmarks.board.virtual_client import free_address


def test_the_notebook_shows_what_its_cells_give(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    check_notebook("board", tmp_path, request.config.getoption("--update-golden"), free_address())
