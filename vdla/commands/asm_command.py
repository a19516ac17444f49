# SPDX-License-Identifier: Apache-2.0
"""`vdla asm`: assembly text to a program file."""

from __future__ import annotations

import argparse

from vdla.commands import OK, CommandError
from vdla.commands.machine_options import add_extension_argument
from vdla.commands.options import add_options
from vdla.commands.program_file import ASSEMBLY, read_program

EXAMPLES = """\
  vdla asm kernel.s -o kernel.vdla
  vdla asm kernel.s            the same: beside the text
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The text and the program file."""
    add_options(parser, {"text FILE.s": "assembly text"})
    add_extension_argument(parser, "an extension whose instructions the text has")
    add_options(parser, {"-o --output FILE": "the program file (default: FILE.vdla)"})


def run(arguments: argparse.Namespace) -> int:
    """Assemble; nothing is written when the text has an error."""
    if arguments.text.suffix != ASSEMBLY:
        raise CommandError(f"asm: name of the text must end in {ASSEMBLY}, got {arguments.text}")
    program = read_program(arguments.text)
    target = arguments.output or arguments.text.with_suffix(".vdla")
    program.save(target)
    print(f"{target}: {len(program)} instructions, hash {program.hash}")
    return OK
