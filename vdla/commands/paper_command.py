# SPDX-License-Identifier: Apache-2.0
"""`vdla paper`: measures a figure of TVM's paper again, with its claims."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import OK
from vdla.commands.console import output, progress, table
from vdla.commands.files import require_folders
from vdla.commands.options import add_options
from vdla.support.atomic import write_text

if TYPE_CHECKING:
    from vdla.benchmarks.harness import BenchmarkResult

EXAMPLES = """\
  vdla paper                               the figures, and what stands for
                                           the paper's machines here
  vdla paper figure10                      its rows, and its claims beside those
                                           of the paper
  vdla paper figure10 --picture f10.svg    drawn as in the paper
  vdla paper figure14 --small --json -     small networks, as JSON
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The figure, the size, the form of the result."""
    add_options(parser, {"name FIGURE": "the figure; all are listed without it"}, _names, nargs="?")
    add_options(
        parser,
        {
            "--json": "write JSON to FILE, or to standard output in place of tables",
            "--picture FILE": "draw the figure as SVG",
            "--seed SEED = 0": "seed of weights and inputs (default 0)",
            "--small": "small networks, fewer layers",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure a figure, or list all; the exit code does not depend on claims."""
    if arguments.name is None:
        return _list()
    paper = _paper()
    paper.figure(arguments.name)  # before anything runs
    require_folders("paper", arguments, "json", "picture")
    with progress(f"paper {arguments.name}") as show:
        result, picture = paper.run(arguments.name, show, arguments.seed, small=arguments.small)
    if arguments.picture:
        write_text(Path(arguments.picture), picture)
    if arguments.json == "-":
        print(result.json(), end="")
    elif arguments.json:
        write_text(Path(arguments.json), result.json())
    else:
        _show(arguments.name, result)
    return OK


def _paper() -> Any:  # noqa: ANN401  a module: benchmarks import commands, so these import none of them
    return import_module("vdla.benchmarks.paper.figures")


def _names() -> list[str]:
    return list(_paper().FIGURES)


def _list() -> int:
    listing = table("figures", "name", "subject", "in the paper", "here")
    for column in listing.columns:
        column.justify, column.no_wrap = "left", False
    for name, figure in _paper().FIGURES.items():
        listing.add_row(name, figure.subject, figure.paper, figure.here)
    output().print(listing)
    return OK


def _show(name: str, result: BenchmarkResult) -> None:
    chosen = _paper().FIGURES[name]
    rows = [row for row in result.rows if "claim" not in row]
    listing = table(f"{name}, {chosen.subject}: {chosen.here}", *rows[0])
    for row in rows:
        listing.add_row(*(_cell(value) for value in row.values()))
    output().print(listing)
    output().print()
    claims = table(f"claims, in the paper on {chosen.paper}", "claim", "paper", "here", "holds")
    for row in result.rows:
        if "claim" in row:
            claims.add_row(row["claim"], row["paper"], _cell(row["here"]), "yes" if row["holds"] else "no")
    output().print(claims)


def _cell(value: object) -> str:
    return f"{value:,.4g}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
