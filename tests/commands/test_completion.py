# SPDX-License-Identifier: Apache-2.0
"""Shell completion: the script of each shell, and the completions of a line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vdla.cli import main, parsers
from vdla.commands import COMMANDS, OK, load

SHELLS = ("bash", "zsh", "fish")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_is_valid_in_its_shell(shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["completion", shell]) == OK
    script = capsys.readouterr().out
    assert "vdla" in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        assert subprocess.run([shell, "-n", str(tmp_path / "script")], timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("vdla ", [*COMMANDS]),
        ("vdla comp", ["compile", "compare", "completion"]),
        ("vdla run --dev", ["--device"]),
        ("vdla run x.vdla --device r", ["rtl"]),
        ("vdla compile --preset ul", ["ultra96"]),
        ("vdla compile CT", ["CT1", "CT2", "CT3"]),
        ("vdla demo --layer C1", ["C1", "C10", "C11", "C12"]),
        ("vdla native C6 --target cortex-a5", ["cortex-a53"]),
        ("vdla bench eq", ["equality"]),
        ("vdla config ti", ["tiny"]),
        ("vdla verify --for int", ["int4"]),
        ("vdla completion f", ["fish"]),
    ],
)
def test_completions_of_a_line(line: str, words: list[str]) -> None:
    """As bash requests them: completions are written to file descriptor 8, separated by IFS."""
    environment = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": "\n", "COMP_LINE": line, "COMP_POINT": str(len(line))}
    command = ["bash", "-c", f"{sys.executable} -m vdla 8>&1 9>&2 >/dev/null 2>&1"]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, timeout=60)
    assert [word.strip() for word in done.stdout.split("\n") if word] == words


def test_the_words_of_every_option_are_found() -> None:
    """They are looked up at completion only, where a name that has moved would go unnoticed."""
    _, by_name = parsers({name: load(name) for name in COMMANDS})
    actions = [action for parser in by_name.values() for action in parser._actions]
    completers = [action.completer for action in actions if hasattr(action, "completer")]
    assert len(completers) > 30
    for complete in completers:
        assert isinstance(complete(prefix=""), list)
