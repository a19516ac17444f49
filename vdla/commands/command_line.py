# SPDX-License-Identifier: Apache-2.0
"""A command line: it runs one command; an error becomes one line and an exit code.

Only the module of the command that runs is imported, so `--help` loads nothing heavy. `vdla` and
the package for boards have one each.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from vdla.commands import BAD_INPUT, EXIT_CODES, FAULT, INTERRUPTED, OK, Command
from vdla.support.errors import Error, Notice
from vdla.support.suggest import did_you_mean

_OF_COMPILATION = ("--preset", "--target", "--config")
_RENAMED = {"--data": "--calibration", "--keep-float": "--float", "--svg": "--picture"}
"""Earlier words of options."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The commands of a program, each with its one line of help; `load` imports one of them.

    `words` is how the program is called, `noun` what its messages begin with.
    """

    words: str
    noun: str
    description: str
    examples: str
    commands: Mapping[str, str]
    load: Callable[[str], Command]

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the command line and return its exit code."""
        words = _without_help(list(sys.argv[1:] if arguments is None else arguments))
        try:
            if "_ARGCOMPLETE" in os.environ:
                return self._complete()
            return self._run(words)
        except BrokenPipeError:
            return _closed_output()
        except KeyboardInterrupt:
            return self._complain("interrupted", INTERRUPTED)

    def _run(self, words: Sequence[str]) -> int:
        name = _command_of(words)
        if name is not None and name not in self.commands:
            hint = did_you_mean(name, self.commands)
            return self._complain(f"command must be one of {', '.join(self.commands)}, got {name}{hint}", BAD_INPUT)
        parser, commands = self.parsers({name: self.load(name)} if name else {})
        parsed, unknown = parser.parse_known_args(words)
        if name is None and unknown:
            parser.error(_unknown(unknown[0], parser))
        if name is None:
            parser.print_help()
            return OK
        if unknown:
            commands[name].error(_unknown(unknown[0], commands[name]))
        return self._execute(parsed)

    def _execute(self, parsed: argparse.Namespace) -> int:
        try:
            _check_machine(parsed)
            with warnings.catch_warnings():
                warnings.simplefilter("always", Notice)
                warnings.showwarning = self._warn
                code: int = parsed.run(parsed)
            if sys.stdout is not None:  # it is None where the shell closed it
                sys.stdout.flush()
            return code
        except BrokenPipeError:
            raise
        except Exception as error:
            return self._report(error, parsed.debug)

    # --- parsers

    def parsers(self, loaded: Mapping[str, Command]) -> tuple[Parser, dict[str, Parser]]:
        """The parser and those of the commands; only `loaded` commands have their arguments."""
        epilog = f"{self.examples}\n{EXIT_CODES}"
        parser = Parser(prog=self.words, description=self.description, epilog=epilog, formatter_class=_Help)
        parser.line = self
        parser.add_argument(
            "-V", "--version", action=_Version, nargs=0, help="show the version with its commit and exit"
        )
        subparsers = parser.add_subparsers(metavar="COMMAND", parser_class=Parser)
        commands: dict[str, Parser] = {}
        for name, text in self.commands.items():
            commands[name] = subparsers.add_parser(
                name,
                help=text,
                description=f"{text[0].upper()}{text[1:]}.",
                formatter_class=argparse.RawDescriptionHelpFormatter,
            )
            commands[name].line = self
            if name in loaded:
                _add_arguments(commands[name], loaded[name])
        return parser, commands

    def _complete(self) -> int:
        """Answer a shell that completes a command line; see `vdla completion`."""
        import argcomplete

        name = _command_of(os.environ.get("COMP_LINE", "").split()[1:])
        parser, _ = self.parsers({name: self.load(name)} if name and name in self.commands else {})
        argcomplete.autocomplete(parser, always_complete_options=False)
        return OK

    # --- errors

    def _report(self, error: Exception, debug: bool) -> int:
        """One line for an error that the user can mend; for any other, how to report it."""
        if debug:
            traceback.print_exception(error)
        if isinstance(error, Error):
            return self._complain(_one_line(str(error)), BAD_INPUT)
        if isinstance(error, OSError):
            return self._complain(_file_message(error), BAD_INPUT)
        if isinstance(error, MemoryError):
            return self._complain(f"out of memory: {_one_line(str(error)) or 'an allocation failed'}", BAD_INPUT)
        hint = "" if debug else "; please report it with the output of the same command with --debug"
        return self._complain(f"internal error: {type(error).__name__}: {_one_line(str(error))}{hint}", FAULT)

    def _warn(self, message: Warning | str, category: type[Warning], *place: object, **options: object) -> None:
        """One line for a warning, without the place in our sources."""
        known = issubclass(category, Notice)
        self._complain(f"warning: {'' if known else f'{category.__name__}: '}{_one_line(str(message))}", OK)

    def _complain(self, message: str, code: int) -> int:
        print(f"{self.noun}: {message}", file=sys.stderr)
        return code


class Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    line: CommandLine | None = None

    def error(self, message: str) -> NoReturn:
        """Exit with one line: the command, what is wrong, how to get help."""
        words, noun = ("vdla", "vdla") if self.line is None else (self.line.words, self.line.noun)
        where = "command line" if self.prog == words else self.prog.removeprefix(f"{words} ")
        self.exit(BAD_INPUT, f"{noun}: {where}: {_one_line(message)} (see {self.prog} --help)\n")


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

        noun = parser.line.noun if isinstance(parser, Parser) and parser.line else "vdla"
        print(f"{noun} {version_text()}")
        parser.exit(OK)


def _without_help(words: list[str]) -> list[str]:
    """`help COMMAND ...` as `COMMAND ... --help`, `help` as `--help`."""
    return [*words[1:], "--help"] if words[:1] == ["help"] else words


def _command_of(words: Sequence[str]) -> str | None:
    """The first word that is not an option, or None."""
    return next((word for word in words if not word.startswith("-")), None)


def _check_machine(parsed: argparse.Namespace) -> None:
    """Load the extensions and read the machine that options name, whatever the command does with
    them: a file that cannot be used is an error everywhere.
    """
    extensions, config = getattr(parsed, "extension", None), getattr(parsed, "config", None)
    if extensions or config:
        from vdla.commands.machine_options import check_machine

        check_machine(extensions or [], config)


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


def _not_here(option: str, known: Sequence[str]) -> str:
    """Why a command that reads a file has no option for the machine."""
    if option not in _OF_COMPILATION or not any(name in known for name in ("--input", "--extension")):
        return ""
    return ": the file was compiled for its machine (vdla compile --target NAME compiles it for another one)"


def _file_message(error: OSError) -> str:
    from vdla.support.file_kind import unreadable

    if isinstance(error, FileNotFoundError) and error.filename:
        return unreadable(error.filename, error)
    return f"{error.filename or 'input or output'}: {error.strerror or error}"


def _one_line(text: str) -> str:
    """The lines of a message, such as the state of every unit, joined by semicolons."""
    return "; ".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def _closed_output() -> int:
    """The reader of the output exited early, as `head` does: no error, neither at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK
