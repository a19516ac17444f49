# SPDX-License-Identifier: Apache-2.0
"""Explorations within limits, by objectives, at estimated clocks, with and without extensions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.extension_files import again

import vdla
from vdla.hardware.config import Config
from vdla.hardware.fpga.area import CLOCK, Area, UnitUsage, Usage
from vdla.hardware.fpga.logic_path import LogicPath, PathReport
from vdla.hardware.fpga.parts import FpgaPart
from vdla.runtime.studies.exploration import Exploration
from vdla.runtime.studies.explored_machine import ExploredMachine
from vdla.runtime.studies.figures import FIGURES, limits_of
from vdla.runtime.studies.sweep import ExploreError

LAYER = vdla.definitions.dense(rows=6, in_features=16, out_features=16)
SWEEP = {"block_in": [4, 8], "block_out": [4, 8, 16]}
PART = FpgaPart(name="mine", family="xc7", lut=40_000, lut_memory=9000, ff=60_000, dsp=150, bram36=100)


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Outcomes are kept for this file alone."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vdla.runtime.studies.layer_cycles.user_cache", lambda kind: folder / kind)
        patch.setattr("vdla.hardware.fpga.synthesis.cache_folder", lambda: folder)  # no area is known
        yield


def explored(**options: Any) -> Exploration:
    sweep = options.pop("sweep", SWEEP)
    return vdla.explore([LAYER], "tiny", sweep, **{"part": PART, **options})


def sizes(machines: list[ExploredMachine]) -> list[tuple[Any, ...]]:
    return sorted(tuple(machine.point.values()) for machine in machines)


def luts(machine: ExploredMachine) -> int:
    assert machine.area is not None
    return machine.area.usage.lut


def test_shares_and_amounts_bound_resources() -> None:
    every = explored().measured
    assert len(every) == 6
    for bound in (0.5, 20_000):
        found = explored(most={"lut": bound})
        assert sizes(found.measured) == sizes([machine for machine in every if luts(machine) <= 20_000])
        assert 0 < len(found.measured) < 6
        assert {machine.reason for machine in found.rejected} == {"lut must be at most 20,000"}
        assert all(machine.cycles is None for machine in found.rejected)  # not measured in vain


def test_speed_is_bounded_after_measuring() -> None:
    every = explored().measured
    middle = sorted(machine.frames_per_second for machine in every)[3]
    found = explored(least={"fps": middle})
    assert sizes(found.measured) == sizes([machine for machine in every if machine.frames_per_second >= middle])
    assert {machine.reason for machine in found.rejected} == {f"fps must be at least {middle:,.10g}"}
    assert all(machine.cycles for machine in found.rejected)
    assert not any(row["front"] for row in found.to_dict()["machines"] if row["rejected"])
    latency = explored(most={"latency_ms": 1000.0001 / middle})
    assert sizes(latency.measured) == sizes(found.measured)


@pytest.mark.parametrize("name", FIGURES)
def test_the_best_by_an_objective_comes_first(name: str) -> None:
    found = explored(objectives=[name], energy="45nm")
    figure = FIGURES[name]
    values = [figure.of(machine) for machine in found.measured]
    if name in ("lut_memory", "ff"):
        assert set(values) == {None}  # the model of areas does not have them
    else:
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=figure.more) and len(known) == len(values) == 6


def test_objectives_decide_the_front() -> None:
    fast, both = explored(), explored(objectives=["fps", "fps_per_watt"], energy="45nm")
    assert set(sizes(fast.front)) <= set(sizes(both.front))
    assert "est. fps/W" in both.tables()[0].columns
    one = explored(objectives=["fps_per_lut"])
    assert one.notes()[1].startswith("best fps_per_lut: ")
    worth = [machine.frames_per_second / luts(machine) for machine in fast.measured]
    assert one.front[0].frames_per_second / luts(one.front[0]) == max(worth)


def test_energies_of_machines_are_those_of_the_estimate() -> None:
    found = explored(energy="45nm")
    assert found.energy == explored().energy_by("45nm")
    for machine in found.measured:
        assert machine.energy is not None
        joules = machine.energy.middle / 1e12
        assert FIGURES["fps_per_watt"].of(machine) == pytest.approx(1 / joules)
        assert FIGURES["watts"].of(machine) == pytest.approx(joules * machine.frames_per_second)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"most": {"luts": 3}}, "explore: limit must be one of fps, latency_ms, cycles, mhz, lut, lut_memory, ff, "),
        ({"least": {"fps": -1}}, "explore: limit of fps must be a number from 0, got -1"),
        ({"least": {"fps": float("nan")}}, "explore: limit of fps must be a number from 0, got nan"),
        ({"objectives": ["speed"]}, "explore: objective must be one of fps, latency_ms, "),
        ({"objectives": []}, "explore: objectives must be at least one, got none"),
        ({"objectives": ["uj"]}, r"explore: objective uj must have coefficients of energy \(--energy\), got none"),
        ({"most": {"watts": 2}}, r"explore: limit watts must have coefficients of energy \(--energy\), got none"),
        ({"clock": "fast"}, "explore: clock must be one of given, estimated, got fast"),
        ({"sweep": {"extensions": ["with"]}}, "explore: extensions=with must have extensions of the machine "),
        ({"most": {"dsp": 10}}, "explore: a machine of the sweep must fit mine, got none; dsp must be at most 10"),
        (
            {"most": {"ff": 1}},
            "explore: a machine of the sweep must fit mine, got none; ff must be at most 60,000, which only a ",
        ),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ExploreError, match=f"^{text}"):
        explored(**options)


def test_limits_say_what_they_are() -> None:
    limits = limits_of({"dsp": 0.5, "cycles": 9}, {"dsp": 20}, PART, priced=False)
    texts = ["dsp must be at most 75", "cycles must be at most 9", "dsp must be at least 20"]
    assert [str(limit) for limit in limits] == texts


# --- clocks ---------------------------------------------------------------------------------------


@pytest.fixture
def synthesis(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """Machines are synthesised in no time, with a path of a nanosecond for each input of a lane."""
    made: list[Config] = []

    def area(config: Config, part: FpgaPart, progress: object) -> Area:
        made.append(config)
        path = LogicPath(float(config.block_in), 1, "a", "b", ())
        usage = Usage(lut=1000 * config.block_in, ff=500, dsp=4, bram36=1)
        return Area(config, part, (UnitUsage("top", "top", usage),), PathReport({f"{CLOCK} {CLOCK}": (path,)}), "y")

    monkeypatch.setattr("vdla.runtime.studies.explored_machine.area", area)
    monkeypatch.setattr("vdla.runtime.studies.explored_machine.cached_area", lambda config, part: None)
    return made


def test_the_clock_is_a_result_of_the_estimate(synthesis: list[Config]) -> None:
    found = explored(sweep={"block_in": [4, 8, 16]}, clock="estimated", most={"ff": 0.5}, least={"mhz": 100})
    assert [config.block_in for config in synthesis] == [4, 8, 16]
    areas = [machine.area for machine in found.machines if machine.area is not None]
    assert [area.clock_mhz for area in areas] == [250.0, 125.0, 62.5]
    assert all(area.synthesised and area.clock_estimated for area in areas)
    assert [machine.reason for machine in found.machines] == ["", "", "mhz must be at least 100"]
    for machine, area in zip(found.machines, areas, strict=True):
        assert machine.cycles and machine.frames_per_second == area.clock_mhz * 1e6 / machine.cycles
    assert found.measured[0] is found.machines[0]  # more cycles, but a faster clock
    table = found.tables()[0]
    assert table.rows[0][table.columns.index("MHz")] == "250.0 estimated"
    assert any(note.startswith("clocks estimated: ") for note in found.notes())


def test_without_the_option_the_clock_is_that_of_the_machine(synthesis: list[Config]) -> None:
    given = explored(sweep={"block_in": [4, 8]})
    assert [machine.area.clock_mhz for machine in given.measured if machine.area] == [50.0, 50.0]
    assert "MHz" not in given.tables()[0].columns and not synthesis


def test_what_is_too_large_after_synthesis_is_rejected(synthesis: list[Config]) -> None:
    small = FpgaPart(name="small", family="xc7", lut=30_000, lut_memory=9000, ff=400, dsp=150, bram36=100)
    found = explored(sweep={"block_in": [4]}, clock="estimated", part=small)
    assert [machine.reason for machine in found.machines] == ["small has 400 ff, needed are 500"]


# --- extensions -----------------------------------------------------------------------------------

ALONE = """
import vdla
from vdla import te


