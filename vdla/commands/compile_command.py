# SPDX-License-Identifier: Apache-2.0
"""`vdla compile`: a network to one file, or an operator to a verified program file."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import FINDING, OK, CommandError
from vdla.commands.compile_model import FOR_MODELS, add_model_arguments, best_known, compile_model
from vdla.commands.console import progress
from vdla.commands.machine_options import add_machine_arguments, machine
from vdla.commands.options import add_options, refuse
from vdla.support.atomic import write_text
from vdla.support.file_kind import MODEL_SUFFIXES, described, file_kind, unreadable
from vdla.support.suggest import one_of

if TYPE_CHECKING:
    from vdla.compiler.certificates.certify import Certificate
    from vdla.compiler.operators.vdla import Operator
    from vdla.support.progress import Progress

EXAMPLES = """\
  vdla compile model.onnx -o model.vdla      a quantised network, for pynq_z1
  vdla compile model.onnx --calibration images.npy --target ultra96
  vdla compile model.onnx --shape x=1x3x224x224 x=1x3x320x320
                                             one file for inputs of two shapes
  vdla compile model.onnx --target ultra96 --cpu board -o board.vdla
                                             its CPU part for the board's Arm
  vdla compile --list                        templates, their options, layers
  vdla compile C6 -o c6.vdla                 a layer of ResNet-18 or MobileNet
  vdla compile C6 --threads 1 -o slow.vdla   the same without virtual threads
  vdla compile C5 --tuned shipped            its best known schedule
  vdla compile conv2d --shape height=14 width=14 in_channels=20 \\
      out_channels=40 kernel=3 pads=1 -o conv.vdla
  vdla compile dense --preset int4 --shape rows=4 in_features=100 \\
      out_features=10 -o dense.vdla --schedule dense.txt
