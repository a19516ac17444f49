# SPDX-License-Identifier: Apache-2.0
"""The site: its navigation reaches every page in the order of the index; pages show something.

`make docs` builds it, which refuses links and anchors that lead nowhere.
"""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from helpers.documents import FENCE, shown_file

import vdla

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
FROM_THE_TOP = {"contributing.md": "../CONTRIBUTING.md", "changelog.md": "../CHANGELOG.md"}
NOTEBOOKS = [path.relative_to(DOCS).with_suffix(".md").as_posix() for path in DOCS.rglob("*.ipynb")]  # by a hook
PARTS = ["Home", "Student", "Board owner", "Researcher", "Maintainer", "Reference"]


def navigation() -> str:
    return (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]


def reached() -> list[str]:
    """The pages of the navigation, in order."""
    return re.findall(r": (\S+\.md)$", navigation(), re.MULTILINE)


def test_the_learning_path_reaches_every_page_once() -> None:
    assert sorted(reached()) == sorted([*PAGES, *NOTEBOOKS, *FROM_THE_TOP])
    assert re.findall(r"^  - ([^:]+):", navigation(), re.MULTILINE) == PARTS


def test_the_index_has_the_order_of_the_learning_path() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"\]\(([^)#]+\.(?:md|ipynb))\)", index[index.index("\n## ") :])
    listed = [page.replace(".ipynb", ".md") for page in listed]
    assert listed == [FROM_THE_TOP.get(page, page) for page in reached()][1:]
    assert re.findall(r"^## (.*)$", index, re.MULTILINE) == PARTS[1:]


@pytest.mark.parametrize("page", PAGES)
def test_every_page_has_code_or_a_picture(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert re.search(r"^```|^    \S|!\[", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES)
def test_blocks_that_show_a_file_show_what_it_has(page: str) -> None:
    for _, title, text in FENCE.findall((DOCS / page).read_text(encoding="utf-8")):
        if title:
            assert shown_file(title, text) == text, title


def test_every_public_name_is_in_the_reference() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in (DOCS / "api").glob("*.md"))
    names = re.findall(r"^::: vdla\.(\w+)$|^ +heading: vdla\.(\w+)$", text, re.MULTILINE)
    assert sorted(first or second for first, second in names) == sorted(vdla.__all__)


class Links(HTMLParser):
    """The links and anchors of a page, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag in ("script", "img", "iframe"):
            self.loaded |= {given["src"]} if "src" in given else set()
        if tag == "link" and "href" in given:
            self.loaded.add(given["href"])


@pytest.mark.long
def test_the_site_builds_without_a_dead_link_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
    assert done.returncode == 0, done.stdout
    lesson = (tmp_path / "notebooks" / "course" / "decoupled.html").read_text(encoding="utf-8")
    assert "new ARRAYS[type](count)" in lesson  # of the viewer, in a frame: no link
    pages = {path: Links(path) for path in tmp_path.rglob("*.html")}
    assert len(pages) > len(PAGES)
    shown = (tmp_path / "playground.html").read_text(encoding="utf-8")
    built = (tmp_path / "playground" / "index.html").is_file()  # not without npm or a network
    assert ('href="playground/index.html"' in shown) == built
    assert ("built without the playground" in shown) != built
    for path, found in pages.items():
        assert [name for name in found.loaded if re.match(r"(https?:)?//", name)] == []
        for link in found.links:
            if path.name == "404.html" or re.match(r"\w+:", link):
                continue
            name, _, anchor = unquote(link).partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.exists(), f"{path.name}: {link}"
            if anchor and not anchor.startswith("__") and target in pages:
                assert anchor in pages[target].anchors, f"{path.name}: {link}"
