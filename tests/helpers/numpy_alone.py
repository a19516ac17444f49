# SPDX-License-Identifier: Apache-2.0
"""Environments of a board: Python with NumPy and nothing else, without a network."""

from __future__ import annotations

import subprocess
import venv
from pathlib import Path

import numpy as np


def numpy_alone(folder: Path) -> Path:
    """The Python of a new environment that has the NumPy of this one and nothing else."""
    venv.create(folder, with_pip=True)
    borrowed = folder / "borrowed"
    borrowed.mkdir()
    for path in Path(np.__file__).parents[1].glob("numpy*"):  # the package, its libraries, its metadata
        (borrowed / path.name).symlink_to(path)
    (next(folder.glob("lib/python*/site-packages")) / "borrowed.pth").write_text(f"{borrowed}\n")
    return folder / "bin" / "python"


def run(*command: object, cwd: Path) -> str:
    """What a command prints; it must succeed and say nothing else."""
    environment = {"PATH": "/usr/bin:/bin"}
    arguments = [str(part) for part in command]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, cwd=cwd, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def install(python: Path, *wheels: Path, options: tuple[str, ...] = ()) -> None:
    """Installs wheels as a board does that has no network."""
    quiet = ("--quiet", "--disable-pip-version-check")
    run(python, "-m", "pip", "install", "--no-index", *quiet, *options, *wheels, cwd=python.parent)
