"""`vdla isa`: the instruction set of a machine, as a page or as a SystemVerilog package."""

from __future__ import annotations

import argparse
from pathlib import Path

from vdla.commands import OK
from vdla.commands.machine_options import add_machine_arguments, machine
from vdla.support.atomic import write_text

EXAMPLES = """\
  vdla isa | less                          the reference page of pynq_z1
  vdla isa --preset int4 -o int4.md
  vdla isa --sv --preset tiny -o vdla_pkg.sv
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The machine, the form, the file."""
    add_machine_arguments(parser)
    parser.add_argument("--sv", action="store_true", help="the SystemVerilog package instead of the reference page")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there instead of standard output")


def run(arguments: argparse.Namespace) -> int:
    """Print or write the page or the package."""
    from vdla.hardware.generate import isa_page, svgen

    config = machine(arguments)
    text = svgen.render(config) if arguments.sv else isa_page.render(config)
    if arguments.output:
        write_text(arguments.output, text)
    else:
        print(text, end="")
    return OK
