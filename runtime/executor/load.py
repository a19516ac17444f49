# SPDX-License-Identifier: Apache-2.0
"""`load(path, device)`: the program or the compiled network in a file, by its first bytes."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.hardware.program import Program, ProgramError
from vdla.hardware.program.program import PROGRAM_FILE
from vdla.simulator.verify import accept_verified
from vdla.support.trusted_hash import require_trusted

if TYPE_CHECKING:
    from vdla.runtime.devices import Device
    from vdla.runtime.executor.model import Model

_MODEL = b"VDLAMODL"


def load(path: str | PathLike[str], device: str | Device | None = None, *, trust: str | None = None) -> Program | Model:
    """The program that `Program.save` wrote, or the model that `Model.save` wrote.

    The programs of a model run on `device`, by default "sim": an open device, or a name or an
    address as `vdla.open_device` takes it, which the model opens at its first run. A program has no
    device of its own; `vdla.run` takes one.

    Programs are verified, which takes most of the time of loading. `trust`, the SHA-256 of a file
    as `sha256sum` prints it, says that this very file was verified where it was compiled.

    Raises:
        ProgramError, ArtifactError: the file cannot be read, is damaged, or breaks a rule.
        VerifyError: a program of a model is unsafe.
        DeviceError: an unknown name. ModelError: the host as the device of a model with programs.
    """
    if not _is_model(path):
        program = Program.load(path) if trust is None else _trusted(path, trust)
        if device is not None:
            shown = repr(device) if isinstance(device, str) else "device"
            raise ProgramError(
                f"load: device must be left out for {program.name}, which is a program, got {shown}: "
                f"vdla.run(program, inputs, device={shown}) takes it"
            )
        return program
    from vdla.runtime.executor.model import Model

    return Model.load(path, "sim" if device is None else device, trust=trust)


def _trusted(path: str | PathLike[str], trust: str) -> Program:
    """The program in a file with this SHA-256, taken for verified."""
    content = PROGRAM_FILE.read(path)
    require_trusted(content, trust, str(path), ProgramError)
    program = Program.from_bytes(content, str(path))
    accept_verified(program)
    return program


def _is_model(path: str | PathLike[str]) -> bool:
    """Whether a file is that of a model; a file that cannot be read is not a model."""
    try:
        file = Path(path)
        if not file.is_file():
            return False
        with file.open("rb") as content:
            return content.read(len(_MODEL)) == _MODEL
    except (OSError, TypeError, ValueError):
        return False
