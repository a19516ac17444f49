# SPDX-License-Identifier: Apache-2.0
"""The notebooks of an overlay's package: delivered by PYNQ, and executed on a virtual board.

They import the wheels alone, without compiler and simulator; the network is compiled for the
processor of this machine instead of the board's.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

pytest.importorskip("pynq", reason="pynq is not installed (make test-board)")

import nbformat
from helpers.notebooks import executed
from helpers.virtual_boards import virtual_board

from vdla.boards.board import load_board
from vdla.boards.on_board_wheel import build_wheel
from vdla.boards.overlay_files import write_overlay
from vdla.boards.overlay_package import NOTEBOOKS, OverlayPackage
from vdla.commands.board.package_examples import package_examples
from vdla.runtime.diagnosis.check_programs import simulated_programs
from vdla.runtime.diagnosis.known_program import known_bytes

Z2 = load_board("pynq_z2")
CONFIG = Z2.config()
NAMES = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
SAID = {
    "1_selftest": ("self-test of pynq as pynq_z2", "everything works"),
    "2_program": ("equal: True\nequal: True\nequal: True", "5080 cycles, 50.8 us at 100 MHz"),
    "3_network": ("as simulated: True", "7858 cycles of the accelerator", "20 runs"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both wheels installed."""
    folder = tmp_path_factory.mktemp("package")
    path = write_overlay(Z2, CONFIG, folder / "built")
    package = OverlayPackage(
        board=Z2,
        config=CONFIG,
        build="0123456789ab",
        bitstream=path.read_bytes(),
        handoff=path.with_suffix(".hwh").read_bytes(),
        examples=package_examples(CONFIG, "host"),
        programs=known_bytes(simulated_programs(CONFIG)),
    )
    wheels = [build_wheel(folder), package.write(folder)]
    pip = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", folder / "site", *wheels], check=True)
    return folder / "site"


@pytest.fixture
def board(site: Path) -> Iterator[None]:
    """A virtual board, for processes that have the wheels and no other VDLA."""
    with virtual_board(CONFIG, "pynq_z2") as address:
        environment = {"PYNQ_REMOTE_DEVICES": address, "PYTHONPATH": str(site)}
        with mock.patch.dict(os.environ, environment):
            yield


@pytest.fixture
def delivered(board: None, tmp_path: Path) -> Path:
    """The folder that `pynq get-notebooks` makes."""
    command = [Path(sys.executable).with_name("pynq"), "get-notebooks", "vdla_pynq_z2", "--path", "notebooks"]
    done = subprocess.run(command, input="y\n", capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    return tmp_path / "notebooks" / "vdla_pynq_z2"


def test_the_notebooks_run_on_a_virtual_board(delivered: Path) -> None:
    assert sorted(path.stem for path in delivered.glob("*.ipynb")) == NAMES == sorted(SAID)
    for name in NAMES:
        text = executed((delivered / f"{name}.ipynb").read_text(encoding="utf-8"), delivered)
        cells = nbformat.reads(text, as_version=4).cells
        said = "".join(output.get("text", "") for cell in cells for output in cell.get("outputs", ()))
        assert [part for part in SAID[name] if part not in said] == [], said


def test_pynq_loads_the_bitstream_by_its_name(board: None, tmp_path: Path) -> None:
    source = "from pynq import Overlay\nprint(hex(Overlay('pynq_z2.bit').vdla_0.read(0)))"
    command = [sys.executable, "-W", "ignore", "-c", source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout) == (0, "0x56444c41\n"), done.stderr
