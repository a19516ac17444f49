# SPDX-License-Identifier: Apache-2.0
"""`vdla board package`: from a bitstream to two wheels; mistakes are said before work begins."""

from __future__ import annotations

import json
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from vdla.boards.board import load_board
from vdla.boards.overlay_files import write_overlay
from vdla.cli import main
from vdla.commands.board.package_examples import package_examples
from vdla.compiler.extensions import extend
from vdla.hardware.config import Config
from vdla.runtime.devices import open_device
from vdla.runtime.devices.run import run
from vdla.runtime.executor.load import load
from vdla.support.version import VERSION

Capture = pytest.CaptureFixture[str]
Z2 = load_board("pynq_z2")


def test_the_command_writes_both_wheels(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vdla.boards.board.board_names", lambda: ("pynq_z2",))
    monkeypatch.chdir(tmp_path)
    path = write_overlay(Z2, Z2.config(), tmp_path)
    path.with_suffix(".hwh").rename(tmp_path / "other.hwh")
    words = ["board", "package", "pynq_z2", "--bitstream", "pynq_z2.bit", "--hwh", "other.hwh"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    board, overlay = (Path(line.removeprefix("wrote ")) for line in lines[:2])
    assert board == Path("dist", f"vdla_board-{VERSION}-py3-none-any.whl")
    assert overlay.name.startswith(f"vdla_pynq_z2-{VERSION}+bit")
    assert lines[2:] == [
        "pynq_z2.bit is of the virtual board: a real one does not load it",
        "next, with both on the board and as root: pip3 install --no-index vdla_*.whl && pynq get-notebooks "
        "vdla_pynq_z2",
    ]
    with zipfile.ZipFile(overlay) as archive:
        assert archive.read("vdla_pynq_z2/pynq_z2/pynq_z2.bit") == path.read_bytes()
        assert archive.read("vdla_pynq_z2/notebooks/digits.vdla")[:8] == b"VDLAMODL"


def test_the_examples_are_those_of_the_simulator(tmp_path: Path) -> None:
    for name, content in package_examples(Config.preset("tiny"), "host").items():
        (tmp_path / name).write_bytes(content)
    program = load(tmp_path / "dense.vdla")
    arrays = dict(np.load(tmp_path / "dense.npz"))
    expected = arrays.pop("expected")
    assert (run(program, arrays, "sim").outputs["output"] == expected).all() and len(np.unique(expected)) > 100
    digits = np.load(BytesIO((tmp_path / "digits.npz").read_bytes()))
    with open_device("sim", program.config) as device, load(tmp_path / "digits.vdla", device=device) as model:
        logits = np.concatenate([model(image[None]) for image in digits["images"]])
    assert np.array_equal(logits, digits["logits"])
    assert (logits.argmax(axis=1) == digits["labels"]).mean() > 0.8


def test_a_machine_of_a_file(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has another name than the preset in the handoff file, and the same hardware."""
    monkeypatch.setattr("vdla.boards.board.board_names", lambda: ("pynq_z2",))
    path = write_overlay(Z2, Z2.config(), tmp_path)
    machine = tmp_path / "mine.json"
    machine.write_text(json.dumps({**Z2.config().to_dict(), "name": "mine"}))
    words = ["board", "package", "pynq_z2", "--config", str(machine), "--bitstream", str(path), "-o", str(tmp_path)]
    assert main(words) == 0
    assert any(one.name.startswith("vdla_mine-") for one in tmp_path.glob("*.whl"))
    capsys.readouterr()


def test_wrong_files_cost_nothing(tmp_path: Path, capsys: Capture) -> None:
    path = write_overlay(Z2, Z2.config(), tmp_path)
    words = ["board", "package", "zcu104", "--bitstream", str(path), "-o", str(tmp_path / "dist")]
    assert main(words) == 2
    handoff = path.with_suffix(".hwh")
    text = "machine must be one of zcu104, got pynq_z2; give --config for another"
    assert capsys.readouterr().err == f"vdla: {handoff}: {text}\n"
    assert not (tmp_path / "dist").exists()


def test_a_machine_with_extensions_is_refused(tmp_path: Path, capsys: Capture) -> None:
    extension = Path(__file__).parents[2] / "examples" / "depthwise" / "depthwise.py"
    machine = extend(Z2.config(), extension)
    path = write_overlay(Z2, machine, tmp_path)
    words = ["board", "package", "pynq_z2", "--extension", str(extension), "--bitstream", str(path)]
    assert main([*words, "--preset", "pynq_z2", "-o", str(tmp_path / "dist")]) == 2
    assert capsys.readouterr().err == (
        "vdla: board package: machine must be without extensions, which the wheel for boards lacks, got "
        "dw, dw_taps, dw_factors, dw_clear; drive the board from a computer, with vdla run --device pynq\n"
    )
    assert not (tmp_path / "dist").exists()
