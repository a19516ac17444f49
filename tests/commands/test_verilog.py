# SPDX-License-Identifier: Apache-2.0
"""`vdla verilog` writes all files of a machine in reading order."""

from __future__ import annotations

from pathlib import Path

import pytest

from vdla.cli import main
from vdla.hardware.generate.rtl_files import rtl_files

Capture = pytest.CaptureFixture[str]


def test_the_folder_has_the_packages_the_modules_and_the_wrapper(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "rtl"
    assert main(["verilog", "--preset", "tiny", "--address-bits", "32", "-o", str(folder)]) == 0
    listed = (folder / "files.f").read_text().split()
    assert sorted(listed) == sorted(path.name for path in folder.iterdir() if path.name not in ("files.f", "LICENSE"))
    assert listed[0] == "vdla_pkg.sv"
    assert listed[-1] == "vdla_ip.v"
    assert {path.name for path in rtl_files()} < set(listed)
    assert "Configuration tiny" in (folder / "vdla_pkg.sv").read_text()
    assert "[31:0]  m_axi_araddr" in (folder / "vdla_ip.v").read_text()
    out = capsys.readouterr().out
    assert out == f"{folder}: {len(listed)} files, in order in files.f; the top for block designs is vdla_ip\n"


def test_the_licence_is_beside_the_files_and_the_users_own_stays(root: Path, tmp_path: Path) -> None:
    assert main(["verilog", "--preset", "tiny", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "LICENSE").read_bytes() == (root / "LICENSE").read_bytes()
    (tmp_path / "LICENSE").write_text("mine")
    assert main(["verilog", "--preset", "tiny", "-o", str(tmp_path)]) == 0
    assert (tmp_path / "LICENSE").read_text() == "mine"


def test_an_output_that_is_a_file_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "file").write_text("")
    assert main(["verilog", "-o", str(tmp_path / "file")]) == 2
    assert capsys.readouterr().err == f"vdla: {tmp_path}/file: output must be a folder, got a file\n"


def test_a_prefix_renames_the_modules_the_packages_and_their_files(tmp_path: Path, capsys: Capture) -> None:
    assert main(["verilog", "--preset", "tiny", "--prefix", "left_", "-o", str(tmp_path)]) == 0
    listed = (tmp_path / "files.f").read_text().split()
    assert all(name.startswith("left_vdla") for name in listed)
    assert "  left_vdla #(" in (tmp_path / "left_vdla_ip.v").read_text()
    assert capsys.readouterr().out.endswith("the top for block designs is left_vdla_ip\n")


def test_a_prefix_that_begins_no_name_is_refused(tmp_path: Path, capsys: Capture) -> None:
    assert main(["verilog", "--prefix", "2x-", "-o", str(tmp_path)]) == 2
    wanted = "vdla: verilog: prefix must be letters, digits and underscores, the first no digit, got '2x-'\n"
    assert capsys.readouterr().err == wanted
