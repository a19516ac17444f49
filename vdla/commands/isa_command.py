"""`vdla isa`: the instruction set of a machine, as a page or as a SystemVerilog package; stubs of
the datapaths of its extensions.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import OK, CommandError
from vdla.commands.machine_options import add_machine_arguments, machine
from vdla.support.atomic import write_text

if TYPE_CHECKING:
    from vdla.hardware.config import Config

EXAMPLES = """\
  vdla isa | less                          the reference page of pynq_z1
  vdla isa --preset int4 -o int4.md
  vdla isa --sv --preset tiny -o vdla_pkg.sv
  vdla isa --extension my.py --datapath -o my.sv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The machine, the form, the file."""
    add_machine_arguments(parser)
    parser.add_argument("--sv", action="store_true", help="the SystemVerilog package instead of the reference page")
    parser.add_argument("--datapath", action="store_true", help="the datapaths of the extensions, as stubs to fill in")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there instead of standard output")


def run(arguments: argparse.Namespace) -> int:
    """Print or write the page, the package or the stubs."""
    config = machine(arguments)
    text = _text(config, arguments)
    if arguments.output:
        write_text(arguments.output, text)
    else:
        print(text, end="")
    return OK


def _text(config: Config, arguments: argparse.Namespace) -> str:
    from vdla.hardware.generate import isa_page, svgen
    from vdla.hardware.generate.datapath_header import stub
    from vdla.hardware.generate.datapath_ports import datapath_units

    if arguments.datapath:
        units = datapath_units(config)
        if not units:
            raise CommandError("isa: --datapath must have an extension, got none; name its file with --extension")
        return "\n".join(stub(config, unit) for unit in units)
    return svgen.render(config) if arguments.sv else isa_page.render(config)
