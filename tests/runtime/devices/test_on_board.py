# SPDX-License-Identifier: Apache-2.0
"""The on-board path: programs run without the libraries of simulator and compiler."""

import subprocess
import sys

import pytest
from helpers.small_programs import small_gemm

from vdla.hardware.config import Config

# A process that cannot import the libraries that a board lacks.
BLOCKER = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"numba", "llvmlite", "onnx", "xgboost", "rich", "cocotb"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""

# A machine that returns recorded outputs and counts cycles stands in for the board.
SCRIPT = """
import numpy as np

import vdla
from vdla.hardware.program import load
from vdla.hardware.isa import COUNTERS, UNITS
from vdla.runtime.devices import MemoryDevice
from vdla.simulator.stats import RunStats, Times, macs_of
from vdla.simulator.verify import VerifyError

file, expected = sys.argv[1], np.load(sys.argv[2])

class Board(MemoryDevice):
    name = "board"

    def _run(self, program, addresses):
        self.write(addresses["out"], expected)
        times = Times.none(len(program))
        return RunStats(
            config=self.config, program=program.name, program_hash=program.hash, total_cycles=7,
            counters={unit: dict.fromkeys(COUNTERS, 0) for unit in UNITS}, starts=times.starts, ends=times.ends,
            dispatches=times.dispatches, waits=None, macs=macs_of(self.config, program.columns), bytes_read=0,
            bytes_written=0,
        )

program = load(file)
assert vdla.verify(program).ok
inputs = dict(np.load(sys.argv[3]))
with Board(program.config, 1 << 20) as board:
    result = vdla.run(program, inputs, board)
    assert (result.outputs["out"] == expected).all()
    assert result.statistics.total_cycles == 7
    assert result.statistics.to_dict()["macs"] > 0
"""


def in_process(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BLOCKER + script, *arguments], capture_output=True, text=True, check=False
    )


def test_a_program_file_is_verified_and_run_with_numpy_alone(tmp_path):
    import numpy as np

    program, inputs, expected = small_gemm(Config.preset("tiny"))
    program.save(tmp_path / "p.vdla")
    np.save(tmp_path / "out.npy", expected)
    np.savez(tmp_path / "inputs.npz", **inputs)
    done = in_process(SCRIPT, *(str(tmp_path / name) for name in ("p.vdla", "out.npy", "inputs.npz")))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_device_that_needs_a_missing_package_names_it():
    script = "import vdla\nvdla.open_device('sim', vdla.Config.preset('tiny'))"
    done = in_process(script)
    assert "DeviceError: device sim: Python package numba must be installed, got none" in done.stderr


@pytest.mark.parametrize("module", ["compiler.abi", "runtime.native.library", "boards"])
def test_other_modules_for_a_board_import_with_numpy_alone(module):
    done = in_process(f"import vdla.{module}")
    assert (done.returncode, done.stderr) == (0, "")
