# SPDX-License-Identifier: Apache-2.0
"""`vdla evaluate`: the benefit of an extension's instruction on real layers."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import FINDING, OK, CommandError
from vdla.commands.console import progress
from vdla.commands.device_options import part_named
from vdla.commands.energy_tables import add_energy_argument, chosen_coefficients
from vdla.commands.files import calibration_data, check_outputs, write_json, write_study
from vdla.commands.layer_options import accuracy_job, add_layer_arguments, chosen_layers, model_named
from vdla.commands.machine_options import add_dram_arguments, add_machine_arguments, machine, with_dram
from vdla.commands.options import add_options, natural, positive, refuse

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.simulator.energy import EnergyTable

EXAMPLES = """\
  vdla evaluate sad.py                   on the layers of ResNet-18, MobileNet
  vdla evaluate int4.py --model resnet18 --html int4.html
  vdla evaluate my.py --layers C2-C12 D3 --trials 100    both machines tuned
  vdla evaluate my.py --layers my.py:blocks    a function of yours that
                                         returns the tensor of its result
  vdla evaluate int4.py --model net.onnx --accuracy --calibration images.npy
  vdla evaluate my.py --energy 45nm      with energy, estimated
  vdla evaluate depthwise.py --model mobilenet_v1 --compiled    the whole
                                         network with and without
  vdla evaluate one.py two.py --model mobilenet_v3 --compiled --energy 45nm
  vdla evaluate my.py --extension other.py     two extensions: what the
                                         first one adds to the other
  vdla evaluate my.py other.py           side by side, and both together
"""

SAMPLES = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The extension, the layers, the machine, what is written."""
    add_options(
        parser, {"sources EXTENSION...": "a Python file that declares it, or an entry point; several are compared"}
    )
    add_layer_arguments(parser)
    parser.add_argument("--trials", type=natural, default=0, metavar="N", help="tune each layer with N trials (0)")
    add_options(
        parser,
        {
            "--seed SEED = 0": "seed of trials and random data (default 0)",
            "--workers N": "processes (default one per processor)",
        },
    )
    parser.add_argument("--accuracy", type=positive, nargs="?", const=SAMPLES, metavar="N",
                        help=f"quantise the network and compare it on N samples ({SAMPLES})")  # fmt: skip
    add_options(
        parser,
        {
            "--compiled": "compile the whole model without and with all extensions",
            "--calibration FILE...": "samples for --accuracy or --compiled: .npy, or .npz of inputs by name",
            "--part NAME": "the FPGA, or FILE.json with yours (default that of the preset's board)",
            "--area": "synthesise, about a minute for each machine",
        },
    )
    add_energy_argument(parser)
    add_options(
        parser,
        {
            "--all": "show every reason",
            "--html FILE": "write a page with tables and roofline to FILE",
            "--picture FILE": "draw the roofline, as .svg or .png",
            "--json": "write JSON to FILE, or to standard output in place of tables",
        },
    )
    add_machine_arguments(parser)
    add_dram_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate, then show and write; a finding if the extension applies nowhere."""
    from vdla.commands.verdict_tables import show_verdict
    from vdla.runtime.studies.verdict import evaluate, with_accuracy

    _check(arguments)
    coefficients = chosen_coefficients(arguments)
    config = with_dram(machine(arguments), arguments.dram)
    if arguments.compiled:
        return _run_compiled(arguments, config, coefficients)
    if len(arguments.sources) > 1:
        return _run_several(arguments, config)
    layers = chosen_layers("evaluate", arguments)
    with progress(f"evaluate {Path(arguments.sources[0]).stem}") as show:
        verdict = evaluate(
            arguments.sources[0], layers, config, **_options(arguments, config), energy=coefficients, progress=show
        )
        if arguments.accuracy is not None:
            show("accuracy", 0, 1)
            options = (arguments.accuracy, arguments.calibration, arguments.seed)
            job = accuracy_job("evaluate", arguments.model, *options, arguments.shape)
            verdict = with_accuracy(verdict, job)
    write_study(arguments, verdict, lambda: show_verdict(verdict, arguments.all))
    return OK if any(layer.applies for layer in verdict.layers) else FINDING


def _options(arguments: argparse.Namespace, config: Config) -> dict[str, Any]:
    """What layers are measured with."""
    return {
        "beside": arguments.extension,
        "trials": arguments.trials,
        "seed": arguments.seed,
        "workers": None if arguments.workers is None else arguments.workers - 1,
        "part": part_named("evaluate", arguments.part, config),
        "synthesise": arguments.area,
    }


def _run_several(arguments: argparse.Namespace, config: Config) -> int:
    """Evaluate each extension, and all of them, then show; a finding if none applies anywhere."""
    from vdla.commands.joint_tables import show_joint
    from vdla.runtime.studies.joint_verdict import evaluate_several

    layers = chosen_layers("evaluate", arguments)
    with progress("evaluate") as show:
        verdict = evaluate_several(arguments.sources, layers, config, **_options(arguments, config), progress=show)
    if not write_json(arguments.json, verdict.to_dict()):
        show_joint(verdict)
    return OK if any(layer.applies for one in verdict.alone for layer in one.layers) else FINDING


def _run_compiled(arguments: argparse.Namespace, config: Config, coefficients: EnergyTable | None) -> int:
    """Compile the model twice, then show; a finding if the extension applies nowhere."""
    from vdla.commands.compiled_tables import show_compiled
    from vdla.runtime.studies.compiled_verdict import evaluate_network

    _, model = model_named("evaluate", arguments.model, arguments.shape)
    data = [calibration_data(path) for path in arguments.calibration] or None
    with progress(f"evaluate {Path(arguments.sources[0]).stem}") as show:
        verdict = evaluate_network(
            tuple(arguments.sources),
            model(),
            config,
            beside=arguments.extension,
            calibration=data,
            energy=coefficients,
            progress=show,
        )
    if not write_json(arguments.json, verdict.to_dict()):
        show_compiled(verdict, arguments.all)
    return OK if verdict.applies else FINDING


_OF_ONE = ("accuracy", "energy", "html", "picture")
"""Options that a verdict on several extensions has not."""
_OF_LAYERS = ("accuracy", "area", "part", "html", "picture")
"""Options that a verdict on a compiled network has not."""


def _check(arguments: argparse.Namespace) -> None:
    """Refuse options before the work starts."""
    if len(arguments.sources) > 1 and not arguments.compiled:
        refuse("evaluate", arguments, _OF_ONE, "with several extensions")
    if arguments.compiled:
        if not arguments.model:
            raise CommandError("evaluate: --compiled must have --model, got none")
        refuse("evaluate", arguments, _OF_LAYERS, "with --compiled")
        if arguments.trials:
            raise CommandError(f"evaluate: --trials must be left out with --compiled, got {arguments.trials}")
    elif arguments.calibration and arguments.accuracy is None:
        raise CommandError("evaluate: --calibration must be left out without --accuracy or --compiled, got files")
    if arguments.accuracy is not None and not arguments.model:
        raise CommandError("evaluate: --accuracy must have --model, got layers")
    check_outputs("evaluate", arguments, "html", "picture", "json")
