# SPDX-License-Identifier: Apache-2.0
"""`vdla debug`: a program or a network on the simulator, stopped and stepped, both ways."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from vdla.commands import OK, CommandError
from vdla.commands.arrays import read_inputs, with_random
from vdla.commands.files import is_model, read_text
from vdla.commands.machine_options import add_dram_arguments, add_extension_argument, with_dram
from vdla.commands.model_inputs import model_inputs
from vdla.commands.options import add_options
from vdla.commands.program_file import ASSEMBLY, read_program

if TYPE_CHECKING:
    from vdla.debugger.debugger import Debugger

EXAMPLES = """\
  vdla debug c6.vdla                     type help for the commands
  vdla debug c6.vdla --execute "break gemm; run; finish; print acc[0]"
  vdla debug stuck.s --execute "go end; status"
                                         of a program that hangs
  vdla debug c6.vdla < commands.txt
  vdla debug model.vdla --input x.npy --execute "break layer conv1; run; where"
                                         of a network, with what it feeds each
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The program, its inputs, the commands."""
    add_options(parser, {"program PROGRAM": "a program file, assembly text (.s), or a compiled network"})
    add_extension_argument(parser, "an extension that the program needs")
    add_options(
        parser,
        {
            "--execute COMMANDS": "carry out commands, with ; between them, in place of those typed",
            "--input NAME=FILE...": "packed arrays as .npy files; "
            "of a network plain ones, also FILE.npy for its only input",
            "--seed SEED = 0": "seed of the inputs without a file (default 0)",
        },
    )
    add_dram_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Carry out the commands of --execute, of standard input, or those typed at a terminal."""
    from vdla.debugger.shell import Shell, commands_of

    shell = Shell(_debugger(arguments), sys.stdout)
    if arguments.execute is not None:
        shell.script(commands_of(arguments.execute))
    elif sys.stdin.isatty():
        shell.terminal()
    else:
        shell.script(part for line in sys.stdin for part in commands_of(line))
    return OK


def _debugger(arguments: argparse.Namespace) -> Debugger:
    from vdla.debugger.debug import debug
    from vdla.simulator.verify import VerifyError

    path = arguments.program
    if is_model(path):
        return _network_debugger(arguments)
    program = read_program(path)
    arrays = with_random(program, read_inputs(arguments.input), arguments.seed)
    try:
        result = debug(program, arrays, with_dram(program.config, arguments.dram))
    except VerifyError as error:
        raise CommandError(f"debug: a program must access memory within its bounds, got {error}") from None
    if path.suffix == ASSEMBLY:
        from vdla.hardware.asm import instruction_lines

        result.source_file_lines = instruction_lines(read_text(path))
    return result


def _network_debugger(arguments: argparse.Namespace) -> Debugger:
    from vdla.debugger.debug import debug
    from vdla.runtime.executor.artifact import Artifact

    artifact = Artifact.load(arguments.program)
    inputs = model_inputs(artifact.plans, arguments.input, arguments.seed, "debug")
    if len(inputs) != 1:
        raise CommandError(f"debug: inputs of a network must be for one run, got those for {len(inputs)}")
    config = None if artifact.config is None else with_dram(artifact.config, arguments.dram)
    return debug(artifact, inputs.runs[0], config)
