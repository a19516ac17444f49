"""`vdla evaluate`: what an instruction of an extension is worth, on real layers."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import FINDING, OK, CommandError
from vdla.commands.completion import complete_with
from vdla.commands.console import progress
from vdla.commands.files import require_folder, write_picture
from vdla.commands.layer_options import accuracy_job, add_layer_arguments, chosen_layers
from vdla.commands.machine_options import (
    add_dram_arguments,
    add_machine_arguments,
    machine,
    natural,
    positive,
    with_dram,
)
from vdla.commands.part_options import part_named, part_names
from vdla.support.atomic import write_text

if TYPE_CHECKING:
    from vdla.runtime.verdict import ExtensionVerdict

EXAMPLES = """\
  vdla evaluate sad.py                   on the layers of ResNet-18, MobileNet
  vdla evaluate int4.py --model resnet18 --html int4.html
  vdla evaluate my.py --layers C2-C12 D3 --trials 100    both machines tuned
  vdla evaluate my.py --layers my.py:blocks    a function of yours that
                                         returns the tensor of its result
  vdla evaluate int4.py --model net.onnx --accuracy --data images.npy
  vdla evaluate my.py --extension other.py     two extensions: what the
                                         first one adds to the other
"""

SAMPLES = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The extension, the layers, the machine, what is written."""
    parser.add_argument("source", metavar="EXTENSION", help="a Python file that declares it, or an entry point")
    add_layer_arguments(parser)
    parser.add_argument("--trials", type=natural, default=0, metavar="N", help="tune each layer with so many (0)")
    parser.add_argument("--seed", type=natural, default=0, help="of trials and random data (default 0)")
    parser.add_argument("--workers", type=positive, metavar="N", help="processes (default one a processor)")
    parser.add_argument("--accuracy", type=positive, nargs="?", const=SAMPLES, metavar="N",
                        help=f"quantise the network and compare it on N samples ({SAMPLES})")  # fmt: skip
    parser.add_argument("--data", type=Path, nargs="+", default=[], metavar="FILE",
                        help="samples for --accuracy: .npy of one input, or .npz of inputs by name")  # fmt: skip
    part = parser.add_argument("--part", metavar="NAME", help="the FPGA (default that of the preset's board)")
    complete_with(part, part_names)
    parser.add_argument("--area", action="store_true", help="synthesise, about a minute for each machine")
    parser.add_argument("--all", action="store_true", help="show every reason")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with tables and roofline there")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the roofline, as .svg or .png")
    parser.add_argument("--json", metavar="FILE", help="write all figures as JSON; - is standard output")
    add_machine_arguments(parser)
    add_dram_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Evaluate, then show and write; a finding if the extension applies nowhere."""
    from vdla.runtime.verdict import evaluate, with_accuracy

    _check(arguments)
    config = with_dram(machine(arguments), arguments.dram)
    layers = chosen_layers("evaluate", arguments)
    with progress(f"evaluate {Path(arguments.source).stem}") as show:
        verdict = evaluate(
            arguments.source,
            layers,
            config,
            beside=arguments.extension,
            trials=arguments.trials,
            seed=arguments.seed,
            workers=None if arguments.workers is None else arguments.workers - 1,
            part=part_named("evaluate", arguments.part, config),
            synthesise=arguments.area,
            progress=show,
        )
        if arguments.accuracy is not None:
            show("accuracy", 0, 1)
            options = (arguments.accuracy, arguments.data, arguments.seed)
            job = accuracy_job("evaluate", arguments.model, *options)
            verdict = with_accuracy(verdict, job)
    _write(arguments, verdict)
    return OK if any(layer.applies for layer in verdict.layers) else FINDING


def _check(arguments: argparse.Namespace) -> None:
    """Refuse options before the work starts."""
    if arguments.data and arguments.accuracy is None:
        raise CommandError("evaluate: --data must be left out without --accuracy, got files")
    if arguments.accuracy is not None and not arguments.model:
        raise CommandError("evaluate: --accuracy must have --model, got layers")
    for option in ("html", "picture", "json"):
        path = getattr(arguments, option)
        if path not in (None, "-"):
            require_folder("evaluate", f"--{option}", Path(path))
    if arguments.picture and arguments.picture.suffix not in (".svg", ".png"):
        raise CommandError(f"evaluate: --picture must end in .svg or .png, got {arguments.picture}")


def _write(arguments: argparse.Namespace, verdict: ExtensionVerdict) -> None:
    from vdla.commands.verdict_page import verdict_page, verdict_roofline
    from vdla.commands.verdict_tables import show_verdict
    from vdla.runtime.verdict import report_of

    if arguments.html:
        write_text(arguments.html, verdict_page(verdict))
    if arguments.picture:
        write_picture(arguments.picture, verdict_roofline(verdict))
    text = json.dumps(report_of(verdict), indent=2) + "\n"
    if arguments.json == "-":
        print(text, end="")
        return
    if arguments.json:
        write_text(Path(arguments.json), text)
    show_verdict(verdict, arguments.all)
    written = [str(path) for path in (arguments.html, arguments.picture, arguments.json) if path]
    if written:
        print(f"\nwrote {', '.join(written)}")
