# SPDX-License-Identifier: Apache-2.0
"""`vdla explain`: where every operator of a compiled network runs, why, and what would move it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from vdla.commands import OK
from vdla.commands.console import output
from vdla.commands.files import write_json
from vdla.commands.machine_options import add_extension_argument
from vdla.commands.options import add_options

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.runtime.executor.artifact import Artifact

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
    from vdla.commands.placement_tables import device_table, document, operator_table, placed_rows, sentence
    from vdla.runtime.executor.artifact import Artifact

    artifact = Artifact.load(arguments.model)
    if write_json(arguments.json, document(artifact)):
        return OK
    console = output()
    console.print(operator_table(artifact))
    console.print()
    for line in _reasons(artifact):
        console.print(line, soft_wrap=True)
    console.print()
    console.print(device_table(artifact))
    console.print()
    if artifact.config is not None and any(row.operator.seconds for row in placed_rows(artifact)):
        console.print(_origin_of_estimates(artifact.config, artifact.cpu.name), soft_wrap=True)
    console.print(sentence(artifact), soft_wrap=True)
    console.print(_memory(artifact), soft_wrap=True)
    for plan in artifact.variants:
        console.print(f"Another plan takes {plan.input_shapes}.", soft_wrap=True)
    return OK


def _reasons(artifact: Artifact) -> Iterator[str]:
    """Operators with the same reason stand together."""
    from vdla.commands.placement_tables import placed_rows, to_change

    groups: dict[tuple[str, str, str], list[str]] = {}
    for row in placed_rows(artifact):
        if row.operator.reason:
            used = row.operator.extensions
            device = f"{row.device}, by {', '.join(used)}" if used else row.device
            key = (device, row.operator.reason, row.operator.change)
            groups.setdefault(key, []).append(row.operator.name)
    for (device, reason, change), names in groups.items():
        yield f"{', '.join(names)} on {device}: {reason}{to_change(change)}"
    refused: dict[str, list[str]] = {}
    for row in placed_rows(artifact):
        if row.operator.no_extension:
            refused.setdefault(row.operator.no_extension, []).append(row.operator.name)
    for reason, names in refused.items():
        yield f"{', '.join(names)} without an extension: it must {reason}"


def _origin_of_estimates(config: Config, cpu: str) -> str:
    """The source of the CPU times: no model of a board's CPU was ever measured."""
    from vdla.compiler.graph.accelerator import modelled_cpu

    model = modelled_cpu(config, cpu)
    return (
        f"Times of the CPU are estimates for {model.name} ({model.source}); no board was "
        "measured, so their error is unknown."
    )


def _memory(artifact: Artifact) -> str:
    from vdla.runtime.executor.resident_program import activation_bytes

    planned, without_reuse = artifact.plan.memory_bytes
    text = f"{planned:,} bytes of memory hold its values; without reuse they would take {without_reuse:,}."
    device = max(map(activation_bytes, artifact.programs), default=0)
    on_gpu = artifact.plan.device_bytes
    text += f" On the GPU, {on_gpu:,} bytes hold its values." if on_gpu else ""
    return f"{text} On the accelerator, {device:,} bytes hold those of a program." if device else text
