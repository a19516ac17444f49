# SPDX-License-Identifier: Apache-2.0
"""`vdla verify`: proves programs free of deadlocks, races, accesses out of bounds, bad encoding.

The certificate of a compiled network, or of a program of one operator, is proven again too.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import FINDING, OK
from vdla.commands.console import progress
from vdla.commands.machine_options import add_extension_argument
from vdla.commands.options import add_options
from vdla.commands.program_file import is_compiled_network, read_program
from vdla.hardware.config import Config

if TYPE_CHECKING:
    from vdla.runtime.executor.model import Model
    from vdla.support.progress import Progress

EXAMPLES = """\
  vdla verify c2.vdla            exit code 1 when a program is refused
  vdla verify *.vdla kernel.s    several; .s is assembly text
  vdla verify c2.vdla --for ultra96   on another machine
  vdla verify net.vdla           the programs of a network, and its certificate
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The programs and the machine."""
    add_options(parser, {"programs PROGRAM": "a program file, assembly text, or a compiled network"}, nargs="+")
    add_extension_argument(parser, "an extension that a program needs")
    add_options(parser, {"--for PRESET": "verify for a machine other than the one it was compiled for"}, dest="device")


def run(arguments: argparse.Namespace) -> int:
    """Print the verdict on each program; exit code 1 when one is refused."""
    from vdla.simulator.verify import verify

    device = Config.preset(arguments.device) if arguments.device else None
    lines: list[str] = []
    accepted = True
    with progress("verify") as show:
        for index, path in enumerate(arguments.programs):
            show(path.name, index, len(arguments.programs))
            model = _model(path) if is_compiled_network(path) else None
            programs = [read_program(path)] if model is None else model.artifact.programs
            verdicts = [verify(program, device) for program in programs]
            lines += map(str, verdicts)
            accepted = accepted and all(verdict.ok for verdict in verdicts)
            if model is not None and accepted:
                lines.append(f"{path}: {_certificate(path, model, show)}")
            elif model is None and accepted and programs[0].certificate is not None:
                from vdla.commands.program_certificate import proven_again, said

                lines.append(f"{path}: {said(programs[0], proven_again(programs[0], str(path)))}")
    print("\n".join(lines))
    return OK if accepted else FINDING


def _model(path: Path) -> Model:
    """The network in a file, whose programs need not be safe."""
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.executor.model import Model

    return Model(Artifact.from_bytes(path.read_bytes(), str(path), verified=True))


def _certificate(path: Path, model: Model, show: Progress) -> str:
    """What the certificate of a network says, computed again; errors name what is wrong with it."""
    kept = model.artifact.certificate
    if not model.artifact.programs:
        return "no program runs on a machine"
    if kept is None:
        return "not certified (vdla compile without --no-certificate certifies)"
    from vdla.runtime.network.certify_model import require_same

    again = require_same(model, str(path), show)
    if again is None:
        how = "not proven again: the file does not keep what its programs must compute (vdla compile --expressions)"
        return f"certificate {kept.hash} is for these programs and constants and says {kept.summary}; {how}"
    return f"certificate {kept.hash}, proven again: {kept.summary}"
