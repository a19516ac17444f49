# SPDX-License-Identifier: Apache-2.0
"""The benchmark of areas: which machines it has, and a path's share of its clock's period."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vdla.benchmarks import area as benchmark
from vdla.hardware.config import PRESETS, Config
from vdla.hardware.fpga.area import Area, UnitUsage, Usage
from vdla.hardware.fpga.logic_path import LogicPath, PathReport
from vdla.hardware.fpga.parts import FpgaPart, part_of_preset
from vdla.hardware.fpga.synthesis import Progress

UNIT = UnitUsage("vdla", "vdla", Usage(lut=532, ff=60, dsp=4, bram36=1.5))


def path(ns: float) -> tuple[LogicPath, ...]:
    return (LogicPath(ns, 3, "a_q", "b_q", ("FDRE(1)", "FDRE")),)


def synthesised(config: Config, part: FpgaPart, progress: Progress) -> Area:
    """A result by hand: 4 ns, and with two clocks 3 ns to the faster one."""
    progress("coarse", 1, 2)
    paths = {"clk_i clk_i": path(4.0)}
    if config.array_rate == 2:
        paths |= {"clk2x_i clk2x_i": path(2.5), "clk_i clk2x_i": path(3.0)}
    return Area(config=config, part=part, units=(UNIT,), paths=PathReport(paths), yosys="0.70")


@pytest.fixture(autouse=True)
def _by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "area", synthesised)


@pytest.mark.parametrize(
    ("name", "period_ns", "fast_ns", "share"),
    [
        ("pynq_z1", 10.0, 0.0, 0.4),
        ("pynq_z1_512", 10.0, 3.0, 0.6),  # 3 ns of the multipliers' 5 are more than 4 of 10
        ("ultra96", 6.0, 0.0, 0.667),
        ("osdi18", 5.0, 0.0, 0.8),
    ],
)
def test_the_share_is_of_the_clock_where_it_is_greatest(
    name: str, period_ns: float, fast_ns: float, share: float
) -> None:
    row = benchmark.run(preset=name).rows[0]
    assert (row["period_ns"], row["path_ns"], row["fast_ns"], row["share"]) == (period_ns, 4.0, fast_ns, share)
    assert row["lut_share"] == round(532 / part_of_preset(name).lut, 3)
    assert (row["ff"], row["dsp"], row["bram36"], row["uram"]) == (60, 4, 1.5, 0)


def test_the_short_form_has_both_kinds_of_clocks_and_the_long_form_every_preset() -> None:
    short, long = benchmark.run(), benchmark.run(long=True)
    assert [row["machine"] for row in short.rows] == ["pynq_z1", "pynq_z1_512"]
    assert [row["machine"] for row in long.rows] == list(PRESETS)
    assert (short.figures["pynq_z1_512_share"], short.figures["pynq_z1_lut"]) == (0.6, 532)
    assert long.receipt["command"] == "vdla bench area --long --json -"
    assert long.receipt["configs"] == {name: config.fingerprint for name, config in PRESETS.items()}


def test_one_machine_that_does_not_fit_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    luts = {"pynq_z1": 532, "pynq_z1_512": 532}
    monkeypatch.setattr(benchmark, "_part", lambda name, _: replace(part_of_preset(name), lut=luts[name]))
    assert benchmark.run().figures["fits"] == 1
    luts["pynq_z1_512"] = 531
    result = benchmark.run()
    assert (result.figures["fits"], [row["fits"] for row in result.rows]) == (0, [1, 0])


@pytest.mark.parametrize(
    ("name", "paths", "blocks", "fits"),
    [
        ("pynq_z1", {"clk_i clk_i": 10.0}, {}, 1),
        ("pynq_z1", {"clk_i clk_i": 10.01}, {}, 0),
        ("pynq_z1", {"clk_i clk_i": 9.0}, {"clk_i": 10.1}, 0),
        ("pynq_z1_512", {"clk_i clk_i": 9.0, "clk_i clk2x_i": 5.0}, {"clk2x_i": 5.0}, 1),
        ("pynq_z1_512", {"clk_i clk_i": 9.0, "clk_i clk2x_i": 5.01}, {}, 0),
        ("pynq_z1_512", {"clk_i clk_i": 9.0}, {"clk2x_i": 5.1}, 0),
        ("ultra96", {"clk_i clk_i": 6.01}, {}, 0),
        ("osdi18", {"clk_i clk_i": 9.4}, {}, 1),  # 5 ns, but on no board
    ],
)
def test_a_preset_of_a_board_also_keeps_the_boards_clock(
    name: str, paths: dict[str, float], blocks: dict[str, float], fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = PathReport({clocks: path(ns) for clocks, ns in paths.items()}, period_ns=blocks)

    def found(config: Config, part: FpgaPart, progress: Progress) -> Area:
        return Area(config=config, part=part, units=(UNIT,), paths=report, yosys="0.70")

    monkeypatch.setattr(benchmark, "area", found)
    result = benchmark.run(preset=name)
    assert (result.figures["fits"], result.rows[0]["fits"]) == (fits, fits)
    assert result.rows[0]["board"] == {"ultra96": "ultra96_v2", "osdi18": "-"}.get(name, "pynq_z1")


def test_the_progress_runs_through_all_machines() -> None:
    steps: list[tuple[str, int, int]] = []
    benchmark.run(lambda *step: steps.append(step))
    assert steps == [
        ("pynq_z1", 0, 2),
        ("pynq_z1: coarse", 1, 4),
        ("pynq_z1_512", 1, 2),
        ("pynq_z1_512: coarse", 3, 4),
        ("done", 2, 2),
    ]
