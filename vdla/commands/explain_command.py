# SPDX-License-Identifier: Apache-2.0
"""`vdla explain`: where every operator of a compiled network runs, why, and what would move it."""

from __future__ import annotations

import argparse

from vdla.commands import OK
from vdla.commands.console import column_width, listing, output
from vdla.commands.files import write_json
from vdla.commands.machine_options import add_extension_argument
from vdla.commands.options import add_options

EXAMPLES = """\
  vdla explain model.vdla           tables and reasons
  vdla explain model.vdla --json    the same for a script
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model."""
    add_options(parser, {"model MODEL": "a compiled network, made by vdla compile"})
    add_extension_argument(parser, "an extension that the network needs")
    add_options(parser, {"--json": "write JSON to FILE, or to standard output in place of tables"})


def run(arguments: argparse.Namespace) -> int:
    """Print the operators, the reasons, the totals."""
    from vdla.commands.placement_notes import reasons, totals
    from vdla.commands.placement_tables import device_table, least_tables, operator_table
    from vdla.runtime.studies.explanation import explain

    explanation = explain(arguments.model)
    if write_json(arguments.json, explanation.to_dict()):
        return OK
    console, artifact = output(), explanation.artifact
    console.print(listing(operator_table(artifact, (16, column_width(18)))))
    console.print()
    for line in reasons(artifact):
        console.print(line, soft_wrap=True)
    console.print()
    for shown in (device_table(artifact), *least_tables(artifact, column_width(18))):
        console.print(listing(shown))
        console.print()
    for line in totals(artifact):
        console.print(line, soft_wrap=True)
    return OK
