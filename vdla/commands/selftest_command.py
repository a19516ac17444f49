# SPDX-License-Identifier: Apache-2.0
"""`vdla selftest`: the generated tests of an extension, on random programs."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING

from vdla.commands import FINDING, OK
from vdla.commands.console import progress
from vdla.commands.machine_options import add_machine_arguments, machine
from vdla.commands.options import add_options

if TYPE_CHECKING:
    from vdla.hardware.config import Config

EXAMPLES = """\
  vdla selftest lut.py                     200 random programs on pynq_z1
  vdla selftest lut.py --preset tiny --programs 1000
  vdla selftest lut.py --seed 37 --programs 1   the program of a seed again
  vdla selftest lut.py --extension other.py     two extensions in a machine
  vdla selftest lut.py --rtl               the datapath as well, with Verilator
"""
PROGRAMS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The extension, the programs, the machine."""
    add_options(
        parser,
        {
            "source EXTENSION": "a Python file that declares it, or an entry point",
            f"--programs N = {PROGRAMS}": f"random programs (default {PROGRAMS})",
            "--seed SEED = 0": "seed of the first program (default 0)",
            "--rtl": "also test the datapaths, and run every program on the RTL",
        },
    )
    add_machine_arguments(parser)


def _check_datapaths(config: Config) -> None:
    """DatapathMismatch unless the datapath of every extension computes what it declares."""
    from vdla.hardware.generate.datapath_ports import datapath_units
    from vdla.hardware.generate.extension_package import require_datapaths
    from vdla.runtime.checks.datapath_check import check_datapath

    require_datapaths(config)
    for unit in datapath_units(config):
        check_datapath(config, unit.parts[0])


def run(arguments: argparse.Namespace) -> int:
    """Run the tests until a view contradicts the declaration; a finding if one does."""
    from vdla.compiler.extensions import extend
    from vdla.hardware.generate.datapath_ports import datapath_units
    from vdla.runtime.checks.datapath_check import DatapathMismatch
    from vdla.verification.generated_tests.check import GeneratedTests
    from vdla.verification.programs.device_pair import rtl_pair

    config = extend(machine(arguments), arguments.source)
    first, count = arguments.seed, arguments.programs
    with progress("selftest") as show, ExitStack() as devices:
        if arguments.rtl:
            try:
                _check_datapaths(config)
            except DatapathMismatch as mismatch:
                print(mismatch)
                return FINDING
        tests = GeneratedTests(config, compare=devices.enter_context(rtl_pair(config)) if arguments.rtl else None)
        for seed in range(first, first + count):
            show(f"seed {seed}", seed - first, count)
            failure = tests.check(seed)
            if failure is not None:
                print(failure)
                return FINDING
        show("done", count, count)
    names = ", ".join(part.name for unit in datapath_units(config) for part in unit.parts)
    print(f"{names} on {config.name}: {', '.join(tests.views)} agree on {count} programs, seeds {first} to {seed}")
    return OK
