# SPDX-License-Identifier: Apache-2.0
"""The text of `docstrings`: what a Python installation and this project say of themselves.

Documentation strings of the standard library, the pages of the language that `help()` shows, and
the project's own pages. Equal installations give equal text. A part of it is held out: it is read
from the installation as well, and is other text in another version of Python.
"""

from __future__ import annotations

import ast
import inspect
import sysconfig
import warnings
from collections.abc import Iterable, Iterator
from hashlib import sha256
from itertools import chain
from pathlib import Path

SHORTEST = 40  # characters; shorter strings say little
HELD_OUT_SHARE = 25
"""One document of so many is held out, by its hash, so that other documents change nothing."""
_LEFT_OUT = frozenset({"site-packages", "test", "tests", "idle_test", "lib2to3", "pydoc_data"})


def documents(pages: Path) -> list[str]:
    """Every document once, in a fixed order; `pages` is the folder of the project's."""
    return list(_once(chain(_of_python(), (path.read_text("utf-8") for path in _pages(pages)))))


def held_out_documents(characters: int) -> Iterator[str]:
    """Documents of Python that are held out, as many as there is room for, none longer than a tenth
    of it.
    """
    room = characters
    for text in filter(is_held_out, _once(_of_python())):
        if len(text) < min(room, characters // 10):
            room -= len(text)
            yield text


def is_held_out(document: str) -> bool:
    """Whether a document is for the measurement of perplexity, and never trained on."""
    return sha256(document.encode()).digest()[0] % HELD_OUT_SHARE == 0


def _once(texts: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for text in map(str.strip, texts):
        if len(text) >= SHORTEST and text not in seen:
            seen.add(text)
            yield text


def _of_python() -> Iterator[str]:
    yield from _of_the_library()
    yield from _of_the_language()


def _pages(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.md") if "api" not in path.parts)


def _of_the_library() -> Iterator[str]:
    """Documentation strings of modules, classes and functions, by file and place."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        if _LEFT_OUT.isdisjoint(path.relative_to(root).parts):
            yield from _of_a_file(path)


def _of_a_file(path: Path) -> Iterator[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = ast.parse(path.read_bytes())
    except SyntaxError:  # templates of other versions
        return
    for node in ast.walk(module):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            yield ast.get_docstring(node) or ""


def _of_the_language() -> Iterator[str]:
    """What `help()` has of statements, and what built-in classes and functions say."""
    import builtins
    from pydoc_data.topics import topics

    yield from (topics[name] for name in sorted(topics))
    for name in sorted(vars(builtins)):
        value = vars(builtins)[name]
        yield inspect.getdoc(value) or ""
        if isinstance(value, type):
            yield from (inspect.getdoc(part) or "" for _, part in sorted(vars(value).items()))
