"""`load(path)`: the program or the compiled network in a file, by the first bytes of the file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.hardware.program import Program

if TYPE_CHECKING:
    from vdla.runtime.executor.model import Model

_MODEL = b"VDLAMODL"


def load(path: str | PathLike[str]) -> Program | Model:
    """The program that `Program.save` wrote, or the model that `Model.save` wrote.

    Raises:
        ProgramError, ArtifactError: the file cannot be read, is damaged, or breaks a rule.
        VerifyError: a program of a model is unsafe.
    """
    if not _is_model(path):
        return Program.load(path)
    from vdla.runtime.executor.model import Model

    return Model.load(path)


def _is_model(path: str | PathLike[str]) -> bool:
    """Whether a file is that of a model; a file that cannot be read is no model."""
    try:
        file = Path(path)
        if not file.is_file():
            return False
        with file.open("rb") as content:
            return content.read(len(_MODEL)) == _MODEL
    except (OSError, TypeError, ValueError):
        return False
