# SPDX-License-Identifier: Apache-2.0
"""Wrong command lines and calls of the Python interface, each with the message that it must give.

The table is in messages.txt. A line that begins with `$ ` is a command line without `vdla`, one
that begins with `>>> ` an expression; the line below is the message, where "..." is any text.

- `unexpected` counts the cases with a message other than the expected one;
- `without_remedy` counts those whose message names neither the rule that was broken nor a remedy;
- `tracebacks` counts the commands that end in an internal error, and the calls that raise an error
  other than `vdla.Error`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib.resources import files
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import vdla
from vdla.benchmarks.harness import BenchmarkResult, Row, versions
from vdla.cli import main
from vdla.commands import BAD_INPUT
from vdla.support.progress import Progress, silent

_COMMAND, _CALL = "$ ", ">>> "
_REMEDY = re.compile(
    r"must|did you mean|see vdla|no such (file|folder)|first: |converts it|takes it|reads it|pip install"
)
"""What a message has that says how to go on."""


@dataclass(frozen=True, slots=True)
class MessageCase:
    """What a user types, and the message; `words` is a command line or an expression."""

    words: str
    is_command: bool
    message: str

    def fits(self, got: str) -> bool:
        """Whether a message matches the one in the table."""
        pattern = ".*".join(map(re.escape, self.message.split("...")))
        return re.fullmatch(pattern, got, re.DOTALL) is not None


def cases() -> Iterator[MessageCase]:
    """The table."""
    lines = files("vdla.benchmarks").joinpath("messages.txt").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line and not line.startswith("#")]
    for words, message in zip(rows[::2], rows[1::2], strict=True):
        yield MessageCase(words.removeprefix(_COMMAND).removeprefix(_CALL), words.startswith(_COMMAND), message)


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """A row for each case."""
    table = list(cases())
    with TemporaryDirectory() as folder, _inside(folder):
        write_files(seed)
        rows = []
        for number, case in enumerate(table):
            progress(case.words, number, len(table))
            rows.append(_row(case))
    figures = {
        "cases": float(len(rows)),
        "unexpected": float(sum(not row["expected"] for row in rows)),
        "without_remedy": float(sum(_REMEDY.search(row["message"]) is None for row in rows)),
        "tracebacks": float(sum(row["traceback"] for row in rows)),
    }
    receipt = {"versions": versions("numpy", "onnx"), "seed": seed, "command": "vdla bench messages"}
    return BenchmarkResult("messages", figures, rows, receipt)


@contextmanager
def _inside(folder: str) -> Iterator[None]:
    """With another working directory."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _row(case: MessageCase) -> Row:
    got, is_traceback = _command(case.words) if case.is_command else _call(case.words)
    return {"words": case.words, "expected": case.fits(got), "traceback": is_traceback, "message": got}


def _command(words: str) -> tuple[str, bool]:
    """The line that a command writes, and whether it is an internal error."""
    errors = StringIO()
    with redirect_stdout(StringIO()), redirect_stderr(errors):
        try:
            code: object = main(shlex.split(words))
        except SystemExit as stop:
            code = stop.code
    text = errors.getvalue().removesuffix("\n").removeprefix("vdla: ")
    return text, code != BAD_INPUT


def _call(expression: str) -> tuple[str, bool]:
    """The message of a call, and whether the error is another than ours."""
    names: dict[str, Any] = {"vdla": vdla, "te": vdla.te, "np": np, "image": np.zeros((1, 1, 8, 8), np.float32)}
    names |= {"network": vdla.load("digits.vdla"), "program": vdla.load("c12.vdla")}
    names["a"] = vdla.te.placeholder((4,), "float32", "a")
    try:
        eval(expression, names)
    except vdla.Error as error:
        return str(error), False
    except Exception as error:
        return f"{type(error).__name__}: {error}", True
    return "no error", True


# --- files of the working directory ---------------------------------------------------------------


def write_files(seed: int) -> None:
    """The files that cases name: a model, a network, a program, arrays, files of other kinds."""
    from vdla.networks.registry import NETWORKS

    model = NETWORKS["digits"].build(seed=seed)
    Path("digits.onnx").write_bytes(model.SerializeToString())
    images = np.random.default_rng(seed).random((8, 1, 8, 8), np.float32)
    vdla.compile("digits.onnx", "pynq_z1", calibration=images).save("digits.vdla")
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        main(["compile", "C12", "-o", "c12.vdla"])
    arrays: dict[str, Any] = {
        "image": images[:1],
        "float64": images[:1].astype(np.float64),
        "x": np.zeros(4, np.int8),
    }
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    for name in ("text.txt", "text.onnx", "digits.tflite", "digits.pt2", "digits.pth", "digits.h5", "log.jsonl"):
        Path(name).write_text("hello\n", encoding="utf-8")
    for name in ("empty.onnx", "empty.vdla", "empty.npy", "empty.py"):
        Path(name).touch()
    Path("wrong.s").write_text(".config preset=tiny\nsink compute\n", encoding="utf-8")
    Path("stuck.s").write_text(".config preset=tiny\nsync compute wait=load\n", encoding="utf-8")
    Path("wrong.json").write_text('{"block_inn": 16}', encoding="utf-8")
    Path("wrong.py").write_text("def declare(config:\n", encoding="utf-8")
    Path("folder").mkdir()
