# SPDX-License-Identifier: Apache-2.0
"""`vdla board`: the table of boards, the folder for Vivado, wrong words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vdla.boards.board import FOLDER, board_names
from vdla.cli import main

Capture = pytest.CaptureFixture[str]


def test_the_list_has_a_line_for_each_preset_of_a_board(capsys: Capture) -> None:
    assert main(["board", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:] if not line.startswith(" ")] == board_names()
    assert [line.split()[-1] for line in lines[2:]] == [
        "aup_zu3", "kr260", "kv260", "kv260_lm", "pynq_z1", "pynq_z1_512", "pynq_z1_512x2", "pynq_z1_lm", "pynq_z2",
        "ultra96", "zcu104", "zybo_z7_20",
    ]  # fmt: skip
    assert lines[6].split() == ["pynq_z1", "xc7z020clg400-1", "100", "HP0", "x", "64", "0x43c00000", "pynq_z1"]
    assert max(map(len, lines)) <= 80


def test_the_list_as_json_has_every_field(capsys: Capture) -> None:
    assert main(["board", "list", "--json"]) == 0
    boards = {board["name"]: board for board in json.loads(capsys.readouterr().out)}
    assert list(boards) == board_names()
    assert boards["kv260"]["dram_bytes"] == 4 << 30


def test_the_folder_has_scripts_and_rtl(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "out"
    assert main(["board", "vivado", "pynq_z1", "--preset", "pynq_z1_512x2", "-o", str(folder)]) == 0
    assert {"README.md", "build.tcl", "settings.tcl", "constraints.xdc", "rtl"} < {one.name for one in folder.iterdir()}
    files = sum(path.is_file() and path.name != "LICENSE" for path in folder.rglob("*"))
    assert capsys.readouterr().out == (
        f"{folder}: {files} files for pynq_z1_512x2 on PYNQ-Z1\n"
        f"next, with Vivado 2022.1 or later: cd {folder} && vivado -mode batch -source build.tcl\n"
    )
    assert "Apache License" in (folder / "LICENSE").read_text()
    assert "multipliers at 200 MHz" in (folder / "README.md").read_text()
    assert "never been run" in (folder / "README.md").read_text()


def test_a_machine_of_a_file_is_taken_if_it_fits_the_board(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"name": "my machine", "wgt_kib": 128}))
    assert main(["board", "vivado", "pynq_z2", "--config", str(path), "-o", str(tmp_path / "out")]) == 0
    assert "set preset {my machine}" in (tmp_path / "out" / "settings.tcl").read_text()
    path.write_text(json.dumps({"name": "quick", "clock_mhz": 200}))
    assert main(["board", "vivado", "pynq_z2", "--config", str(path), "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "vdla: board pynq_z2: clock of quick must be 100 MHz, got 200 MHz\n"


def test_the_file_of_a_board_is_a_machine_of_other_commands(tmp_path: Path, capsys: Capture) -> None:
    program = tmp_path / "d.vdla"
    words = ["compile", "dense", "--shape", "rows=16", "in_features=16", "out_features=16", "-o", str(program)]
    assert main([*words, "--config", str(FOLDER / "zybo_z7_20" / "board.json")]) == 0
    assert "dense for zybo_z7_20" in capsys.readouterr().out
    assert main(["verify", str(program), "--for", "pynq_z1"]) == 0  # by its fingerprint


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (
            ["vivado", "pynq_z3", "-o", "x"],
            "board: name must be one of aup_zu3, kr260, kv260, pynq_z1, pynq_z2, ",
        ),
        (
            ["vivado", "kv260", "--preset", "zcu104", "-o", "x"],
            "board kv260: preset must be one of kv260, kv260_lm, got zcu104",
        ),
        (["lst"], "board: argument SUBCOMMAND: invalid choice: 'lst'"),
    ],
)
def test_wrong_words_are_refused(words: list[str], error: str, capsys: Capture) -> None:
    try:
        code: object = main(["board", *words])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert capsys.readouterr().err.startswith(f"vdla: {error}")


def test_debug_is_an_option_of_subcommands(capsys: Capture) -> None:
    assert main(["board", "vivado", "nobody", "-o", "x", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err
