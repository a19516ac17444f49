"""`vdla map`: the ways to compute an operator on a machine, with their cycles and reasons."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import OK, CommandError
from vdla.commands.completion import complete_with
from vdla.commands.console import output, progress, table
from vdla.commands.machine_options import add_machine_arguments, machine, positive
from vdla.commands.plain_expressions import definition_of, definitions, expression_of_file
from vdla.support.atomic import write_text
from vdla.support.suggest import did_you_mean

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
    name = parser.add_argument("operator", metavar="OPERATOR", help="a definition, a layer such as C6, or FILE.py:NAME")
    complete_with(name, _names)
    parser.add_argument("--shape", nargs="+", default=[], metavar="KEY=N", help="the definition's options")
    parser.add_argument("--threads", type=positive, default=2, metavar="N", help="virtual threads (default 2)")
    parser.add_argument("--measured", type=positive, default=_SHOWN, metavar="N", help="time the first N (default 8)")
    parser.add_argument("--all", action="store_true", help="show every mapping and every reason")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the program of the first mapping")
    parser.add_argument("--json", metavar="FILE", help="write the mappings as JSON; - is standard output")
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
    if arguments.json:
        _write_json(arguments.json, report)
    if arguments.json != "-":
        _show(name, config.name, report, arguments.all)
        if arguments.output:
            print(f"\n{arguments.output}: {report.operators[0].description}")
    return OK


# --- operators ------------------------------------------------------------------------------------


def _tensor(arguments: argparse.Namespace) -> tuple[str, Any]:
    """The name and the plain result of what is mapped."""
    from vdla.compiler.operators.definitions import of_workload
    from vdla.compiler.operators.workloads import workload, workloads

    name = arguments.operator
    if ".py" in name:
        return expression_of_file("map", name)
    if name.upper() in workloads():
        if arguments.shape:
            raise CommandError(f"map {name}: --shape must be left out for a named layer, got {arguments.shape[0]}")
        return name.upper(), of_workload(workload(name)).output
    if name not in definitions():
        raise CommandError(
            f"map: operator must be one of {', '.join(_names())}, or FILE.py:NAME, "
            f"got {name}{did_you_mean(name, _names())}"
        )
    return name, definition_of("map", name, arguments.shape).output


def _names() -> list[str]:
    """The definitions, and the layers."""
    from vdla.compiler.operators.workloads import workloads

    return [*definitions(), *workloads()]


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


def _write_json(target: str, report: MappingReport) -> None:
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
    text = json.dumps({"mappings": rows, "refused": refused}, indent=2) + "\n"
    if target == "-":
        print(text, end="")
    else:
        write_text(Path(target), text)
