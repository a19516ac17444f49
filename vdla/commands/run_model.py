# SPDX-License-Identifier: Apache-2.0
"""`vdla run` of a compiled network: plain arrays in, plain arrays out, and what it took."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from vdla.commands import OK, CommandError
from vdla.commands.arrays import OUTPUT_COLUMNS, output_rows, outputs_document, write_outputs
from vdla.commands.console import listing, output, progress
from vdla.commands.device_options import device_options, opened
from vdla.commands.device_times import DEVICE_COLUMNS, device_rows, joined, model_document, title_of
from vdla.commands.files import write_json
from vdla.commands.machine_options import with_dram
from vdla.commands.model_inputs import ModelRuns, read_model_inputs
from vdla.commands.options import given
from vdla.support.text_table import text_table

if TYPE_CHECKING:
    from vdla.runtime.devices import Device
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.executor.executor import NetworkResult
    from vdla.runtime.executor.model import Model

FOR_PROGRAMS = ("timing_only", "waves", "lines", "trace", "konata", "picture", "table", "offset")
"""Options that a network does not have, by their destination."""


def run_model(arguments: argparse.Namespace) -> int:
    """Run the network on every input, write and print the outputs."""
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.executor.model import Model

    _refuse(arguments)
    artifact = Artifact.load(arguments.program, arguments.trust)
    inputs = read_model_inputs(artifact.plans, arguments, "run")
    with _device(artifact, arguments) as device, Model(artifact, device) as model:
        results = run_all(model, inputs)
    outputs = joined([result.outputs for result in results])
    written = write_outputs(arguments.output, outputs) if arguments.output else []
    document = {**model_document(model, results), "outputs": outputs_document(outputs)}
    if write_json(arguments.json, {**document, "written": [str(path) for path in written]}):
        return OK
    console = output()
    console.print(listing(text_table(title_of(model, results), DEVICE_COLUMNS, device_rows(model, results))))
    console.print()
    console.print(listing(text_table("outputs", OUTPUT_COLUMNS, output_rows(outputs))))
    for path in written:
        console.print(f"wrote {path}", soft_wrap=True)
    return OK


def _refuse(arguments: argparse.Namespace) -> None:
    for option, value in given(arguments, FOR_PROGRAMS):
        hint = "; vdla profile --trace writes one" if option == "--trace" else ""
        raise CommandError(f"run: {option} must be left out for a network, got {value}{hint}")


def _device(artifact: Artifact, arguments: argparse.Namespace) -> AbstractContextManager[Device | str]:
    """The device that the options describe; its name where no program of the network needs one."""
    if artifact.config is None:
        for option, value in (("timeout", arguments.timeout), ("dram", " ".join(arguments.dram) or None)):
            if value is not None:
                raise CommandError(f"run: --{option} must be left out for a network without programs, got {value}")
        return opened(None, arguments.device, {})
    options = device_options("run", arguments)
    if arguments.timeout is not None:
        options["timeout_cycles"] = arguments.timeout
    return opened(with_dram(artifact.config, arguments.dram), arguments.device, options)


def run_all(model: Model, inputs: ModelRuns) -> list[NetworkResult]:
    """The result of each run."""
    results = []
    with progress(f"run {model.name}") as show:
        for number, arrays in enumerate(inputs.runs):
            show(f"input {number + 1}", number, len(inputs))
            results.append(model.run(arrays))
    return results
