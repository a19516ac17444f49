# SPDX-License-Identifier: Apache-2.0
"""The program that a command is given: a program file, or assembly text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import CommandError
from vdla.commands.files import read_text
from vdla.commands.named_operators import layer_names, templates
from vdla.support.file_kind import COMPILED_NETWORK

if TYPE_CHECKING:
    from vdla.hardware.program import Program

ASSEMBLY = ".s"


def read_program(path: Path) -> Program:
    """The program in a program file, or in assembly text when the name ends in .s."""
    from vdla.hardware.asm import AsmError, assemble
    from vdla.hardware.program import Program

    if path.suffix != ASSEMBLY:
        _refuse_operator(path)
        return Program.load(path)
    try:
        return assemble(read_text(path), path.name)
    except AsmError as error:
        raise CommandError(f"{path}: {error}") from None


def is_compiled_network(path: Path) -> bool:
    """Whether a file is a compiled network."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(COMPILED_NETWORK.magic)) == COMPILED_NETWORK.magic


def _refuse_operator(path: Path) -> None:
    """Say how an operator becomes a program where its name stands in place of a file."""
    if path.suffix or path.exists():
        return
    name = next((name for name in layer_names() if name == str(path).upper()), str(path))
    if name in (*layer_names(), *templates()):
        raise CommandError(f"{path}: no such file; compile {name} first: vdla compile {name} -o {name.lower()}.vdla")
