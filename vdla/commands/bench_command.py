# SPDX-License-Identifier: Apache-2.0
"""`vdla bench`: runs one benchmark; the result on standard output, progress on standard error."""

from __future__ import annotations

import argparse
import ast
import os
from importlib import import_module
from importlib.resources import files
from inspect import signature
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vdla.commands import FINDING, OK, CommandError
from vdla.commands.console import output, progress, table
from vdla.commands.files import require_folders
from vdla.commands.options import add_options
from vdla.support.atomic import write_text
from vdla.support.suggest import one_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable
    from types import ModuleType

    from vdla.benchmarks.harness import BenchmarkResult

EXAMPLES = """\
  vdla bench --list                 the benchmarks and their subjects
  vdla bench layers                 a table of ResNet-18's convolutions
  vdla bench layers --preset tiny   the same on another machine
  vdla bench layers --json -        the table as JSON on standard output
  vdla bench compile --json c.json  the same into a file
  vdla bench equality --long        10,000 random programs on simulator and RTL
  vdla bench evaluate mismatches --long
                                    2,000 programs a machine and memory
  vdla bench fuzz                   random schedules of random expressions
  vdla bench network vit_small      one network in place of four
  vdla bench tune convergence --picture tune.svg
                                    trials that searches need
"""

# Figures that decide the exit code: they must be 1, or 0.
_MUST_BE_ONE = ("all_exact", "fits", "network_equal")
_MUST_BE_ZERO = (
    "missed",
    "mutants_missed",
    "false_alarms",
    "mismatches",
    "survivors",
    "refuted",
    "disagreements",
    "one_sided",
    "bitserial_error",
    "crashed",
    "crashes",
    "unexpected",
    "without_remedy",
    "tracebacks",
    "failed",
    "device_tests_failed",
    "on_board_tests_failed",
    "remote_wrong",
    "wrong",
    "lost",
    "repeated",
    "duplicated",
    "leaked_buffers",
    "hangs",
    "canary_changed",
    "canary_read",
    "memory_unbounded",
    "invalid_measured",
)
# Others of one benchmark only, by the names of theirs.
_OF_BENCHMARKS = {
    "certify": (
        "refused",
        "layers_refused",
        "networks_refused",
        "network_cost_refused",
        "network_accepted",
        "accepted",
        "equivalent_refused",
    ),
    "grids": ("refused",),
    "generate": tuple(
        f"rtl_{what}{weights}" for what in ("mismatches", "cycles_apart") for weights in ("", "_int4", "_one_program")
    ),
    "zoo": ("refused", "int8_loss", "int8_constant"),
}

# Options of some benchmarks, and the rule that others break.
_OPTIONS = {
    "preset": "--preset must be for a benchmark of any machine",
    "long": "--long must be for a benchmark with a long form",
    "subjects": "subjects must be for a benchmark that takes some",
    "picture": "--picture must be for a benchmark that draws",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The benchmark, its seed, the form of the result."""
    add_options(parser, {"name NAME": "the benchmark; --list shows all"}, _descriptions, nargs="?")
    text = "what to measure (certify, evaluate, generate, kernels, modern, network, peers, tune, view); all by default"
    add_options(parser, {"subjects SUBJECT": text}, nargs="*")
    add_options(
        parser,
        {
            "--list": "list the benchmarks",
            "--json": "write JSON to FILE, or to standard output in place of tables",
            "--seed SEED = 0": "seed of all random data (default 0)",
            "--preset NAME": "the machine (area; layers, default pynq_z1)",
            "--picture FILE": "draw the result as SVG (scaling, tune)",
            "--long": "the long form (area, board, equality, evaluate, fuzz, generate, gpu, rtl_mutants, scaling)",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the benchmark; exit code 1 when a figure of _MUST_BE_ONE or _MUST_BE_ZERO is not."""
    if arguments.list:
        return _list()
    require_folders("bench", arguments, "json", "picture")
    os.environ.setdefault("VDLA_CERTIFICATE", "0")  # what it takes to certify is a figure of its own
    options = {name: getattr(arguments, name) for name in _OPTIONS if getattr(arguments, name)}
    result = _run_benchmark(arguments.name, arguments.seed, options)
    if arguments.json == "-":
        print(result.json(), end="")
    elif arguments.json:
        write_text(Path(arguments.json), result.json())
    else:
        _show(result)
    return OK if passed(result) else FINDING


def _descriptions() -> dict[str, str]:
    """The benchmarks with the first line of their docstrings, read without importing them."""
    trees = {name: ast.parse(source.read_text(encoding="utf-8")) for name, source in _sources().items()}
    benchmarks = {name: tree for name, tree in trees.items() if _has_run(tree)}
    return {name: (ast.get_docstring(tree) or "").split("\n")[0] for name, tree in benchmarks.items()}


def _sources() -> dict[str, Traversable]:
    """name: the file of a module, or `benchmark.py` of a folder; a folder without that file is not
    a benchmark.
    """
    sources = {}
    for entry in sorted(files("vdla.benchmarks").iterdir(), key=attrgetter("name")):
        source = entry if entry.name.endswith(".py") else entry.joinpath("benchmark.py")
        if source.is_file():
            sources[entry.name.removesuffix(".py")] = source
    return sources


def _has_run(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body)


def _module(name: str) -> ModuleType:
    is_folder = _sources()[name].name == "benchmark.py"
    return import_module(f"vdla.benchmarks.{name}{'.benchmark' if is_folder else ''}")


def _run_benchmark(name: str | None, seed: int, options: Mapping[str, Any]) -> BenchmarkResult:
    """The result of a benchmark; options are refused where there is no choice."""
    known = _descriptions()
    if name not in known:
        raise CommandError(f"bench: name must be {one_of(name or 'nothing', known)}")
    module = _module(name)
    for option, value in options.items():
        if option not in signature(module.run).parameters:
            got = name if option == "long" else " ".join(value) if option == "subjects" else value
            raise CommandError(f"bench {name}: {_OPTIONS[option]}, got {got}")
    with progress(f"bench {name}") as show:
        return cast("BenchmarkResult", module.run(show, seed=seed, **options))


def passed(result: BenchmarkResult) -> bool:
    """Whether every figure of _MUST_BE_ONE and _MUST_BE_ZERO is."""
    ones = all(result.figures.get(name, 1) == 1 for name in _MUST_BE_ONE)
    zeros = (*_MUST_BE_ZERO, *_OF_BENCHMARKS.get(result.name, ()))
    return ones and all(result.figures.get(name, 0) == 0 for name in zeros)


def _list() -> int:
    listing = table("benchmarks", "name", "measures")
    listing.columns[1].justify = "left"
    listing.columns[1].no_wrap = False
    for name, description in _descriptions().items():
        listing.add_row(name, description)
    output().print(listing)
    return OK


def _show(result: BenchmarkResult) -> None:
    figures = table(result.name, "figure", "value")
    for name, value in result.figures.items():
        figures.add_row(name, _number(value))
    for columns, rows in groupby(result.rows, tuple):
        listing = table("rows", *columns)
        for row in rows:
            listing.add_row(*(_number(row[column]) for column in columns))
        output().print(listing)
        output().print()
    output().print(figures)


def _number(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
