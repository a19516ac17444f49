# SPDX-License-Identifier: Apache-2.0
"""`vdla map`: the ways to compute an operator on a machine, with their cycles and reasons."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

from vdla.commands import OK, CommandError
from vdla.commands.console import output, progress, table
from vdla.commands.files import write_json
from vdla.commands.machine_options import add_machine_arguments, machine
from vdla.commands.named_operators import definition_of, definitions, expression_of_file, layer_names, refuse_shape
from vdla.commands.options import add_options
from vdla.support.suggest import one_of

if TYPE_CHECKING:
    from vdla.runtime.tune.mapping import MappingReport

EXAMPLES = """\
  vdla map C1                        a layer of ResNet-18
  vdla map D3                        a depthwise convolution of MobileNet
  vdla map convolution --shape in_channels=8 out_channels=16 size=9x9x9 kernel=3
  vdla map my.py:attention --preset ultra96     a function of yours that
                                     returns the tensor of its result
  vdla map C5 -o c5.vdla             write the program of the first one
"""

_SHOWN = 8  # rows, without --all


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The operator, the machine, what to show."""
    add_options(parser, {"operator OPERATOR": "a definition, a layer such as C6, or FILE.py:NAME"}, _names)
    add_options(
        parser,
        {
            "--shape KEY=N...": "the definition's options",
            "--threads N = 2": "virtual threads (default 2)",
            f"--measured N = {_SHOWN}": "time the first N (default 8)",
            "--all": "show every mapping and every reason",
            "-o --output FILE": "write the program of the first mapping",
            "--json": "write JSON to FILE, or to standard output in place of tables",
        },
    )
    add_machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Enumerate, time the first ones, print."""
    from vdla.runtime.tune.mapping import explore_mappings

    config = machine(arguments)
    name, tensor = _tensor(arguments)
    with progress(f"map {name}") as show:
        report = explore_mappings(tensor, config, arguments.threads, arguments.measured, name, show)
    if arguments.output:
        report.operators[0].program.save(arguments.output)
    if not write_json(arguments.json, _document(report)):
        _show(name, config.name, report, arguments.all)
        if arguments.output:
            print(f"\n{arguments.output}: {report.operators[0].description}")
    return OK


# --- operators ------------------------------------------------------------------------------------


def _tensor(arguments: argparse.Namespace) -> tuple[str, Any]:
    """The name and the plain result of the operator to map."""
    from vdla.compiler.operators.definitions import of_workload
    from vdla.compiler.operators.workloads import workload

    name = arguments.operator
    if ".py" in name:
        return expression_of_file("map", name)
    if name.upper() in layer_names():
        refuse_shape("map", name, arguments.shape)
        return name.upper(), of_workload(workload(name)).output
    if name not in definitions():
        raise CommandError(f"map: operator must be {one_of(name, _names(), ', or FILE.py:NAME')}")
    return name, definition_of("map", name, arguments.shape).output


def _names() -> list[str]:
    """The definitions, and the layers."""
    return [*definitions(), *layer_names()]


# --- reports --------------------------------------------------------------------------------------


def _show(name: str, machine_name: str, report: MappingReport, everything: bool) -> None:
    console = output()
    shown = report.operators if everything else report.operators[:_SHOWN]
    listing = table(f"{name} on {machine_name}", "mapping", "lanes %", "host bytes", "estimate", "cycles")
    listing.columns[0].no_wrap = False  # numbers stay whole in a narrow terminal
    for row, operator in enumerate(shown):
        cycles = f"{report.cycles[row]:,}" if row < len(report.cycles) else "-"
        mapping = str(operator.mapping).split(" (")[0]
        extra = f"+{operator.extra_bytes:,}" if operator.extra_bytes else "0"
        listing.add_row(mapping, f"{operator.mapping.used:.0%}"[:-1], extra, f"{operator.estimate:,.0f}", cycles)
    console.print(listing)
    if len(shown) < len(report.operators):
        console.print(f"and {len(report.operators) - len(shown)} more (--all)")
    console.print(f"\nfirst: {report.operators[0].description}", soft_wrap=True)
    _show_refused(report, everything)


def _show_refused(report: MappingReport, everything: bool) -> None:
    """The refused mappings: each one, or how many for each reason."""
    shown = (*report.refused, *report.others) if everything else report.refused
    if not shown:
        return
    console = output()
    console.print()
    if everything:
        for refusal in shown:
            console.print(f"refused {refusal.mapping}: {refusal.reason}", soft_wrap=True)
        return
    for reason, count in Counter(refusal.reason for refusal in report.refused).items():
        console.print(f"refused {count}: {reason}", soft_wrap=True)


def _document(report: MappingReport) -> dict[str, Any]:
    """The mappings as JSON-compatible values."""
    rows = [
        {
            "mapping": str(operator.mapping),
            "tiling": str(operator.tiling),
            "host_bytes": operator.extra_bytes,
            "estimate": round(operator.estimate),
            "cycles": report.cycles[row] if row < len(report.cycles) else None,
        }
        for row, operator in enumerate(report.operators)
    ]
    refused = [{"mapping": one.mapping, "reason": one.reason} for one in (*report.refused, *report.others)]
    return {"mappings": rows, "refused": refused}
