# SPDX-License-Identifier: Apache-2.0
"""A try: what a user hands in, and the program that it is.

The code of a try runs as it is. Whatever it raises becomes one sentence with the file and the line.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar, cast

from vdla.hardware.asm import AsmError, assemble
from vdla.hardware.program import Program
from vdla.hardware.program.tensor import ProgramTensor
from vdla.puzzles.time_limit import time_limit
from vdla.support.errors import Error

Tried = Program | Path | str | Callable[..., Any]
T = TypeVar("T")
SECONDS = 60.0
"""The time that the code of a try may take."""


class AttemptError(Error, ValueError):
    """A try that is no program."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A try: the text of a file, or an object; `file` is its name in messages."""

    file: str
    content: str | Program | Callable[..., Any]

    @classmethod
    def of(cls, tried: Tried, file: str) -> Attempt:
        """What was handed in, read if it is a path; `file` names what has no file."""
        if not isinstance(tried, Path):
            return cls(file, tried)
        try:
            return cls(str(tried), tried.read_text(encoding="utf-8-sig"))
        except UnicodeDecodeError as error:
            got = f"byte {error.object[error.start]:#04x}"
            raise AttemptError(f"{tried}: content must be UTF-8 text, got {got}") from None


# --- assembly -------------------------------------------------------------------------------------


def assembled_text(text: str, file: str) -> Program:
    """Text in assembly as a program; AttemptError with the line."""
    try:
        return assemble(text, file)
    except AsmError as error:
        raise AttemptError(f"{file}: {error}") from None


def assembled(attempt: Attempt, start: Program) -> Program:
    """The program of a try in assembly, with the machine and the tensors of the start."""
    program = attempt.content
    if isinstance(program, str):
        program = assembled_text(program, attempt.file)
    if not isinstance(program, Program):
        raise AttemptError(f"{attempt.file}: the try must be assembly or a Program, got {type(program).__name__}")
    for field in fields(start.config):
        wanted, got = (getattr(one.config, field.name) for one in (start, program))
        if wanted != got and field.name != "name":
            raise AttemptError(
                f"{attempt.file}: {field.name} of the machine must be {wanted}, as in the start, got {got}"
            )
    return program


def require_tensors(program: Program, wanted: dict[str, tuple[str, tuple[int, ...], str]]) -> None:
    """AttemptError unless a program has these inputs and outputs: direction, shape, dtype."""
    got = {tensor.name: _described(tensor) for tensor in program.tensors if tensor.role not in ("constant", "scratch")}
    if got != wanted:
        shown = [", ".join(f"{name} ({_words(item)})" for name, item in sorted(one.items())) for one in (wanted, got)]
        raise AttemptError(f"inputs and outputs must be {shown[0]}, got {shown[1]}")
    given = next((tensor.name for tensor in program.tensors if tensor.name in wanted and tensor.data is not None), None)
    if given is not None:
        raise AttemptError(f"tensor {given} must have no data, since the check gives it, got data")


def _described(tensor: ProgramTensor) -> tuple[str, tuple[int, ...], str]:
    return "output" if tensor.role == "output" else "input", tuple(tensor.shape), tensor.dtype


def _words(described: tuple[str, tuple[int, ...], str]) -> str:
    direction, shape, dtype = described
    return f"{direction} {dtype} {'x'.join(map(str, shape))}"


# --- Python ---------------------------------------------------------------------------------------


def function_of(attempt: Attempt, name: str) -> Callable[..., Any]:
    """The function of a name that the file of a try defines, or that was handed in."""
    function: Any = attempt.content
    if isinstance(function, str):
        text, module = function, {"__name__": "attempt", "__file__": attempt.file}
        run(attempt, lambda: exec(compile(text, attempt.file, "exec"), module))
        function = module.get(name)
    if not callable(function):
        got = "none" if function is None else type(function).__name__
        raise AttemptError(f"{attempt.file}: the try must define a function {name}, got {got}")
    return cast(Callable[..., Any], function)


def run(attempt: Attempt, work: Callable[[], T]) -> T:
    """What the code of a try gives; AttemptError with its line for whatever it raises, and if it
    does not end.
    """
    try:
        with time_limit(SECONDS):
            return work()
    except SyntaxError as error:
        where, what = f"line {error.lineno}", f"SyntaxError: {error.msg}"
    except (Exception, SystemExit) as error:
        files = (attempt.file, _file_of(attempt.content))
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename in files]
        where = f"line {lines[-1]}" if lines else "the call of its function"
        what = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}".rstrip(": ")
        if what.startswith(f"{attempt.file}:") or (isinstance(error, Error) and not lines):
            raise AttemptError(what) from error  # it names the line itself, or is not of the try's own lines
    raise AttemptError(f"{attempt.file}: {where}: {what}")


def _file_of(content: object) -> str:
    """The file or the cell in which a function is written; empty for anything else."""
    return getattr(getattr(content, "__code__", None), "co_filename", "")
