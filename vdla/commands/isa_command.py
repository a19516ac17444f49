# SPDX-License-Identifier: Apache-2.0
"""`vdla isa`: the instruction set of a machine, as a page or as a SystemVerilog package; stubs and
cocotb tests of the datapaths of its extensions.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import OK, CommandError
from vdla.commands.files import make_folder
from vdla.commands.machine_options import DEFAULT_PRESET, add_machine_arguments, machine
from vdla.commands.options import add_options
from vdla.support.atomic import write_text

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.hardware.isa import PlugInUnit

EXAMPLES = """\
  vdla isa | less                          the reference page of pynq_z1
  vdla isa --preset int4 -o int4.md
  vdla isa --sv --preset tiny -o vdla_pkg.sv
  vdla isa --extension my.py --datapath -o my.sv
  vdla isa --extension my.py --datapath-test tests
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The machine, the form, the file."""
    add_machine_arguments(parser)
    form = parser.add_mutually_exclusive_group()
    add_options(
        form,
        {
            "--sv": "the SystemVerilog package instead of the reference page",
            "--datapath": "the datapaths of the extensions, as stubs to fill in",
            "--datapath-test DIR": "write a cocotb test of each datapath into this folder",
        },
    )
    add_options(parser, {"-o --output FILE": "write to FILE instead of standard output"})


def run(arguments: argparse.Namespace) -> int:
    """Print or write the page, the package or the stubs; or write the tests."""
    config = machine(arguments)
    if arguments.datapath_test:
        _write_tests(config, arguments)
        return OK
    text = _text(config, arguments)
    if arguments.output:
        write_text(arguments.output, text)
    else:
        print(text, end="")
    return OK


def _text(config: Config, arguments: argparse.Namespace) -> str:
    from vdla.hardware.generate import isa_page, svgen
    from vdla.hardware.generate.datapath_header import stub

    if arguments.datapath:
        return "\n".join(stub(config, unit) for unit in _units(config, "--datapath"))
    return svgen.render(config) if arguments.sv else isa_page.render(config)


def _units(config: Config, option: str) -> tuple[PlugInUnit, ...]:
    """The declarations of a machine; ends with an error if an option needs one and it has none."""
    from vdla.hardware.generate.datapath_ports import datapath_units

    units = datapath_units(config)
    if not units:
        raise CommandError(f"isa: {option} must have an extension, got none; name its file with --extension")
    return units


def _write_tests(config: Config, arguments: argparse.Namespace) -> None:
    from vdla.runtime.checks.datapath_test import render_datapath_test, test_file_name

    folder = arguments.datapath_test
    units = _units(config, "--datapath-test")
    for unit in units:
        if unit.datapath is None:
            rule = f"--datapath-test must have extensions with a datapath, got {unit.name} without one"
            raise CommandError(f"isa: {rule}; vdla isa --datapath prints its ports")
    make_folder(folder)
    preset = f'vdla.Config.preset("{arguments.preset or DEFAULT_PRESET}")'
    made = f"vdla.Config.load({_beside(folder, arguments.config)})" if arguments.config else preset
    sources = ", ".join(_beside(folder, item) for item in arguments.extension)
    for unit in units:
        file = folder / test_file_name(unit)
        write_text(file, render_datapath_test(unit, made, sources))
        print(f"{file}: a cocotb test; python -m pytest {file}")


def _beside(folder: Path, source: str | Path) -> str:
    """A file as seen from a folder, as Python; the name of an entry point as it is."""
    path = Path(source)
    return f'HERE / "{os.path.relpath(path, folder)}"' if path.suffix else f'"{source}"'
