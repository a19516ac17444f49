"""`vdla selftest`: the generated tests of an extension, on random programs."""

from __future__ import annotations

import argparse

from vdla.commands import FINDING, OK
from vdla.commands.console import progress
from vdla.commands.machine_options import add_machine_arguments, machine, natural, positive

EXAMPLES = """\
  vdla selftest lut.py                     200 random programs on pynq_z1
  vdla selftest lut.py --preset tiny --programs 1000
  vdla selftest lut.py --seed 37 --programs 1   the program of a seed again
  vdla selftest lut.py --extension other.py     two extensions in a machine
"""
PROGRAMS = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The extension, the programs, the machine."""
    parser.add_argument("source", metavar="EXTENSION", help="a Python file that declares it, or an entry point")
    parser.add_argument(
        "--programs", type=positive, default=PROGRAMS, metavar="N", help=f"random programs (default {PROGRAMS})"
    )
    parser.add_argument("--seed", type=natural, default=0, help="seed of the first program (default 0)")
    add_machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the tests until a view contradicts the declaration; a finding if one does."""
    from vdla.benchmarks.generated_tests.check import GeneratedTests
    from vdla.compiler.extensions import extend

    config = extend(machine(arguments), arguments.source)
    tests = GeneratedTests(config)
    first, count = arguments.seed, arguments.programs
    with progress("selftest") as show:
        for seed in range(first, first + count):
            show(f"seed {seed}", seed - first, count)
            found = tests.check(seed)
            if found is not None:
                print(found)
                return FINDING
        show("done", count, count)
    names = ", ".join(plug_in.name for plug_in in config.extensions)
    print(f"{names} on {config.name}: {', '.join(tests.views)} agree on {count} programs, seeds {first} to {seed}")
    return OK
