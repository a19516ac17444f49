# SPDX-License-Identifier: Apache-2.0
"""Records the commit in wheels and sdists; everything else is in pyproject.toml.

A wheel that is built from an sdist gets the sdist's file as package data.
"""

from __future__ import annotations

from pathlib import Path
from runpy import run_path
from typing import Any

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
RECORD = Path("vdla", "support", "commit.txt")


def record(folder: str) -> None:
    """Writes the commit of this checkout into a folder with a copy of the sources."""
    commit = run_path(str(HERE / "vdla" / "support" / "version.py"))["commit"]()
    if commit is not None:
        path = folder / RECORD
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{commit}\n", encoding="utf-8")
    elif not (HERE / RECORD).exists():
        (folder / RECORD).unlink(missing_ok=True)  # of an earlier build in the same folder


class BuildWithCommit(build_py):
    """Copies the modules; an editable installation has none of its own."""

    def run(self) -> None:
        """Copy, then record the commit."""
        super().run()
        if not self.editable_mode:
            record(self.build_lib)


class ArchiveWithCommit(sdist):
    """Makes the tree of the archive."""

    def make_release_tree(self, base_dir: str, files: Any) -> None:  # noqa: ANN401  untyped in setuptools
        """Copy, then record the commit."""
        super().make_release_tree(base_dir, files)
        record(base_dir)


setup(cmdclass={"build_py": BuildWithCommit, "sdist": ArchiveWithCommit})
