# SPDX-License-Identifier: Apache-2.0
"""The notebooks as pages of the site: text, cells and their committed outputs; nothing is executed.

A notebook stays beside its page as a file to download. In mkdocs.yml, the hook is one line:
`- docs/site/notebook_pages.py`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
_LINK = re.compile(r"\]\(((?:[\w./-]*/)?[\w-]+)\.ipynb(#[^)\s]*)?\)")
_FENCE = "````"  # longer than those that a cell may contain


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages."""
    from mkdocs.structure.files import File

    for path in sorted(FOLDER.rglob("*.ipynb")):
        content = page_of(json.loads(path.read_text(encoding="utf-8")), path.name)
        place = path.relative_to(FOLDER).with_suffix(".md").as_posix()
        files.append(File.generated(config, f"notebooks/{place}", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to notebooks lead to their pages."""
    return _LINK.sub(r"](\1.md\2)", markdown)


def page_of(notebook: dict[str, Any], name: str) -> str:
    """A notebook as Markdown, with a link to the file below its title."""
    title, _, rest = "".join(notebook["cells"][0]["source"]).partition("\n")
    link = f'<a href="{name}" download>{name}</a>'
    parts = [title, f"This page is the notebook {link}, which you can open in Jupyter.", rest.strip()]
    parts += [part for cell in notebook["cells"][1:] for part in _cell(cell)]
    return "\n\n".join(parts) + "\n"


def _cell(cell: dict[str, Any]) -> Iterator[str]:
    """A text as it is; code, then each output."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        yield source
        return
    yield f"{_FENCE}python\n{source}\n{_FENCE}"
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "text/html" in data:
            yield _raw("".join(data["text/html"]))
        else:
            text = "".join(output.get("text") or data["text/plain"])
            yield f"{_FENCE}text\n{text.rstrip()}\n{_FENCE}"


def _raw(html: str) -> str:
    """HTML on one line, which Markdown leaves alone: lines within `pre` and of pages in frames,
    whose scripts need them, become references.
    """
    parts = re.split(r'(<pre>.*?</pre>|srcdoc="[^"]*")', html, flags=re.DOTALL)
    joiners = ("&#10;" if part.startswith(("<pre>", "srcdoc=")) else " " for part in parts)
    line = "".join(part.replace("\n", joiner) for part, joiner in zip(parts, joiners, strict=True))
    return line if line.startswith("<div") else f"<div>{line}</div>"  # Markdown leaves blocks alone only
