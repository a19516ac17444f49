# SPDX-License-Identifier: Apache-2.0
"""Python as a board has it, for 32-bit Arm and AArch64, in an emulator: Debian's, with its NumPy.

`.ci/board-python` fetches the packages into a folder for each architecture; tests are skipped where
they or the emulator are missing.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.devices import Device, open_device
from vdla.runtime.executor.artifact import Artifact

REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = Path(__file__).with_name("board_process.py")
FOLDER = Path(os.environ.get("VDLA_BOARD_PYTHON", Path.home() / ".cache/vdla/board-python"))
SECONDS = 300


@dataclass(frozen=True)
class BoardPython:
    """The emulator and the root folder of an architecture."""

    emulator: tuple[str, ...]
    architecture: str

    @property
    def command(self) -> list[str]:
        """The command that starts Python; skips the test where something is missing."""
        root = FOLDER / self.architecture
        python = root / "usr/bin/python3"
        if shutil.which(self.emulator[0]) is None or not python.exists():
            pytest.skip(f"needs {self.emulator[0]} and {root} (apt-get install qemu-user; .ci/board-python)")
        return [*self.emulator, "-L", str(root), str(python)]


PYTHONS = {
    "cortex-a9": BoardPython(("qemu-arm", "-cpu", "cortex-a9"), "armhf"),
    "cortex-a53": BoardPython(("qemu-aarch64", "-cpu", "cortex-a53"), "arm64"),
}


def run_model(artifact: Artifact, inputs: Mapping[str, Any], cpu: str, folder: Path) -> tuple[dict[str, Any], int]:
    """The outputs of a network whose CPU part runs in a process for `cpu`, and whose programs run
    on the simulator of this process; and the number of programs that ran.
    """
    artifact.save(folder / "model.vdla")
    np.savez(folder / "inputs.npz", **inputs)
    command = PYTHONS[cpu].command if cpu in PYTHONS else [sys.executable]
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
