# SPDX-License-Identifier: Apache-2.0
"""Pages of documentation as tests: runs their Python and console blocks for comparison.

A `text` block after a `python` block holds its output. A `console` block holds commands, each on a
line that begins with `$ `, followed by their output. A `vdla` that begins a line runs in this
process, which has imported everything already; what follows it on the line, such as a pipe, runs in
the shell, as do all other commands.

A block with `title="PATH"` shows that file of the repository, or an excerpt of it. A file of
`examples` is copied into the folder in which the page runs; one of other folders is an excerpt.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from vdla.cli import main
from vdla.commands import console

_ALONE = re.compile(r"vdla ((?:[^|;&<>$`*()2]|2(?!>))*)((?:2?>|\|).*)?")
"""A command that begins with `vdla`: its words, and redirections and pipes."""
_PROGRESS = re.compile(r"^[^\n]+: [^\n]+ \(\d+(/\d+)?\)\n", re.MULTILINE)
"""The lines of progress that commands print without a terminal where they take longer."""
FENCE = re.compile(r'^```(\w*)(?: title="([^"\n]+)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_LICENCE = re.compile(r"^.*SPDX-License-Identifier.*\n+", re.MULTILINE)
ROOT = Path(__file__).resolve().parents[2]


def fences(page: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page: language and text."""
    return [(language, text) for language, _, text in FENCE.findall(page)]


def plain_commands(path: Path = ROOT / "README.md") -> list[list[str]]:
    """The arguments of `vdla` commands in a page's plain blocks, without comments and pipes."""
    blocks = [text for language, text in fences(path.read_text(encoding="utf-8")) if not language]
    lines = [line for text in blocks for line in text.splitlines() if line.startswith("vdla ")]
    return [shlex.split(line.partition("|")[0], comments=True)[1:] for line in lines]


def shown_file(title: str, text: str) -> str:
    """What a block shows of a file: `text` if that is a part of it, else the whole."""
    whole = _LICENCE.sub("", (ROOT / title).read_text(encoding="utf-8"))
    return text if text in whole else whole


def printed(page: str, folder: Path) -> str:
    """The page with the actual output of its code, which runs in `folder` and in one namespace."""
    space: dict[str, object] = {"__name__": "page"}
    output: str | None = None

    def run(match: re.Match[str]) -> str:
        nonlocal output
        language, title, text = match.groups()
        if title is not None:
            if title.startswith("examples/"):
                shutil.copy(ROOT / title, folder)
            return f'```{language} title="{title}"\n{shown_file(title, text)}```'
        if language == "python":
            assert not output, f"the page must show the output {output!r}"
            output = _run_python(text, space)
        elif language == "text" and output is not None:
            text, output = output, None
        elif language == "console":
            text = _run_console(text, folder)
        return f"```{language}\n{text}```"

    with _inside(folder):
        now = FENCE.sub(run, page)
    assert not output, f"the page must show the output {output!r}"
    return now


def check_page(path: Path, folder: Path, update: bool) -> None:
    """Checks that a page shows the output of its code; with `update`, rewrites the page instead."""
    page = path.read_text(encoding="utf-8")
    now = printed(page, folder)
    _check_pictures(page, path.parent, folder, update)
    if update:
        path.write_text(now, encoding="utf-8")
    else:
        difference = difflib.unified_diff(
            page.splitlines(), now.splitlines(), path.name, "printed now", n=1, lineterm=""
        )
        assert now == page, "\n".join(difference)


def _check_pictures(page: str, pages: Path, folder: Path, update: bool) -> None:
    """A picture of the page that its commands draw is the one beside the page."""
    for name in re.findall(r"!\[[^\]]*\]\(([\w.-]+)\)", page):
        if (folder / name).exists():
            if update:
                shutil.copy(folder / name, pages / name)
            assert (folder / name).read_bytes() == (pages / name).read_bytes(), name


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _run_python(text: str, space: dict[str, object]) -> str:
    importlib.invalidate_caches()  # the block before may have written a module into a folder known to be without it
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(text, "page", "exec"), space)
    return out.getvalue()


def _run_console(text: str, folder: Path) -> str:
    commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {command}\n{_run_command(command, folder)}" for command in commands)


def _run_command(command: str, folder: Path) -> str:
    """The output of a shell command, with errors; `vdla` and `python` are this interpreter's."""
    alone = _ALONE.fullmatch(command)
    written = _run_in_shell(command, folder) if alone is None else _run_here(alone[1], alone[2] or "", folder)
    return _PROGRESS.sub("", written)


_ENVIRONMENT = {"COLUMNS": "80", "NO_COLOR": "1"}


def _run_in_shell(command: str, folder: Path) -> str:
    functions = f'python() {{ "{sys.executable}" "$@"; }}\nvdla() {{ python -m vdla "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-c", functions + command], cwd=folder, env={**os.environ, **_ENVIRONMENT}, text=True, timeout=60,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.stdout


def _run_here(words: str, rest: str, folder: Path) -> str:
    """The output of `vdla words rest`, of which the shell sees only `rest`."""
    out, errors = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, _ENVIRONMENT),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors if rest else out),
        contextlib.suppress(SystemExit),
    ):
        _forget_consoles()
        main(shlex.split(words))
    _forget_consoles()
    if not rest:
        return out.getvalue()
    with tempfile.TemporaryDirectory() as name:
        for stream, text in (("out", out), ("errors", errors)):
            (Path(name) / stream).write_text(text.getvalue(), encoding="utf-8")
        return _run_in_shell(f'{{ cat "{name}/out"; cat "{name}/errors" >&2; }} {rest}', folder)


def _forget_consoles() -> None:
    """Consoles keep the width of the first stream that they met."""
    console.output.cache_clear()
    console.errors.cache_clear()
