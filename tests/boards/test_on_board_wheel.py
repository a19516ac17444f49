# SPDX-License-Identifier: Apache-2.0
"""The wheel for boards: installed beside NumPy alone, it loads, verifies and runs."""

from __future__ import annotations

import errno
import os
import sys
import zipfile

import numpy as np
import pytest
from helpers.numpy_alone import install, numpy_alone, run
from helpers.plans import expected, small_artifact
from helpers.small_programs import small_gemm

from vdla.boards.on_board_modules import packed
from vdla.boards.on_board_wheel import PROGRAMS, build_wheel
from vdla.cli import main
from vdla.hardware.config import Config
from vdla.runtime.diagnosis.check_programs import simulated_programs
from vdla.runtime.diagnosis.known_program import read_known
from vdla.support.version import VERSION

BOARD = Config.preset("pynq_z2")
SCRIPT = """
import importlib
import importlib.util
import sys
from importlib.metadata import distributions, requires, version

import numpy as np

import vdla
from vdla.hardware.isa import COUNTERS, UNITS
from vdla.runtime.devices import DeviceError, MemoryDevice
from vdla.simulator.stats import RunStats, Times, macs_of

program_file, model_file, folder, *modules = sys.argv[1:]
for module in modules:
    importlib.import_module(module)
assert sorted({each.metadata["Name"] for each in distributions()} - {"pip", "setuptools", "wheel"}) == [
    "numpy", "vdla-board"
]
assert requires("vdla-board") == ["numpy>=1.21"] and vdla.__version__ == version("vdla-board")
absent_ones = (
    "numba", "llvmlite", "onnx", "rich", "pynq", "vdla.cli", "vdla.commands.console", "vdla.compiler.te",
    "vdla.simulator.timing",
)
for absent in absent_ones:
    try:
        found = importlib.util.find_spec(absent)
    except ModuleNotFoundError:  # its parent
        found = None
    assert found is None, absent


class Board(MemoryDevice):
    name = "board"

    def _run(self, program, addresses):
        self.write(addresses["out"], np.load(f"{folder}/out.npy"))
        times = Times.none(len(program))
        return RunStats(
            config=self.config, program=program.name, program_hash=program.hash, total_cycles=7,
            counters={unit: dict.fromkeys(COUNTERS, 0) for unit in UNITS}, starts=times.starts, ends=times.ends,
            dispatches=times.dispatches, waits=None, macs=macs_of(self.config, program.columns), bytes_read=0,
            bytes_written=0,
        )


program = vdla.load(program_file)
assert vdla.verify(program).ok
with Board(program.config, 1 << 20) as board:
    result = vdla.run(program, dict(np.load(f"{folder}/inputs.npz")), board)
    assert (result.outputs["out"] == np.load(f"{folder}/out.npy")).all()
with vdla.load(model_file) as model:
    np.save(f"{folder}/y.npy", model(np.load(f"{folder}/x.npy")))
for name in ("pynq", "sim"):
    try:
        vdla.open_device(name, program.config, **({"bitstream": f"{folder}/a.bit"} if name == "pynq" else {}))
    except DeviceError as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="loads ELF objects")
def test_the_wheel_works_beside_numpy_alone(tmp_path):
    python = numpy_alone(tmp_path / "venv")
    wheel = build_wheel(tmp_path / "dist")
    install(python, wheel, options=("--no-deps",))
    program, inputs, out = small_gemm(Config.preset("tiny"))
    program.save(tmp_path / "p.vdla")
    small_artifact().save(tmp_path / "m.vdla")
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    np.savez(tmp_path / "inputs.npz", **inputs)
    np.save(tmp_path / "out.npy", out)
    np.save(tmp_path / "x.npy", x)
    for name in ("a.bit", "a.hwh"):
        (tmp_path / name).touch()
    said = run(python, "-W", "error", "-c", SCRIPT, tmp_path / "p.vdla", tmp_path / "m.vdla", tmp_path, *packed(),
               cwd=tmp_path)  # fmt: skip
    assert np.allclose(np.load(tmp_path / "y.npy"), expected(x), atol=1e-5)
    listed = run(python, "-W", "error", "-m", "vdla_board", "info", cwd=tmp_path)
    assert listed.splitlines()[2].split() == ["vdla_board", VERSION]
    assert said.splitlines() == [
        "device pynq: Python package pynq must be installed, got none",
        "device sim: Python package vdla must be installed, got vdla-board, which has no vdla.runtime.devices.sim",
    ]


def test_the_wheel_has_the_modules_of_a_board_and_the_same_bytes_each_time(tmp_path):
    programs = {"74174378cfe6": b"programs"}
    first, second = (build_wheel(tmp_path / name, programs) for name in "ab")
    assert first.read_bytes() == second.read_bytes()
    names = zipfile.ZipFile(first).namelist()
    modules = [name.removesuffix(".py").removesuffix("/__init__") for name in names if name.endswith(".py")]
    assert [module.replace("/", ".") for module in modules] == [*packed(), "vdla_board"]
    others = {name for name in names if not name.endswith(".py") and "dist-info" not in name}
    assert {"vdla/py.typed", "vdla/boards/pynq_z2/board.json"} <= others
    assert {name.rpartition("/")[2] for name in others} == {"py.typed", "board.json", "LICENSE", "74174378cfe6.npz"}
    assert f"vdla_board-{VERSION}.dist-info/licenses/LICENSE" in names


def test_the_command_writes_the_wheel(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("vdla.boards.board.board_names", lambda: ("pynq_z2",))
    assert main(["board", "wheel", "-o", str(tmp_path)]) == 0
    path = next(tmp_path.glob("*.whl"))
    assert capsys.readouterr().out == f"wrote {path}\n"
    with zipfile.ZipFile(path) as archive:
        name = f"{PROGRAMS}/{BOARD.fingerprint}.npz"
        known = read_known(archive.extract(name, tmp_path))
    expected = list(simulated_programs(BOARD))
    assert [item.name for item in known] == [item.name for item in expected]
    for one, other in zip(known, expected, strict=True):
        assert one.program.hash == other.program.hash
        assert all((one.outputs[tensor] == array).all() for tensor, array in other.outputs.items())


def test_a_full_disk_leaves_no_wheel(tmp_path, monkeypatch):
    def full(archive, entry, content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space left on device"):
        build_wheel(tmp_path)
    assert list(tmp_path.iterdir()) == []
