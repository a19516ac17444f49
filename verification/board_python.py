# SPDX-License-Identifier: Apache-2.0
"""Pythons as boards have them: that of PYNQ's images, and Debian's for Arm in an emulator.

`.ci/board-python` fetches Debian's packages into a folder for each architecture.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vdla.support.errors import Error

FOLDER = Path(os.environ.get("VDLA_BOARD_PYTHON", Path.home() / ".cache/vdla/board-python"))
IMAGE_NUMPY = "1.21.5"
"""The NumPy of PYNQ's images 3.0 and 3.1, beside Python 3.10."""


@dataclass(frozen=True)
class EmulatedPython:
    """The emulator of a CPU, and the architecture whose root folder it takes."""

    emulator: tuple[str, ...]
    architecture: str

    @property
    def root(self) -> Path:
        """The root folder."""
        return FOLDER / self.architecture

    @property
    def is_here(self) -> bool:
        """Whether emulator and folder are installed."""
        return shutil.which(self.emulator[0]) is not None and (self.root / "usr/bin/python3").exists()

    @property
    def command(self) -> list[str]:
        """The command that starts Python."""
        return [*self.emulator, "-L", str(self.root), str(self.root / "usr/bin/python3")]


EMULATED = {
    "cortex-a9": EmulatedPython(("qemu-arm", "-cpu", "cortex-a9"), "armhf"),
    "cortex-a53": EmulatedPython(("qemu-aarch64", "-cpu", "cortex-a53"), "arm64"),
}


class ImagePythonError(Error, RuntimeError):
    """Python 3.10 or NumPy 1.21.5 cannot be had here."""


def image_python(folder: Path) -> str:
    """Python 3.10 with NumPy 1.21.5 in a new environment in `folder`.

    Raises:
        ImagePythonError: there is no Python 3.10, or its NumPy cannot be installed.
    """
    base = next(_pythons_3_10(), None)
    if base is None:
        raise ImagePythonError("needs Python 3.10")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    make, pip = [base, "-m", "venv", str(folder)], [str(folder / "bin/pip"), "install", "-q"]
    for command in (make, [*pip, f"numpy=={IMAGE_NUMPY}"]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)
        if done.returncode:
            raise ImagePythonError(f"needs NumPy {IMAGE_NUMPY}: {done.stderr.strip()[-200:]}")
    return str(folder / "bin/python")


def _pythons_3_10() -> Iterator[str]:
    for path in sorted(Path.home().glob(".pyenv/versions/3.10.*/bin/python"), reverse=True):
        yield str(path)
    given = shutil.which("python3.10")
    if given:
        yield given
