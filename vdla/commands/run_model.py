# SPDX-License-Identifier: Apache-2.0
"""`vdla run` of a compiled network: plain arrays in, plain arrays out, and what it took."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np

from vdla.commands import OK, CommandError
from vdla.commands.arrays import Array, outputs_document, outputs_table, write_outputs
from vdla.commands.console import output, progress, table
from vdla.commands.device_options import device_options, opened
from vdla.commands.files import write_json
from vdla.commands.machine_options import with_dram
from vdla.commands.model_inputs import ModelRuns, read_model_inputs
from vdla.commands.options import given
from vdla.commands.placement_tables import device_names, milliseconds

if TYPE_CHECKING:
    from rich.table import Table

    from vdla.runtime.devices import Device
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.executor.executor import NetworkResult
    from vdla.runtime.executor.model import Model

FOR_PROGRAMS = ("timing_only", "waves", "lines", "trace", "picture", "table")
"""Options that a network does not have, by their destination."""


def run_model(arguments: argparse.Namespace) -> int:
    """Run the network on every input, write and print the outputs."""
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.executor.model import Model

    _refuse(arguments)
    artifact = Artifact.load(arguments.program)
    inputs = read_model_inputs(artifact.plans, arguments, "run")
    with _device(artifact, arguments) as device, Model(artifact, device) as model:
        results = run_all(model, inputs)
    outputs = joined([result.outputs for result in results])
    written = write_outputs(arguments.output, outputs) if arguments.output else []
    document = {**_document(model, results), "outputs": outputs_document(outputs)}
    if write_json(arguments.json, {**document, "written": [str(path) for path in written]}):
        return OK
    console = output()
    console.print(_steps_table(model, results))
    console.print()
    console.print(outputs_table(outputs))
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


def joined(outputs: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    """The outputs of several runs, one behind the other in their first dimension."""
    if len(outputs) == 1:
        return dict(outputs[0])
    return {name: np.concatenate([np.atleast_1d(item[name]) for item in outputs]) for name in outputs[0]}


def _steps_table(model: Model, results: Sequence[NetworkResult]) -> Table:
    """Steps, cycles and time of each device, a run."""
    runs = len(results)
    listing = table(f"{model.name}, {runs} run{'' if runs == 1 else 's'}", "device", "steps", "cycles", "time a run")
    for device, (steps, cycles, seconds) in _by_device(model, results).items():
        listing.add_row(device, str(steps), f"{cycles:,}" if cycles else "-", milliseconds(seconds))
    return listing


def _by_device(model: Model, results: Sequence[NetworkResult]) -> dict[str, tuple[int, int, float]]:
    """Steps, cycles and seconds of a run on each device; the accelerator's at its clock."""
    totals: dict[str, tuple[int, int, float]] = {}
    names = device_names(model.artifact)
    for result in results:
        for run in result.steps:
            on = run.step.placement.device
            device = names["cpu" if on == "numpy" else on]
            cycles = run.statistics.total_cycles if run.statistics else 0
            seconds = run.statistics.seconds if run.statistics else run.seconds
            before = totals.get(device, (0, 0, 0.0))
            totals[device] = (before[0] + 1, before[1] + cycles, before[2] + seconds)
    runs = len(results)
    return {device: (steps // runs, cycles // runs, time / runs) for device, (steps, cycles, time) in totals.items()}


def _document(model: Model, results: Sequence[NetworkResult]) -> dict[str, Any]:
    devices = {
        device: {"steps": steps, "cycles": cycles, "seconds": seconds}
        for device, (steps, cycles, seconds) in _by_device(model, results).items()
    }
    return {"model": model.name, "runs": len(results), "cycles": results[0].cycles, "devices": devices}
