# SPDX-License-Identifier: Apache-2.0
"""`vdla pack`: plain arrays as the packed arrays that a program of one operator takes."""

from __future__ import annotations

import argparse

from vdla.commands import OK
from vdla.commands.arrays import read_inputs, write_outputs
from vdla.commands.machine_options import add_extension_argument
from vdla.commands.options import add_options
from vdla.commands.program_file import read_program

EXAMPLES = """\
  vdla pack conv.vdla --input data=x.npy weight=w.npy -o packed
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program, the arrays, the folder."""
    add_options(parser, {"program PROGRAM": "a program file"})
    add_extension_argument(parser, "an extension that the program needs")
    parser.add_argument(
        "--input", nargs="+", required=True, metavar="NAME=FILE", help="plain arrays as .npy files, such as NCHW"
    )
    add_options(parser, {"-o --output DIR = .": "folder of the results"})


def run(arguments: argparse.Namespace) -> int:
    """Write a packed array for each plain one."""
    from vdla.hardware.program import pack_blocked

    program = read_program(arguments.program)
    arrays = read_inputs(arguments.input)
    packed = {name: pack_blocked(program.tensor(name), array) for name, array in arrays.items()}
    for path, array in zip(write_outputs(arguments.output, packed), packed.values(), strict=True):
        print(f"{path}: {array.dtype} {list(array.shape)}")
    return OK
