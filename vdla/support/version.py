# SPDX-License-Identifier: Apache-2.0
"""The version of VDLA, and the commit of this copy.

`VERSION` is written here only: `pyproject.toml` reads it, and `tests/test_version.py` holds it
against CHANGELOG.md. The commit comes from Git in a checkout; a wheel and an sdist carry it in a
file that their build writes. Elsewhere it is unknown.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

VERSION = "0.2.0.dev0"
COMMIT_FILE = "commit.txt"
_PACKAGE = Path(__file__).resolve().parent.parent
_DIGITS = 12


def version_text() -> str:
    """The version with its commit: `0.1.0 (commit 3f6c1d9a0b2e)`, or without it where unknown."""
    known = commit()
    return f"{VERSION} (commit {known})" if known else VERSION


def commit() -> str | None:
    """The commit of a checkout, with `-dirty` if files differ from it, or the one that was recorded
    in a distribution.
    """
    if _is_checkout(_PACKAGE):
        return _commit_of(_PACKAGE.parent)
    recorded = Path(__file__).with_name(COMMIT_FILE)
    return recorded.read_text(encoding="utf-8").strip() if recorded.is_file() else None


def _is_checkout(package: Path) -> bool:
    """Whether a package lies in a repository of VDLA: there, its parts are links to the folders
    beside it; in an installation or an sdist they are folders or absent.
    """
    return (package / "hardware").is_symlink() and (package.parent / ".git").exists()


def _commit_of(repository: Path) -> str | None:
    where = (f"--git-dir={repository / '.git'}", f"--work-tree={repository}")
    command = ["git", *where, "describe", "--always", "--dirty", f"--abbrev={_DIGITS}", "--exclude=*"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None  # no Git, or a repository of another user
    return done.stdout.strip()
