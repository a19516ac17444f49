# SPDX-License-Identifier: Apache-2.0
"""The notebooks of docs/notebooks: executed, compared with what is committed, short, well-formed.

`tests/boards/pynq/test_board_notebook.py` executes the one that needs PYNQ.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from helpers.notebooks import FOLDER, check_notebook

NAMES = ("board", "new_instruction", "puzzles", "simulate")


def cells(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    return found


def test_the_names_are_those_of_the_folder() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.ipynb")) == list(NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "board"])
def test_a_notebook_shows_what_its_cells_give(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    check_notebook(name, tmp_path, request.config.getoption("--update-golden"))


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_a_lesson(name: str) -> None:
    """It begins with what its reader can do after it; a text introduces each step; pictures."""
    first, *rest = cells(name)
    assert first["cell_type"] == "markdown"
    assert "After this notebook you can" in "".join(first["source"])
    assert 8 <= len([cell for cell in rest if cell["cell_type"] == "code"]) <= 20
    html = [output for cell in rest for output in cell.get("outputs", ()) if "text/html" in output.get("data", {})]
    assert len(html) >= 4
    assert "<svg" in json.dumps(html)
    assert all(cell["execution_count"] for cell in rest if cell["cell_type"] == "code")


@pytest.mark.parametrize("name", NAMES)
def test_the_links_of_a_notebook_lead_to_files(name: str) -> None:
    text = "\n".join("".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "markdown")
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", text)
    assert links
    assert [link for link in links if not (FOLDER / link).exists()] == []


@pytest.mark.parametrize("name", NAMES)
def test_prose_of_a_notebook_wraps(name: str) -> None:
    lines = [line for cell in cells(name) if cell["cell_type"] == "markdown" for line in cell["source"]]
    assert [line for line in lines if len(line.rstrip("\n")) > 100] == []
