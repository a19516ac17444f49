# SPDX-License-Identifier: Apache-2.0
"""Notebooks as tests: their cells are executed, and must give the outputs that are committed."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "notebooks"
TIMEOUT_S = 120  # of a cell
LOOPBACK = "127.0.0.1"
Cell = dict[str, Any]
_HOST_CPU = re.compile(r"cpu \([\w.+-]+\)")
"""The CPU of this machine, as tables name it."""


def check_notebook(
    name: str, folder: Path, update: bool, address: str = LOOPBACK, further: Sequence[Cell] = ()
) -> list[Cell]:
    """Checks that a notebook shows what its cells give, in `folder`; with `update`, writes that.

    `address` takes the place of the one that cells name, where a board is served. `further` cells
    are executed behind those of the notebook, and returned with their outputs.
    """
    path = FOLDER / f"{name}.ipynb"
    committed = path.read_text(encoding="utf-8")
    given = nbformat.reads(committed.replace(LOOPBACK, address), as_version=4)
    own = len(given.cells)
    given.cells += [nbformat.from_dict({**cell, "id": f"further-{at}"}) for at, cell in enumerate(further)]
    _execute(given, folder)
    more, given.cells = given.cells[own:], given.cells[:own]
    now = _text(given).replace(address, LOOPBACK)
    if update:
        path.write_text(now, encoding="utf-8")
    else:
        lines = (text.splitlines() for text in (committed, now))
        difference = difflib.unified_diff(*lines, path.name, "given now", n=1, lineterm="")
        assert now == committed, "\n".join(line[:400] for line in difference)
    return more


def executed(text: str, folder: Path) -> str:
    """The notebook with the outputs of its cells, equal on every machine."""
    notebook = nbformat.reads(text, as_version=4)
    _execute(notebook, folder)
    return _text(notebook)


def _execute(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Gives the cells of a notebook their outputs, equal on every machine."""
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(
        notebook, timeout=TIMEOUT_S, kernel_name="python3", resources=resources, record_timing=False
    )
    with mock.patch.dict(os.environ, {"NO_COLOR": "1"}):
        client.execute()
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = _joined([output for output in cell.outputs if not _of_pynq(output)])
        for output in cell.get("outputs", ()):
            assert output.output_type in ("execute_result", "stream"), output
            assert output.get("name") != "stderr", output.text


def _text(notebook: nbformat.NotebookNode) -> str:
    """The file of a notebook, which names no CPU."""
    return _HOST_CPU.sub("cpu (host)", nbformat.writes(notebook)) + "\n"


def _joined(outputs: list[nbformat.NotebookNode]) -> list[nbformat.NotebookNode]:
    """The outputs with what a cell prints in one: a kernel sends in parts what takes long."""
    result: list[nbformat.NotebookNode] = []
    for output in outputs:
        if result and output.output_type == "stream" == result[-1].output_type and output.name == result[-1].name:
            result[-1].text += output.text
        else:
            result.append(output)
    return result


def _of_pynq(output: nbformat.NotebookNode) -> bool:
    """Whether an output is the script by which PYNQ, when imported, sets up cells of its own."""
    return "application/javascript" in output.get("data", {})