"""


_THREADS = 2

_NOTE = """\
Options in brackets may be left out; their first word or number is the default.
N is an integer. kernel, strides, pads, dilations and output_padding take one N
or HxW, such as kernel=1x3; pads also takes TOPxLEFTxBOTTOMxRIGHT."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The operator, the machine, the files."""
    text = "a MODEL.onnx, MODEL.tflite or MODEL.pt2, a template, or a layer such as C6 or D3"
    add_options(parser, {"operator OPERATOR": text}, _names, nargs="?")
    text = "the template's options, kernel=1x3; of a model, shapes of inputs, x=1x3x48x192"
    add_options(parser, {"--shape KEY=N...": text}, action="extend")
    add_options(
        parser,
        {
            "--list": "list the templates with their options, and the layers",
            "--threads N": "at most N virtual threads (default 2); of a model, threads that --tuned is for",
            "-o --output FILE": "the file (default: OPERATOR.vdla, MODEL.vdla)",
            "--tuned LOG": "use the best schedules in a log of vdla tune, or in the shipped log",
            "--schedule FILE": "write the scheduled loop nest to FILE as text",
            "--no-certificate": "do not prove that programs compute their operators",
        },
    )
    add_machine_arguments(parser, "--preset")  # --target may be a CPU or GPU as well
    add_model_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Compile, verify, then write."""
    if arguments.list:
        return _list()
    if (arguments.operator or "").lower().endswith(MODEL_SUFFIXES):
        return compile_model(arguments)
    _refuse_other_files(arguments.operator or "")
    _take_target(arguments)
    refuse("compile", arguments, FOR_MODELS, "for an operator")
    arguments.threads = arguments.threads or _THREADS
    from vdla.commands.named_operators import virtual_threads
    from vdla.commands.program_certificate import with_certificate
    from vdla.simulator.verify import verify

    with best_known(arguments.tuned) as schedules:
        operator = _operator(arguments)
    with progress(f"compile {operator.name}") as show:
        show("loop nest to instructions", 0, 2)
        program = operator.program
        show("verifying", 1, 2)
        verdict = verify(program)
        certificate = _certificate(arguments, operator, show) if verdict.ok else None
    if not verdict.ok or (certificate is not None and not certificate.holds):
        refused = verdict if certificate is None else certificate
        print(f"{refused}\nthis is a defect of the compiler; nothing was written", file=sys.stderr)
        return FINDING
    target = arguments.output or Path(f"{arguments.operator}.vdla")
    if certificate is not None:
        program = with_certificate(program, certificate, arguments.operator, arguments.shape or ())
    program.save(target)
    if arguments.schedule:
        write_text(arguments.schedule, f"{operator.function}\n")
    print(f"{target}: {operator.name} for {program.config.name}, {len(program):,} instructions, hash {program.hash}")
    if certificate is not None:
        print(f"verified, certified: program {certificate.program} computes expression {certificate.expression}")
    if operator.description:
        print(f"tiles: {operator.description}{', tuned' if schedules.used else ''}")
    threads = virtual_threads(operator)
    if threads < arguments.threads:
        print(f"virtual threads: {threads} instead of {arguments.threads}; the tiles or the buffers allow no more")
    return OK


def _certificate(arguments: argparse.Namespace, operator: Operator, show: Progress) -> Certificate | None:
    """The certificate of an operator; None if none is wanted, or where none can be made, which is
    said.
    """
    from vdla.runtime.network.certificate_choice import certifies

    if not certifies(False if arguments.no_certificate else None):
        return None
    from vdla.compiler.certificates.certify import certify
    from vdla.compiler.certificates.symbols import CertificateError

    show("certifying", 1, 2)
    try:
        return certify(operator)
    except CertificateError as error:
        print(f"verified, not certified: {error}", file=sys.stderr)
        return None


def _take_target(arguments: argparse.Namespace) -> None:
    """A --target that is a machine is the --preset of an operator."""
    if arguments.target is None:
        return
    from vdla.hardware.config import PRESETS

    if arguments.preset or arguments.config:
        raise CommandError(f"compile: --target must be left out with --preset or --config, got {arguments.target}")
    if arguments.target not in PRESETS:
        rule = f"--target of an operator must be {one_of(arguments.target, PRESETS)}"
        raise CommandError(f"compile: {rule}; vdla native compiles operators for CPUs")
    arguments.preset, arguments.target = arguments.target, None


def _refuse_other_files(name: str) -> None:
    """Say what to do with what is neither a model nor an operator."""
    if not name:
        usage = "a model (vdla compile MODEL.onnx -o MODEL.vdla), or an operator (vdla compile --list)"
        raise CommandError(f"compile: the first word must be {usage}, got none")
    path = Path(name)
    content = path.read_bytes()[:16] if path.is_file() else None
    if path.is_file() or file_kind(name) is not None:
        raise CommandError(
            f"compile: the model must be an .onnx, a .tflite or a .pt2 file, got {described(name, content)}"
        )
    if path.suffix:
        raise CommandError(f"compile: {unreadable(path, FileNotFoundError())}")


def _operator(arguments: argparse.Namespace) -> Operator:
    from vdla.commands.named_operators import from_settings, from_workload, refuse_shape, templates
    from vdla.compiler.operators.workloads import workload, workloads

    name, config = arguments.operator, machine(arguments)
    if name in templates():
        return from_settings("compile", name, config, arguments.shape, arguments.threads)
    if (name or "").upper() not in workloads():
        raise CommandError(f"compile: the first word must be a MODEL.onnx, or {one_of(name, _names())}")
    refuse_shape("compile", name, arguments.shape)
    return from_workload(workload(name), config, arguments.threads)


def _names() -> list[str]:
    """The templates and the layers."""
    from vdla.commands.named_operators import layer_names, templates

    return [*templates(), *layer_names()]


def _list() -> int:
    from vdla.commands.named_operators import described, layer_names, templates

    for name, template in templates().items():
        required, optional = described(template)
        print(f"{name}\n{_indented(required)}\n{_indented(optional)}")
    print(f"layers\n{_indented(layer_names())}\n\n{_NOTE}")
    return OK


def _indented(words: list[str]) -> str:
    return textwrap.fill(" ".join(words), 78, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
