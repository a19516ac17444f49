# SPDX-License-Identifier: Apache-2.0
"""`vdla disasm`: a program file as assembly text."""

from __future__ import annotations

import argparse

from vdla.commands import OK
from vdla.commands.machine_options import add_extension_argument
from vdla.commands.options import add_options
from vdla.commands.program_file import read_program
from vdla.support.atomic import write_text

EXAMPLES = """\
  vdla disasm c2.vdla | less
  vdla disasm c2.vdla --numbers | less   with the number of each instruction
  vdla disasm c2.vdla -o c2.s
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program file and the text."""
    add_options(parser, {"program PROGRAM": "a program file"})
    add_extension_argument(parser, "an extension that the program needs")
    add_options(
        parser,
        {
            "-o --output FILE": "write to FILE instead of standard output",
            "--numbers": "number the instructions, as verdicts and traces do",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Print or write the text, which assembles to the same bytes."""
    from vdla.hardware.asm import disassemble

    text = disassemble(read_program(arguments.program), numbered=arguments.numbers)
    if arguments.output:
        write_text(arguments.output, text)
    else:
        print(text, end="")
    return OK
