# SPDX-License-Identifier: Apache-2.0
"""The command line `vdla`: runs one command; an error becomes one line and an exit code.

Only the module of the command that runs is imported, so `vdla --help` loads nothing heavy.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import NoReturn

from vdla.commands import BAD_INPUT, COMMANDS, EXIT_CODES, FAULT, INTERRUPTED, OK, Command, load
from vdla.support.errors import Error, Notice
from vdla.support.suggest import did_you_mean

EXAMPLES = """\
examples:
  vdla demo                           a whole network, checked and profiled
  vdla compile model.onnx -o m.vdla   a network as one file
  vdla run m.vdla --input x.npy       run it on the simulator
  vdla compile C2 -o c2.vdla          a program file from a named layer
  vdla run c2.vdla --random-inputs 0  run it on the simulator
  vdla help COMMAND                   more on one command
"""


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        where = self.prog.removeprefix("vdla ").replace("vdla", "command line")
        self.exit(BAD_INPUT, f"vdla: {where}: {_one_line(message)} (see {self.prog} --help)\n")


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help whose columns leave room for the names of commands, which are indented further."""

    def add_argument(self, action: argparse.Action) -> None:
        super().add_argument(action)
        if isinstance(action, argparse._SubParsersAction):
            self._action_max_length += self._indent_increment


