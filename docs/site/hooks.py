# SPDX-License-Identifier: Apache-2.0
"""What the site needs beyond `docs`: pages from the top of the repository, and links to its files.

A link of a page to a file outside `docs` leads to its page, if it has one, and else to the file in
the repository of `repo_url`; without that only its text remains.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Files at the top: the pages that they are; what README says is on the first page."""

_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!\w+:)([^)#\s]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"^(````.*?^````$|```.*?^```$|<div[^\n]*$)", re.DOTALL | re.MULTILINE)
"""Blocks of code and outputs of notebooks, which may have what looks like a link."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages from the top."""
    for name, page in PAGES.items():
        if page not in files.src_uris:
            text = (ROOT / name).read_text(encoding="utf-8")
            files.append(File.generated(config, page, content=_moved(text)))
    return files


def _moved(text: str) -> str:
    """A text from the top as a page: links into docs become links beside it."""
    return re.sub(r"\]\(docs/", "](", text)


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files outside docs, but not in code."""
    folder = posixpath.dirname(page.file.src_uri)
    if folder == "adr":
        page.meta["search"] = {"boost": 0.5}  # pages come before the reasons for what they say
    if page.is_homepage:
        page.meta["hide"] = ["navigation"]

    def mended(match: re.Match[str]) -> str:
        image, text, path, anchor = match.groups()
        at = posixpath.normpath(posixpath.join("docs", folder, path))
        if image or (at.startswith("docs/") and at.removeprefix("docs/") in files.src_uris):
            return match[0]
        name = at.removeprefix("docs/") if page.file.src_uri in PAGES.values() else at
        if name in PAGES:
            return f"[{text}]({posixpath.relpath(PAGES[name], folder or '.')}{anchor or ''})"
        return f"[{text}]({config.repo_url}/blob/main/{name})" if config.repo_url else text

    parts = _CODE.split(markdown)
    return "".join(part if part.startswith(("```", "<div")) else _LINK.sub(mended, part) for part in parts)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """No scripts from elsewhere: the theme would load one for searches without a server."""
    script = posixpath.relpath("site/worker.js", posixpath.dirname(page.file.dest_uri) or ".")
    return output.replace("https://unpkg.com/iframe-worker/shim", script)


def on_post_template(output: str, template_name: str, config: MkDocsConfig) -> str:
    """The same for the page of a missing one."""
    return output.replace("https://unpkg.com/iframe-worker/shim", "site/worker.js")
