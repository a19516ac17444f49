# SPDX-License-Identifier: Apache-2.0
"""Networks in an emulated Python of a board, their programs on the simulator of this process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.devices import Device, open_device
from vdla.runtime.executor.artifact import Artifact
from vdla.verification.board_python import EMULATED, FOLDER

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("board_process.py")
SECONDS = 300


def _command(cpu: str) -> list[str]:
    """The command that starts Python for a CPU; skips the test where something is missing."""
    python = EMULATED[cpu]
    if not python.is_here:
        pytest.skip(f"needs {python.emulator[0]} and {python.root} (apt-get install qemu-user; .ci/board-python)")
    return python.command


def run_model(artifact: Artifact, inputs: Mapping[str, Any], cpu: str, folder: Path) -> tuple[dict[str, Any], int]:
    """The outputs of a network whose CPU part runs in a process for `cpu`, and whose programs run
    on the simulator of this process; and the number of programs that ran.
    """
    artifact.save(folder / "model.vdla")
    np.savez(folder / "inputs.npz", **inputs)
    command = _command(cpu) if cpu in EMULATED else [sys.executable]
    arguments = [str(folder / name) for name in ("model.vdla", "inputs.npz", "outputs.npz")]
    process = subprocess.Popen(
        [*command, str(SCRIPT), *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONPYCACHEPREFIX": str(FOLDER / "pycache")},
    )  # fmt: skip
    timer = Timer(SECONDS, process.kill)
    timer.start()
    try:
        programs = _serve(artifact, process)
        errors = process.stderr.read().decode() if process.stderr else ""
        assert process.wait() == 0, f"{' '.join(command)}\n{errors}"
    finally:
        timer.cancel()
        process.kill()
        process.communicate()
    with np.load(folder / "outputs.npz") as found:
        return {name: found[name] for name in found.files}, programs


def _serve(artifact: Artifact, process: subprocess.Popen[bytes]) -> int:
    """Answer the process until it ends; the number of its programs."""
    assert process.stdin is not None and process.stdout is not None
    runs = 0
    with open_device("sim", artifact.config or Config.preset("tiny")) as device:
        while True:
            try:
                name, *arguments = pickle.load(process.stdout)
            except EOFError:
                return runs
            runs += name == "run"
            pickle.dump(_answer(device, name, arguments), process.stdin)
            process.stdin.flush()


def _answer(device: Device, name: str, arguments: list[Any]) -> Any:
    match name:
        case "write":
            return device.write(arguments[0], np.frombuffer(arguments[1], np.uint8))
        case "read":
            return device.read(*arguments).tobytes()
        case "run":
            stats = device.run(Program.from_bytes(arguments[0], "program"), arguments[1])
            return stats.total_cycles, stats.counters
        case _:
            return getattr(device, name)(*arguments)
