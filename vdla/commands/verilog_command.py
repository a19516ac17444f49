# SPDX-License-Identifier: Apache-2.0
"""`vdla verilog`: the hardware of a machine as files for synthesis and block designs."""

from __future__ import annotations

import argparse

from vdla.commands import OK
from vdla.commands.files import make_folder
from vdla.commands.machine_options import add_machine_arguments, machine
from vdla.commands.options import add_options
from vdla.support.atomic import write_text
from vdla.support.licence import write_licence

EXAMPLES = """\
  vdla verilog --preset pynq_z1 --address-bits 32 -o build/pynq_z1
  vdla verilog --preset zcu104 -o build/zcu104
  vdla verilog --preset tiny --prefix tiny_ -o build/tiny
"""

LIST = "files.f"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The machine, the addresses, the folder."""
    add_machine_arguments(parser)
    parser.add_argument(
        "--address-bits",
        type=int,
        choices=(32, 40),
        default=40,
        help="bits of a memory address: 32 on Zynq-7000, 40 on Zynq UltraScale+ (default 40)",
    )
    parser.add_argument(
        "--prefix",
        metavar="NAME",
        default="",
        help="put NAME before the names of modules and packages, so that a design can hold several machines",
    )
    add_options(parser, {"-o --output DIR": "folder of the files"}, required=True)


def run(arguments: argparse.Namespace) -> int:
    """Write the packages, the modules, the wrapper and the list of them."""
    from vdla.hardware.generate.prefixed import prefixed
    from vdla.hardware.generate.verilog_files import verilog_files
    from vdla.hardware.generate.verilog_wrapper import WRAPPER

    files = verilog_files(machine(arguments), arguments.address_bits)
    if arguments.prefix:
        files = prefixed(files, arguments.prefix)
    make_folder(arguments.output)
    for name, text in files.items():
        write_text(arguments.output / name, text)
    write_text(arguments.output / LIST, "".join(f"{name}\n" for name in files))
    write_licence(arguments.output)
    top = f"{arguments.prefix}{WRAPPER}"
    print(f"{arguments.output}: {len(files)} files, in order in {LIST}; the top for block designs is {top}")
    return OK
