# SPDX-License-Identifier: Apache-2.0
"""`load(path, device)`: the program or the compiled network in a file, by its first bytes."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.hardware.program import Program, ProgramError

if TYPE_CHECKING:
    from vdla.runtime.devices import Device
    from vdla.runtime.executor.model import Model

_MODEL = b"VDLAMODL"


def load(path: str | PathLike[str], device: str | Device | None = None) -> Program | Model:
    """The program that `Program.save` wrote, or the model that `Model.save` wrote.

    The programs of a model run on `device`, by default "sim": an open device, or a name or an
    address as `vdla.open_device` takes it, which the model opens at its first run. A program has no
    device of its own; `vdla.run` takes one.

    Raises:
        ProgramError, ArtifactError: the file cannot be read, is damaged, or breaks a rule.
        VerifyError: a program of a model is unsafe.
        DeviceError: an unknown name. ModelError: the host as the device of a model with programs.
    """
    if not _is_model(path):
        program = Program.load(path)
        if device is not None:
            shown = repr(device) if isinstance(device, str) else "device"
            raise ProgramError(
                f"load: device must be left out for {program.name}, which is a program, got {shown}: "
                f"vdla.run(program, inputs, device={shown}) takes it"
            )
        return program
    from vdla.runtime.executor.model import Model

    return Model.load(path, "sim" if device is None else device)


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
