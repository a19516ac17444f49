# SPDX-License-Identifier: Apache-2.0
"""What the flow refuses, each with its text, and what the model of Vivado refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.recorded_vivado import run_flow, write_flow

from vdla.boards.board import Board, load_board


@pytest.fixture(scope="module")
def board() -> Board:
    return load_board("pynq_z2")


@pytest.fixture
def folder(board: Board, tmp_path: Path) -> Path:
    write_flow(board, board.config(), tmp_path)
    return tmp_path


def written(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.suffix in (".bit", ".hwh")]


def test_a_design_that_misses_its_timing_writes_nothing(board: Board, folder: Path) -> None:
    recorded = run_flow(folder, board, slack="-0.001")
    assert recorded.code != 0
    text = "worst slack of delay type max must be at least 0 ns, got -0.001 ns; see build/timing.rpt"
    assert f"implement: {text}" in recorded.error
    assert written(folder) == []
    assert all("-to_step" not in words for words in recorded.of("launch_runs"))


def test_a_design_with_paths_that_are_not_timed_writes_nothing(board: Board, folder: Path) -> None:
    recorded = run_flow(folder, board, unconstrained=3)
    assert recorded.code != 0
    text = "design must have 0 unconstrained_internal_endpoints, got 3; see build/check_timing.rpt"
    assert f"implement: {text}" in recorded.error
    assert written(folder) == []


@pytest.mark.parametrize("version", ["2021.2", "2019.1"])
def test_an_old_vivado_is_refused(board: Board, folder: Path, version: str) -> None:
    recorded = run_flow(folder, board, version=version)
    assert f"vivado: version must be 2022.1 or later, got {version}" in recorded.error
    assert (recorded.code != 0, recorded.calls) == (True, [])


@pytest.mark.parametrize("version", ["2022.1.2", "2022.2", "2024.1"])
def test_later_versions_are_taken(board: Board, folder: Path, version: str) -> None:
    assert run_flow(folder, board, version=version).code == 0


def test_missing_board_files_are_named_with_their_source(board: Board, folder: Path) -> None:
    recorded = run_flow(folder, board, parts="xilinx.com:zcu104:part0:1.1")
    text = "board files of tul.com.tw:pynq-z2:part0 must be installed, got none; they are at"
    assert f"vivado: {text} {board.board_files}" in recorded.error
    assert recorded.code != 0


def test_the_newest_board_files_are_used(board: Board, folder: Path) -> None:
    installed = "tul.com.tw:pynq-z2:part0:1.0 tul.com.tw:pynq-z2:part0:1.10 tul.com.tw:pynq-z2:part0:1.2"
    recorded = run_flow(folder, board, parts=installed)
    assert ["board_part", "tul.com.tw:pynq-z2:part0:1.10", "current_project"] in recorded.of("set_property")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("create_bd_cel x", 'invalid command name "create_bd_cel"'),
        ("create_project -folder x y", "create_project: option must be known, got -folder"),
        ("check_timing -files x", "check_timing: option must be known, got -files"),
        ("add_files /nowhere.v", "add_files: file must exist, got /nowhere.v"),
        ("get_bd_pins nobody/aclk", "get_bd_pins: cell of nobody/aclk must exist"),
    ],
)
def test_the_model_refuses_what_it_does_not_know(board: Board, folder: Path, line: str, error: str) -> None:
    script = folder / "build.tcl"
    script.write_text(f"{script.read_text()}\n{line}\n")
    recorded = run_flow(folder, board)
    assert recorded.code != 0
    assert error in recorded.error


def test_a_missing_file_of_the_rtl_stops_the_flow(board: Board, folder: Path) -> None:
    (folder / "rtl" / "vdla_fifo.sv").unlink()
    recorded = run_flow(folder, board)
    assert "add_files: file must exist" in recorded.error
