# SPDX-License-Identifier: Apache-2.0
"""`vdla unpack`: the packed arrays that a program gave, as plain arrays."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from vdla.commands import OK, CommandError
from vdla.commands.arrays import read_inputs, write_outputs
from vdla.commands.machine_options import add_extension_argument, integer, key_and_value
from vdla.commands.options import add_options
from vdla.commands.program_file import read_program

EXAMPLES = """\
  vdla unpack conv.vdla --input output=packed/output.npy -o plain
  vdla unpack conv.vdla --input output=y.npy --shape output=1x20x14x14
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program, the arrays, their shapes, the folder."""
    add_options(parser, {"program PROGRAM": "a program file"})
    add_extension_argument(parser, "an extension that the program needs")
    parser.add_argument("--input", nargs="+", required=True, metavar="NAME=FILE", help="packed arrays as .npy files")
    add_options(
        parser,
        {
            "--shape NAME=NxCxHxW...": "plain shapes, without the padding of blocks",
            "-o --output DIR = .": "folder of the results",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Write a plain array for each packed one."""
    from vdla.hardware.program import unpack_blocked

    program = read_program(arguments.program)
    arrays, shapes = read_inputs(arguments.input), _shapes(arguments.shape)
    for name in shapes:
        if name not in arrays:
            raise CommandError(f"unpack: --shape must name one of {', '.join(arrays)}, got {name}")
    plain = {name: unpack_blocked(program.tensor(name), array, shapes.get(name)) for name, array in arrays.items()}
    for path, array in zip(write_outputs(arguments.output, plain), plain.values(), strict=True):
        print(f"{path}: {array.dtype} {list(array.shape)}")
    return OK


def _shapes(settings: Sequence[str]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for setting in settings:
        name, text = key_and_value("--shape", setting)
        shapes[name] = tuple(integer(f"unpack: --shape: {name}", part) for part in text.split("x"))
    return shapes
