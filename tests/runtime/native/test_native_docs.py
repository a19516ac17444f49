# SPDX-License-Identifier: Apache-2.0
"""docs/native.md: its Python, C and shell blocks run in order, and print the text below them."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest
from helpers.native_programs import run, toolchain

BLOCK = re.compile(r"```(python|c|sh)\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", re.DOTALL)


def test_the_page_of_native_code_shows_its_output(
    root: Path, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolchain("host")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}

    def executed(match: re.Match[str]) -> str:
        language, code, _ = match.groups()
        printed = io.StringIO()
        if language == "python":
            with contextlib.redirect_stdout(printed):
                exec(code, names)
        elif language == "c":
            Path("main.c").write_text(code)
        else:
            printed.write(run(["sh", "-e", "-c", code]))
        output = f"\n```text\n{printed.getvalue()}```\n" if printed.getvalue() else ""
        return f"```{language}\n{code}```\n{output}"

    page = root / "docs" / "native.md"
    new = BLOCK.sub(executed, page.read_text(encoding="utf-8"))
    if request.config.getoption("--update-golden"):
        page.write_text(new, encoding="utf-8")
    assert new == page.read_text(encoding="utf-8")