def distance(a, b, i):
    return te.sum(te.abs(te.cast("int32", a) - te.cast("int32", b)), axis=i)


def declare(config):
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    i = te.reduce_axis(config.block_in, "i")
    output = te.compute((config.batch, config.block_out), lambda b, o: distance(inp[b, i], wgt[o, i], i), "acc")
    scopes = {"inp": "inp", "wgt": "wgt", "acc": "acc"}
    return vdla.Extension(name="alone", doc="Adds absolute differences.", output=output, scopes=scopes)
"""


def distances() -> vdla.te.Tensor:
    a, b = vdla.te.placeholder((4, 8), "int8", "a"), vdla.te.placeholder((8, 8), "int8", "b")
    k = vdla.te.reduce_axis(8, "k")

    def value(i: Any, j: Any) -> Any:
        return vdla.te.sum(vdla.te.abs(vdla.te.cast("int32", a[i, k]) - vdla.te.cast("int32", b[j, k])), axis=k)

    return vdla.te.compute((4, 8), value, "distance")


def test_machines_with_and_without_extensions(tmp_path: Path) -> None:
    path, other = tmp_path / "again.py", tmp_path / "alone.py"
    path.write_text(again())
    other.write_text(ALONE)
    machine = vdla.extend(Config.preset("tiny"), str(path))
    found = vdla.explore([LAYER], machine, {"extensions": ["with", "without", str(other)]}, beside=[str(path)])
    assert [one.area.complete for one in found.machines if one.area] == [False, True, False]
    assert [one.reason for one in found.machines] == ["", "", ""]
    plain = vdla.explore([LAYER], "tiny", {"extensions": ["none"]})
    assert found.machines[1].cycles == plain.machines[0].cycles


def test_a_layer_that_only_the_extension_runs(tmp_path: Path) -> None:
    path = tmp_path / "alone.py"
    path.write_text(ALONE)
    layers = [distances(), LAYER]
    without, extended = vdla.explore(layers, "tiny", {"extensions": ["none", str(path)]}).machines
    assert without.cycles is None
    assert without.reason.startswith("evaluate: the machine must run layer distance, got none; gemm: the value must ")
    verdict = vdla.evaluate(path, layers, "tiny", workers=0)
    chosen = [layer.chosen for layer in verdict.layers]
    assert extended.cycles == sum(cost.cycles for cost in chosen if cost is not None)
