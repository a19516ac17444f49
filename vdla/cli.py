"""The command line `vdla`: reads the arguments, runs one command, turns every error into one line and an exit code.

Exit codes: 0 all is well, 1 what was looked at is not right, 2 the input cannot be used, 3 a defect of vdla itself.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from typing import NoReturn

from vdla import __version__
from vdla.commands import BAD_INPUT, FAULT, Command, load_all

EPILOG = """\
examples:
  vdla demo                           one layer of ResNet-18, checked and timed
  vdla compile C2 -o c2.vdla          a program file from a named layer
  vdla run c2.vdla --random-inputs 0  run it on the simulator
  vdla COMMAND --help                 more on one command
"""

INTERRUPTED = 130  # what a shell reports for a program that was stopped from the keyboard


class _Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        where = self.prog.removeprefix("vdla ").replace("vdla", "command line")
        self.exit(BAD_INPUT, f"vdla: {where}: {_one_line(message)} (see {self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        return _run(_parser(load_all()).parse_args(arguments))
    except BrokenPipeError:
        return _closed_output()
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)


def _run(parsed: argparse.Namespace) -> int:
    try:
        code: int = parsed.run(parsed)
        if sys.stdout is not None:  # it is None where the shell closed it
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        raise
    except Exception as error:
        return _report(error, parsed.debug)


def _parser(commands: Sequence[Command]) -> argparse.ArgumentParser:
    parser = _Parser(
        prog="vdla",
        description="Compile tensor expressions for the VDLA accelerator, simulate them exactly, verify them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"vdla {__version__}")
    subparsers = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    for command in commands:
        _add_command(subparsers, command)
    return parser


def _add_command(subparsers: argparse._SubParsersAction[_Parser], command: Command) -> None:
    parser = subparsers.add_parser(
        command.NAME,
        help=command.HELP,
        description=f"{command.HELP[0].upper()}{command.HELP[1:]}.",
        epilog=f"examples:\n{command.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.set_defaults(run=command.run)


def _report(error: Exception, debug: bool) -> int:
    """One line for what the user can mend; for anything else, how to report it."""
    if debug:
        traceback.print_exception(error)
    if _is_users(error):
        return _complain(_one_line(str(error)), BAD_INPUT)
    if isinstance(error, OSError):
        return _complain(f"{error.filename or 'system'}: {error.strerror or error}", BAD_INPUT)
    hint = "" if debug else "; please report it with the output of the same command with --debug"
    return _complain(f"internal error: {type(error).__name__}: {_one_line(str(error))}{hint}", FAULT)


def _is_users(error: Exception) -> bool:
    """Whether the error is one of ours, raised with a message for the person at the keyboard."""
    ours = type(error).__module__.split(".")[0] == "vdla"
    return ours and isinstance(error, ValueError | RuntimeError | TimeoutError)


def _complain(message: str, code: int) -> int:
    print(f"vdla: {message}", file=sys.stderr)
    return code


def _one_line(text: str) -> str:
    """A message of several lines, such as the state of every unit, as one."""
    return "; ".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def _closed_output() -> int:
    """The reader of our output left, as `head` does: no complaint, and none from the interpreter's own flush."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0
