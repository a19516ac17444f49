# SPDX-License-Identifier: Apache-2.0
"""`vdla profile`: what every operator of a compiled network takes, as table, trace and page."""

from __future__ import annotations

import argparse
from itertools import cycle
from typing import TYPE_CHECKING

from vdla.commands import OK
from vdla.commands.console import column_width, output, progress
from vdla.commands.device_options import add_device_arguments, device_options, opened
from vdla.commands.energy_tables import (
    add_energy_argument,
    chosen_coefficients,
    network_energy_notes,
    network_energy_table,
    show_energy,
)
from vdla.commands.files import require_folders, write_json
from vdla.commands.machine_options import add_extension_argument
from vdla.commands.model_inputs import add_input_arguments, read_model_inputs
from vdla.commands.options import add_options, refuse
from vdla.support.atomic import write_text

if TYPE_CHECKING:
    from vdla.runtime.executor.executor import NetworkResult
    from vdla.runtime.executor.model import Model

EXAMPLES = """\
  vdla profile model.vdla                      on random inputs
  vdla profile model.vdla --input x.npy --html profile.html
  vdla profile model.vdla --trace trace.json   for ui.perfetto.dev
  vdla profile model.vdla --energy 45nm --accelergy net.yaml
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, its inputs, the files."""
    add_options(parser, {"model MODEL": "a compiled network, made by vdla compile"})
    add_extension_argument(parser, "an extension that the network needs")
    add_input_arguments(parser)
    add_options(parser, {"--runs N = 3": "runs after one to warm up (default 3)"})
    add_device_arguments(parser)
    add_energy_argument(parser)
    add_options(
        parser,
        {
            "--accelergy FILE": "write the counts and energies to FILE as YAML of Accelergy",
            "--html FILE": "write a page with charts to FILE",
            "--trace FILE": "write a trace for ui.perfetto.dev",
            "--json": "write JSON to FILE, or to standard output in place of tables",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the network several times, print the table, write the files."""
    from vdla.commands.profile_page import profile_page
    from vdla.commands.profile_tables import operator_table, summary
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.executor.model import Model
    from vdla.runtime.executor.profile import profile_of, write_network_trace

    require_folders("profile", arguments, "accelergy", "html", "trace")
    coefficients = chosen_coefficients(arguments)
    if coefficients is None:
        refuse("profile", arguments, ("accelergy",), "without --energy")
    if arguments.random_inputs is None and not arguments.input and not arguments.image:
        arguments.random_inputs = 0
    artifact, options = Artifact.load(arguments.model), device_options("profile", arguments)
    with opened(artifact.config, arguments.device, options) as device, Model(artifact, device) as model:
        results = _measure(model, arguments)
        profile = profile_of(model.artifact, results)
        if arguments.trace:
            write_network_trace(model.artifact, results[-1], arguments.trace)
        if arguments.html:
            write_text(arguments.html, profile_page(model.artifact, profile))
    energy = None
    if coefficients is not None:
        from vdla.runtime.studies.energy import network_energy

        energy = network_energy(artifact, coefficients)
        if energy is not None and arguments.accelergy:
            write_text(arguments.accelergy, energy.to_accelergy())
    if write_json(arguments.json, profile.to_dict() | ({"energy": energy.to_dict()} if energy is not None else {})):
        return OK
    console = output()
    console.print(operator_table(profile))
    console.print()
    for line in summary(profile):
        console.print(line, soft_wrap=True)
    if energy is not None:
        show_energy(network_energy_table(energy, column_width(14)), network_energy_notes(energy))
    for path in filter(None, (arguments.accelergy, arguments.html, arguments.trace)):
        console.print(f"wrote {path}", soft_wrap=True)
    return OK


def _measure(model: Model, arguments: argparse.Namespace) -> list[NetworkResult]:
    """The runs after the first one, which loads kernels and fills caches; inputs take turns."""
    inputs = cycle(read_model_inputs(model.artifact.plans, arguments, "profile").runs)
    results = []
    with progress(f"profile {model.name}") as show:
        for number in range(arguments.runs + 1):
            show("first run" if not number else f"run {number}", number, arguments.runs + 1)
            results.append(model.run(next(inputs)))
    return results[1:]
