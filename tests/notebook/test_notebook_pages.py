# SPDX-License-Identifier: Apache-2.0
"""Notebooks as pages of the site (docs/site/notebook_pages.py)."""

from __future__ import annotations

import importlib.util
import json
from types import ModuleType, SimpleNamespace

import pytest
from helpers.notebooks import FOLDER


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    path = FOLDER.parent / "site" / "notebook_pages.py"
    spec = importlib.util.spec_from_file_location("notebook_pages", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_page_has_the_text_the_code_and_the_outputs(pages: ModuleType) -> None:
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["one\n", "two\n"]},
        {"output_type": "execute_result", "data": {"text/plain": ["3"]}},
        {
            "output_type": "execute_result",
            "data": {"text/plain": ["x"], "text/html": ["<div>\n<pre>a\n\n  b</pre>\n</div>"]},
        },
    ]
    code = {"cell_type": "code", "source": ["a = 1\n", "a"], "outputs": outputs}
    first = {"cell_type": "markdown", "source": ["# Title\n", "\n", "After."]}
    assert pages.page_of({"cells": [first, code]}, "n.ipynb") == (
        '# Title\n\nThis page is the notebook <a href="n.ipynb" download>n.ipynb</a>, which you can open in '
        "Jupyter.\n\nAfter.\n\n````python\na = 1\na\n````\n\n````text\none\ntwo\n````\n\n````text\n3\n````\n\n"
        "<div> <pre>a&#10;&#10;  b</pre> </div>\n"
    )


def test_a_page_in_a_frame_stays_as_it_is(pages: ModuleType) -> None:
    """Its lines too, since a comment of a script would else hide the next one."""
    frame = '<iframe srcdoc="a // b\nc[d](e)"\nstyle="f"></iframe>'
    assert pages._raw(frame) == '<div><iframe srcdoc="a // b&#10;c[d](e)" style="f"></iframe></div>'


def test_links_to_notebooks_lead_to_their_pages(pages: ModuleType) -> None:
    text = "[a](board.ipynb) [b](notebooks/x.ipynb#c) [d](deploy.md) <a href='board.ipynb'>"
    wanted = "[a](board.md) [b](notebooks/x.md#c) [d](deploy.md) <a href='board.ipynb'>"
    assert pages.on_page_markdown(text, SimpleNamespace(), None, None) == wanted


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.ipynb")), ids=lambda path: path.stem)
def test_every_output_is_on_its_page(pages: ModuleType, path: object) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    page = pages.page_of(notebook, path.name)
    assert page.count('class="vdla-html"') == json.dumps(notebook).count('class=\\"vdla-html\\"') > 4
    assert page.startswith("# ")
