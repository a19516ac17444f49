# SPDX-License-Identifier: Apache-2.0
"""`vdla_board run`: a network or a program on this board, plain arrays in and out."""

from __future__ import annotations

import argparse
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
from vdla.runtime.devices import open_device
from vdla.runtime.devices.run import run as run_on
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.load import load
from vdla.runtime.executor.model import Model

EXAMPLES = """\
  sudo -E python3 -m vdla_board run resnet18.vdla --input x.npy --output out/
  sudo -E python3 -m vdla_board run digits.vdla --random-inputs 0 --bitstream pynq_z2.bit
  sudo -E python3 -m vdla_board run c2.vdla --random-inputs 0 --timeout 1000000
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
            "--timeout CYCLES": "stop a run that takes more cycles",
            "--trust HASH": "the SHA-256 of a file that is not verified again (sha256sum FILE)",
            "--json": "write JSON to FILE, or to standard output in place of tables",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Run, write the files, print the tables."""
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


Results = tuple[str, tuple[str, ...], list[tuple[str, ...]], dict[str, Array], dict[str, Any]]
"""Title, columns and rows of a table; the outputs; a document."""


def _run_model(arguments: argparse.Namespace) -> Results:
    artifact = Artifact.load(arguments.program, arguments.trust)
    inputs = read_model_inputs(artifact.plans, arguments, "run")
    config = artifact.config
    if config is None:
        with Model(artifact, "host") as model:
            results = [model.run(arrays) for arrays in inputs.runs]
    else:
        with open_device(arguments.device, config, **_options(arguments)) as device, Model(artifact, device) as model:
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
