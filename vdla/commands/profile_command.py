"""`vdla profile`: what every operator of a compiled network takes, as table, trace and page."""

from __future__ import annotations

import argparse
import json
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import OK
from vdla.commands.console import output, progress
from vdla.commands.device_options import add_device_arguments, device_options, opened
from vdla.commands.files import require_folder
from vdla.commands.machine_options import add_extension_argument, positive
from vdla.commands.model_inputs import add_input_arguments, read_model_inputs
from vdla.support.atomic import write_text

if TYPE_CHECKING:
    from vdla.runtime.executor import NetworkResult
    from vdla.runtime.network import Model

EXAMPLES = """\
  vdla profile model.vdla                      on random inputs
  vdla profile model.vdla --input x.npy --html profile.html
  vdla profile model.vdla --trace trace.json   for ui.perfetto.dev
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The model, its inputs, the files."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="a compiled network, made by vdla compile")
    add_extension_argument(parser, "an extension that the network needs")
    add_input_arguments(parser)
    parser.add_argument("--runs", type=positive, default=3, metavar="N", help="runs after a first one (default 3)")
    add_device_arguments(parser)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with charts there")
    parser.add_argument("--trace", type=Path, metavar="FILE", help="write a trace for ui.perfetto.dev")
    parser.add_argument("--json", action="store_true", help="JSON instead of tables")


def run(arguments: argparse.Namespace) -> int:
    """Run the network several times, print the table, write the files."""
    from vdla.commands.profile_page import profile_page
    from vdla.commands.profile_tables import operator_table, summary
    from vdla.runtime.artifact import Artifact
    from vdla.runtime.executor import profile_of, write_network_trace
    from vdla.runtime.network import Model

    for option in ("html", "trace"):
        if getattr(arguments, option):
            require_folder("profile", f"--{option}", getattr(arguments, option))
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
    if arguments.json:
        print(json.dumps(profile.to_dict(), indent=2))
        return OK
    console = output()
    console.print(operator_table(profile))
    console.print()
    for line in summary(profile):
        console.print(line, soft_wrap=True)
    for path in filter(None, (arguments.html, arguments.trace)):
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
