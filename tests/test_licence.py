# SPDX-License-Identifier: Apache-2.0
"""Every source file names its licence by an SPDX line: the first line, or the one after `#!`.

`pytest tests/test_licence.py --update-golden` adds the lines that are missing.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

LINE = "SPDX-License-Identifier: Apache-2.0"
HASH, SLASHES, SEMICOLON = "#", "//", ";"
COMMENTS = {
    **dict.fromkeys((".py", ".sh", ".tcl", ".toml", ".yml"), HASH),
    **dict.fromkeys((".sv", ".v", ".vlt", ".c", ".h", ".cpp"), SLASHES),
    ".ll": SEMICOLON,
}
NAMES = dict.fromkeys(("Makefile", "run", "board-python"), HASH)  # without a suffix


def comment(path: Path) -> str | None:
    """How a line of a source file becomes a comment; None for data."""
    if path.is_symlink() or "golden" in path.parts:
        return None
    return COMMENTS.get(path.suffix) if path.suffix else NAMES.get(path.name)


def has_line(text: str, mark: str) -> bool:
    lines = text.splitlines()[:2]
    return f"{mark} {LINE}" in (lines[-1:] if text.startswith("#!") else lines[:1])


def with_line(text: str, mark: str) -> str:
    first, rest = text.split("\n", 1) if text.startswith("#!") else ("", text)
    return f"{first}\n{mark} {LINE}\n{rest}" if first else f"{mark} {LINE}\n{rest}"


@pytest.fixture
def sources(root: Path) -> dict[Path, str]:
    """The sources in the repository, new ones included, with their marks of a comment."""
    if shutil.which("git") is None or not (root / ".git").exists():
        pytest.skip("needs a checkout and git")
    command = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    paths = (root / name for name in done.stdout.split("\0") if name)
    return {path: mark for path in paths if path.is_file() and (mark := comment(path.relative_to(root)))}


def test_every_source_names_its_licence(sources: dict[Path, str], root: Path, request: pytest.FixtureRequest) -> None:
    assert len(sources) > 1000
    without = [path for path, mark in sources.items() if not has_line(path.read_text(encoding="utf-8"), mark)]
    if request.config.getoption("--update-golden"):
        for path in without:
            path.write_text(with_line(path.read_text(encoding="utf-8"), sources[path]), encoding="utf-8")
    else:
        names = [str(path.relative_to(root)) for path in without]
        assert names == [], "pytest tests/test_licence.py --update-golden adds the lines"


def test_the_line_is_the_first_or_follows_the_interpreter() -> None:
    script, module = "#!/bin/sh\nexit\n", '"""A module."""\n'
    assert with_line(script, HASH) == f"#!/bin/sh\n# {LINE}\nexit\n"
    assert with_line(module, HASH) == f'# {LINE}\n"""A module."""\n'
    assert with_line("", SLASHES) == f"// {LINE}\n"
    for text in (script, module, ""):
        assert has_line(with_line(text, HASH), HASH)
        assert not has_line(text, HASH) and not has_line(text + "\n" + f"# {LINE}\n" * 2, HASH)


def test_links_golden_files_and_data_are_no_sources(tmp_path: Path) -> None:
    (tmp_path / "link.py").symlink_to("other.py")
    assert comment(tmp_path / "link.py") is None
    assert [comment(Path(name)) for name in ("a/golden/b.py", "a.s", "a.md", "a.json", "LICENSE")] == [None] * 5
    assert [comment(Path(name)) for name in ("a.py", "rtl/a.sv", "a.ll", ".ci/run")] == ["#", "//", ";", "#"]
