# SPDX-License-Identifier: Apache-2.0
"""The wheel for boards under Pythons of boards: self-test, networks, memory and time of loading.

Each Python runs the wheel's commands; its device is the simulator, shared as `pynq://` over HTTP.
Without an emulator or Python 3.10 fewer Pythons count: three are `on_board_pythons` with all.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from vdla.benchmarks.board.network_equal import compiled
from vdla.benchmarks.board.served import served
from vdla.benchmarks.harness import Row
from vdla.boards.on_board_wheel import build_wheel
from vdla.hardware.config import Config
from vdla.runtime.diagnosis.check_programs import simulated_programs
from vdla.runtime.diagnosis.known_program import known_bytes
from vdla.runtime.executor.model import Model
from vdla.support.errors import Error
from vdla.verification.board_python import EMULATED, ImagePythonError, image_python

_TIMEOUT_S = 1200.0
_EMULATED = "cortex-a9"
_LOAD = """\
import json, sys, time
from vdla.runtime.executor.artifact import Artifact
start = time.process_time()
Artifact.load(*sys.argv[1:])
seconds = time.process_time() - start
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({"seconds": seconds, "peak_kib": int(status["VmHWM"].split()[0])}))
"""


class OnBoardError(Error, RuntimeError):
    """A command of the wheel that failed."""


@dataclass(frozen=True)
class _Python:
    """A Python that runs the wheel, and the CPU that its networks are compiled for."""

    name: str
    command: Sequence[str]
    cpu: str
    package: Path

    def run(self, *arguments: object, accepted: Sequence[int] = (0,)) -> str:
        """What Python prints; OnBoardError with its errors."""
        command = [*self.command, *map(str, arguments)]
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(self.package)}
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise OnBoardError(f"bench board: {self.name} must end within {_TIMEOUT_S:g} s, got {arguments}") from None
        if done.returncode not in accepted:
            raise OnBoardError(f"bench board: {self.name} must run {arguments}, got {done.stderr.strip()[-400:]}")
        return done.stdout


def on_board(preset: str, names: Sequence[str], *, small: bool, seed: int) -> Row:
    """The figures of each Python; those of all of them are without a Python's name.

    `on_board_peak_mib` is the most memory of loading the last network under a Python that is not
    emulated, interpreter and NumPy included; an emulator adds its own.
    """
    config = Config.preset(preset)
    figures: Row = {}
    with TemporaryDirectory() as name, served("sim", config, transport="http") as server:
        folder = Path(name)
        package = _package(folder, config)
        for python in _pythons(folder, package):
            networks = [_on_python(python, server.address, network, preset, small, seed, folder) for network in names]
            values = {
                "tests_failed": _failed_tests(python, server.address, preset),
                "network_equal": min(equal for equal, _ in networks),
                **networks[-1][1],
            }
            figures |= {f"{python.name}_{figure}": value for figure, value in values.items()}
    return figures | _of_all(figures)


def _of_all(figures: Mapping[str, Any]) -> Row:
    def values(figure: str) -> list[Any]:
        return [value for name, value in figures.items() if name.endswith(figure)]

    native = {name: value for name, value in figures.items() if not name.startswith(_EMULATED)}
    return {
        "on_board_pythons": len(values("network_equal")),
        "on_board_tests_failed": sum(values("tests_failed")),
        "on_board_equal": min(values("network_equal")),
        "on_board_peak_mib": max(value for name, value in native.items() if name.endswith("peak_mib")),
        "on_board_trusted_share": max(values("trusted_share")),
    }


def _package(folder: Path, config: Config) -> Path:
    """The wheel, with the programs of the self-test, unpacked."""
    wheel = build_wheel(folder, {config.fingerprint: known_bytes(simulated_programs(config))})
    package = folder / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(package)
    return package


def _pythons(folder: Path, package: Path) -> Iterator[_Python]:
    yield _Python("this_python", [sys.executable], "host", package)
    with suppress(ImagePythonError):
        yield _Python("image_python", [image_python(folder / "image")], "host", package)
    if EMULATED[_EMULATED].is_here:
        yield _Python(_EMULATED, EMULATED[_EMULATED].command, _EMULATED, package)


def _failed_tests(python: _Python, address: str, preset: str) -> int:
    said = python.run(
        "-m", "vdla_board", "selftest", "--device", address, "--preset", preset, "--json", accepted=(0, 1)
    )
    return sum(check["state"] == "failed" for check in json.loads(said).values())


def _on_python(
    python: _Python, address: str, name: str, preset: str, small: bool, seed: int, folder: Path
) -> tuple[int, Row]:
    """Whether a network has the bits of the simulator; memory and time of loading it."""
    artifact, inputs = compiled(name, preset, seed, small)
    with Model(artifact, "sim") as model:
        wanted = model.run(inputs).outputs
    if python.cpu != "host":
        artifact, _ = compiled(name, preset, seed, small, python.cpu)
    path, outputs = folder / f"{name}.vdla", folder / f"{python.name}_{name}"
    artifact.save(path)
    np.savez(folder / "inputs.npz", **inputs)
    given = ["--input", folder / "inputs.npz", "--device", address, "--output", outputs]
    python.run("-m", "vdla_board", "run", path, *given)
    equal = all(np.array_equal(np.load(outputs / f"{key}.npy"), array) for key, array in wanted.items())
    verified = json.loads(python.run("-c", _LOAD, path))
    trusted = json.loads(python.run("-c", _LOAD, path, sha256(path.read_bytes()).hexdigest()))
    loading = {
        "peak_mib": round(verified["peak_kib"] / 1024, 1),
        "trusted_peak_mib": round(trusted["peak_kib"] / 1024, 1),
        "trusted_share": round(trusted["seconds"] / verified["seconds"], 3),
    }
    return int(equal), loading
