# SPDX-License-Identifier: Apache-2.0
"""`vdla_board run`: a network or a program on this board, plain arrays in and out."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from vdla.commands import OK
from vdla.commands.arrays import (
    OUTPUT_COLUMNS,
    Array,
    output_rows,
    outputs_document,
    read_inputs,
    require_all,
    with_random,
    write_outputs,
)
from vdla.commands.device_times import (
    DEVICE_COLUMNS,
    device_rows,
    joined,
    milliseconds,
    model_document,
    title_of,
)
from vdla.commands.files import is_model, write_json
from vdla.commands.model_inputs import add_input_arguments, read_model_inputs
from vdla.commands.on_board.device_choice import add_device_arguments, device_options
from vdla.commands.options import add_options, refuse
from vdla.commands.plain_table import plain_table
from vdla.hardware.program import Program
from vdla.runtime.devices import Device, open_device
from vdla.runtime.devices.run import run as run_on
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.load import load
from vdla.runtime.executor.model import Model

EXAMPLES = """\
  python3 -m vdla_board run resnet18.vdla --input x.npy --output out/
  python3 -m vdla_board run digits.vdla --random-inputs 0 --bitstream pynq_z2.bit
  python3 -m vdla_board run c2.vdla --random-inputs 0 --timeout 1000000
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program, its inputs, the device, the output."""
    add_options(parser, {"program PROGRAM": "a compiled network, or a program"})
    add_input_arguments(parser)
    add_options(parser, {"--output DIR": "write each output to DIR as a .npy file"})
    add_device_arguments(parser)
    add_options(
        parser,
        {
            "--throughput N": "measure the throughput of a network in N runs instead",
            "--timeout CYCLES": "stop a run that takes more cycles",
            "--trust HASH": "the SHA-256 of a file (sha256sum FILE), or of its certificate, that is not verified again",
            "--json": "write JSON to FILE, or to standard output in place of tables",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Run, write the files, print the tables."""
    if arguments.throughput is not None:
        return _throughput(arguments)
    results = _run_model(arguments) if is_model(arguments.program) else _run_program(arguments)
    title, columns, rows, outputs, document = results
    written = write_outputs(arguments.output, outputs) if arguments.output else []
    document = {**document, "outputs": outputs_document(outputs), "written": [str(path) for path in written]}
    if write_json(arguments.json, document):
        return OK
    print(plain_table(title, columns, rows))
    print()
    print(plain_table("outputs", OUTPUT_COLUMNS, output_rows(outputs)))
    for path in written:
        print(f"wrote {path}")
    return OK


def _throughput(arguments: argparse.Namespace) -> int:
    """Measure instead of running; the inputs are zeros."""
    refuse("run", arguments, ("input", "random_inputs", "image", "output"), "with --throughput")
    artifact = Artifact.load(arguments.program, arguments.trust)
    with _device(artifact, arguments) as device, Model(artifact, device) as model:
        result = model.throughput_test(arguments.throughput)
    if write_json(arguments.json, result.to_dict()):
        return OK
    print(f"{model.name}: {result.images_per_second:,.1f} images a second in {result.runs} runs")
    if result.clock_mhz is not None:
        accelerator = f"{result.cycles:,} cycles at {result.clock_mhz:g} MHz"
        print(f"a run takes {milliseconds(result.seconds / result.runs)}: "
              f"{milliseconds(result.accelerator_s)} on the accelerator ({accelerator})")  # fmt: skip
    return OK


def _device(artifact: Artifact, arguments: argparse.Namespace) -> AbstractContextManager[Device | str]:
    """The device of a network, "host" for one without programs."""
    if artifact.config is None:
        return nullcontext("host")
    return open_device(arguments.device, artifact.config, **_options(arguments))


Results = tuple[str, tuple[str, ...], list[tuple[str, ...]], dict[str, Array], dict[str, Any]]
"""Title, columns and rows of a table; the outputs; a document."""


def _run_model(arguments: argparse.Namespace) -> Results:
    artifact = Artifact.load(arguments.program, arguments.trust)
    inputs = read_model_inputs(artifact.plans, arguments, "run")
    with _device(artifact, arguments) as device, Model(artifact, device) as model:
        results = [model.run(arrays) for arrays in inputs.runs]
    outputs = joined([result.outputs for result in results])
    return (
        title_of(model, results),
        DEVICE_COLUMNS,
        device_rows(model, results),
        outputs,
        model_document(model, results),
    )


def _run_program(arguments: argparse.Namespace) -> Results:
    refuse("run", arguments, ("image", "mean", "std", "scale"), "for a program")
    program = load(arguments.program, trust=arguments.trust)
    assert isinstance(program, Program)
    arrays = read_inputs(arguments.input)
    if arguments.random_inputs is not None:
        arrays = with_random(program, arrays, arguments.random_inputs)
    require_all(program, arrays)
    with open_device(arguments.device, program.config, **_options(arguments)) as device:
        result = run_on(program, arrays, device)
    statistics = result.statistics
    row = (f"vdla ({program.config.name})", f"{statistics.total_cycles:,}", milliseconds(statistics.seconds))
    return f"{program.name}, 1 run", ("device", "cycles", "time"), [row], result.outputs, statistics.to_dict()


def _options(arguments: argparse.Namespace) -> dict[str, Any]:
    options = device_options("run", arguments)
    return options if arguments.timeout is None else options | {"timeout_cycles": arguments.timeout}