class _Version(argparse.Action):
    """`--version`; in a checkout it asks Git for the commit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from vdla.support.version import version_text

        print(f"vdla {version_text()}")
        parser.exit(OK)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = _without_help(list(sys.argv[1:] if arguments is None else arguments))
    try:
        if "_ARGCOMPLETE" in os.environ:
            return _complete()
        return _run(words)
    except BrokenPipeError:
        return _closed_output()
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)


def _run(words: Sequence[str]) -> int:
    name = _command_of(words)
    if name is not None and name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS)
        return _complain(f"command must be one of {', '.join(COMMANDS)}, got {name}{hint}", BAD_INPUT)
    parser, commands = parsers({name: load(name)} if name else {})
    parsed, unknown = parser.parse_known_args(words)
    if name is None and unknown:
        parser.error(_unknown(unknown[0], parser))
    if name is None:
        parser.print_help()
        return OK
    if unknown:
        commands[name].error(_unknown(unknown[0], commands[name]))
    return _execute(parsed)


def _without_help(words: list[str]) -> list[str]:
    """`help COMMAND ...` as `COMMAND ... --help`, `help` as `--help`."""
    return [*words[1:], "--help"] if words[:1] == ["help"] else words


def _command_of(words: Sequence[str]) -> str | None:
    """The first word that is not an option, or None."""
    return next((word for word in words if not word.startswith("-")), None)


def _execute(parsed: argparse.Namespace) -> int:
    try:
        _check_machine(parsed)
        with warnings.catch_warnings():
            warnings.simplefilter("always", Notice)
            warnings.showwarning = _warn
            code: int = parsed.run(parsed)
        if sys.stdout is not None:  # it is None where the shell closed it
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        raise
    except Exception as error:
        return _report(error, parsed.debug)


def _check_machine(parsed: argparse.Namespace) -> None:
    """Load the extensions and read the machine that options name, whatever the command does with
    them: a file that cannot be used is an error everywhere.
    """
    extensions, config = getattr(parsed, "extension", None), getattr(parsed, "config", None)
    if extensions or config:
        from vdla.commands.machine_options import check_machine

        check_machine(extensions or [], config)


# --- parsers --------------------------------------------------------------------------------------


def parsers(loaded: Mapping[str, Command]) -> tuple[_Parser, dict[str, _Parser]]:
    """The parser and those of the commands; only `loaded` commands have their arguments."""
    parser = _Parser(
        prog="vdla",
        description="Compile networks for the VDLA accelerator and for CPUs, simulate and verify.",
        epilog=f"{EXAMPLES}\n{EXIT_CODES}",
        formatter_class=_Help,
    )
    parser.add_argument("-V", "--version", action=_Version, nargs=0, help="show the version with its commit and exit")
    subparsers = parser.add_subparsers(metavar="COMMAND", parser_class=_Parser)
    commands = {}
    for name, text in COMMANDS.items():
        commands[name] = subparsers.add_parser(
            name,
            help=text,
            description=f"{text[0].upper()}{text[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name in loaded:
            _add_arguments(commands[name], loaded[name])
    return parser, commands


def _add_arguments(parser: argparse.ArgumentParser, command: Command) -> None:
    command.add_arguments(parser)
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.epilog = f"examples:\n{command.EXAMPLES}"
    parser.set_defaults(run=command.run)


def _unknown(word: str, parser: argparse.ArgumentParser) -> str:
    """The error text for a word that the parser of a command does not know."""
    option = word.split("=")[0]
    known = [string for action in parser._actions for string in action.option_strings]
    if option.startswith("-"):
        renamed = f" (did you mean {_RENAMED[option]}?)" if _RENAMED.get(option) in known else ""
        return f"unknown option {option}{renamed or _not_here(option, known) or did_you_mean(option, known)}"
    if word.endswith((".npy", ".npz")) and "--input" in known:
        return f"unexpected argument {word} (did you mean --input {word}?)"
    return f"unexpected argument {word}"


_OF_COMPILATION = ("--preset", "--target", "--config")


_RENAMED = {"--data": "--calibration", "--keep-float": "--float", "--svg": "--picture"}
"""Earlier words of options."""


def _not_here(option: str, known: Sequence[str]) -> str:
    """Why a command that reads a file has no option for the machine."""
    if option not in _OF_COMPILATION or not any(name in known for name in ("--input", "--extension")):
        return ""
    return ": the file was compiled for its machine (vdla compile --target NAME compiles it for another one)"


def _complete() -> int:
    """Answer a shell that completes a command line; see `vdla completion`."""
    import argcomplete

    name = _command_of(os.environ.get("COMP_LINE", "").split()[1:])
    parser, _ = parsers({name: load(name)} if name in COMMANDS else {})
    argcomplete.autocomplete(parser, always_complete_options=False)
    return OK


# --- errors ---------------------------------------------------------------------------------------


def _report(error: Exception, debug: bool) -> int:
    """One line for an error that the user can mend; for any other, how to report it."""
    if debug:
        traceback.print_exception(error)
    if isinstance(error, Error):
        return _complain(_one_line(str(error)), BAD_INPUT)
    if isinstance(error, OSError):
        return _complain(_file_message(error), BAD_INPUT)
    if isinstance(error, MemoryError):
        return _complain(f"out of memory: {_one_line(str(error)) or 'an allocation failed'}", BAD_INPUT)
    hint = "" if debug else "; please report it with the output of the same command with --debug"
    return _complain(f"internal error: {type(error).__name__}: {_one_line(str(error))}{hint}", FAULT)


def _file_message(error: OSError) -> str:
    from vdla.support.file_kind import unreadable

    if isinstance(error, FileNotFoundError) and error.filename:
        return unreadable(error.filename, error)
    return f"{error.filename or 'input or output'}: {error.strerror or error}"


def _warn(message: Warning | str, category: type[Warning], *place: object, **options: object) -> None:
    """One line for a warning, without the place in our sources."""
    known = issubclass(category, Notice)
    _complain(f"warning: {'' if known else f'{category.__name__}: '}{_one_line(str(message))}", OK)


def _complain(message: str, code: int) -> int:
    print(f"vdla: {message}", file=sys.stderr)
    return code


def _one_line(text: str) -> str:
    """The lines of a message, such as the state of every unit, joined by semicolons."""
    return "; ".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def _closed_output() -> int:
    """The reader of the output exited early, as `head` does: no error, neither at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK
