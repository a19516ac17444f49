# SPDX-License-Identifier: Apache-2.0
"""Estimates: published figures by hand, what lies between them, files of coefficients."""

from __future__ import annotations

import json

import pytest

from vdla.hardware.config import Config
from vdla.simulator.energy import Action, EnergyError, MachineEvent, Picojoules, activity_of, energy_of, energy_table
from vdla.simulator.energy.coefficients import NM_7, NM_45, TABLES
from vdla.simulator.energy.estimate import STATIC, summed_energy
from vdla.simulator.energy.table import table_of
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program

TINY, PYNQ = Config.preset("tiny"), Config.preset("pynq_z1")
OWN = {
    "name": "board",
    "source": "measured",
    "add": {"32": 1.0},
    "multiply": {"8": 2.0},
    "memory": {"16": 8.0},
    "dram": [100, 200, 400],
    "error": 1.5,
    "static_mw": 50,
}


@pytest.mark.parametrize(
    ("event", "middle"),
    [
        (MachineEvent("array", Action.MULTIPLY, 8, 8), 0.2),
        (MachineEvent("accumulator", Action.MULTIPLY, 32, 32), 3.1),
        (MachineEvent("array", Action.ADD, 8), 0.03),
        (MachineEvent("accumulator", Action.ADD, 32), 0.1),
        (MachineEvent("inp", Action.READ, 64), 20.0),  # of 32 KiB
        (MachineEvent("inp", Action.WRITE, 128), 40.0),
    ],
)
def test_what_a_source_gives_is_priced_as_it_gives_it(event, middle):
    assert PYNQ.inp_kib == 32
    low, got, high = NM_45.picojoules(event, PYNQ)
    assert (low, got, high) == pytest.approx((middle / 2, middle, 2 * middle))


def test_between_and_beyond_the_points_lines_in_logarithms_hold():
    """A multiplication grows nearly with the product of its widths, a small memory with a root."""
    price = lambda *bits: NM_45.picojoules(MachineEvent("array", Action.MULTIPLY, *bits), TINY)[1]  # noqa: E731
    assert price(8, 4) == pytest.approx(0.2 * (0.5**0.5) ** 1.977, rel=1e-3)
    assert 0.2 < price(16, 8) < price(16, 16) < price(32, 16) < 3.1
    assert NM_45.picojoules(MachineEvent("inp", Action.READ, 64), TINY)[1] == pytest.approx(10 / 8**0.5)  # 1 KiB


def test_dram_has_the_range_of_its_source():
    event = MachineEvent("dram", Action.READ, 32)
    assert NM_45.picojoules(event, TINY) == (650.0, 975.0, 1300.0)
    assert NM_7.picojoules(event, TINY) == (325.0, 650.0, 1300.0)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_event_of_a_machine_but_bursts_and_steps_has_a_price(table):
    program = gemm_program(GemmTiling(PYNQ, 8, 16, 16, 4, 1))
    energy = energy_of(activity_of(program).total, PYNQ, table)
    assert {event.action for event in energy.unpriced} == {Action.BURST}
    assert energy.total.low < energy.total.middle < energy.total.high
    assert energy.total.middle == pytest.approx(sum(part.middle for part in energy.parts.values()))


def test_counts_are_multiplied_and_parts_add_up():
    counts = {
        MachineEvent("dram", Action.READ, 64): 3,
        MachineEvent("dram", Action.WRITE, 64): 1,
        MachineEvent("array", Action.MULTIPLY, 8, 8): 100,
        MachineEvent("sad", Action.STEP): 7,
    }
    energy = energy_of(counts, PYNQ, NM_45)
    assert energy.parts["dram"] == Picojoules(5200.0, 7800.0, 10400.0)
    assert energy.parts["array"].middle == pytest.approx(20.0)
    assert list(energy.unpriced) == [MachineEvent("sad", Action.STEP)]
    twice = summed_energy([energy, energy])
    assert twice.total.high == pytest.approx(2 * energy.total.high)
    assert twice.counts[MachineEvent("sad", Action.STEP)] == 14


def test_no_text_is_without_the_word_estimated():
    energy = energy_of({MachineEvent("dram", Action.READ, 64): 1000}, PYNQ, NM_45)
    assert str(energy) == "1.95 uJ estimated (1.3 to 2.6) by 45nm"
    assert str(energy.total) == "1.95 uJ estimated (1.3 to 2.6)"
    assert str(Picojoules(0.0, 0.0, 0.0)) == "0 pJ estimated (0 to 0)"
    assert str(Picojoules(0.5e12, 1.5e12, 3e12)) == "1.5 J estimated (0.5 to 3)"


def test_documents_have_the_name_of_the_coefficients_and_the_counts():
    document = energy_of({MachineEvent("dram", Action.READ, 64): 1, MachineEvent("reads", Action.BURST): 1}, PYNQ, NM_7)
    content = json.loads(json.dumps(document.to_dict()))
    assert content["coefficients"] == "7nm"
    assert "ISCA 2021" in content["source"]
    assert content["estimated_pj"] == 1300.0
    assert content["without_coefficient"] == ["reads burst"]
    assert len(content["events"]) == 2


# --- files ----------------------------------------------------------------------------------------


def test_a_file_has_coefficients_of_a_board_and_its_static_power(tmp_path):
    path = tmp_path / "board.json"
    path.write_text(json.dumps(OWN))
    table = energy_table(path)
    assert table.name == "board"
    assert table.picojoules(MachineEvent("array", Action.MULTIPLY, 16, 16), TINY)[1] == pytest.approx(8.0)
    assert table.picojoules(MachineEvent("array", Action.ADD, 16), TINY)[1] == pytest.approx(0.5)
    assert table.picojoules(MachineEvent("inp", Action.READ, 64), TINY)[1] == pytest.approx(8.0)
    energy = energy_of({}, TINY, table, cycles=50_000)  # 1 ms at 50 MHz
    assert energy.parts[STATIC].middle == pytest.approx(50e6)  # 50 uJ


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"add": {}}, "add must be a table of pJ by bits, got {}"),
        ({"add": {"x": 1}}, "add must be a table of pJ by bits, got {'x': 1}"),
        ({"memory": {"8": -1}}, "memory must be a table of pJ by KiB, got {'8': -1}"),
        ({"dram": [1, 2]}, "dram must be the least, middle and most pJ of 64 bits, got [1, 2]"),
        ({"dram": [1, 2, True]}, "dram must be the least, middle and most pJ of 64 bits, got [1, 2, True]"),
        ({"error": 0.5}, "error must be a factor of at least 1, got 0.5"),
        ({"static_mw": -1}, "static_mw must be a power from 0, got -1"),
        ({"source": ""}, "source must be a text, got ''"),
        (
            {"leakage": 1},
            "fields must be name, source, add, multiply, memory, dram, error, static_mw, leakage is not known",
        ),
    ],
)
def test_wrong_fields_are_refused_with_the_rule(change, message):
    with pytest.raises(EnergyError) as caught:
        table_of({**OWN, **change}, "own.json")
    assert str(caught.value) == f"energy own.json: {message}"


def test_missing_fields_and_files_are_refused(tmp_path):
    with pytest.raises(EnergyError, match="error is not given"):
        table_of({name: value for name, value in OWN.items() if name != "error"})
    with pytest.raises(EnergyError, match=r"none\.json: no such file"):
        energy_table(tmp_path / "none.json")
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(EnergyError, match="content must be a table of fields"):
        energy_table(tmp_path / "list.json")


def test_an_unknown_name_lists_the_choices():
    with pytest.raises(EnergyError) as caught:
        energy_table("45mm")
    text = "energy: coefficients must be one of 45nm, 7nm or a .json file, got 45mm (did you mean 45nm?)"
    assert str(caught.value) == text
    assert energy_table(NM_45) is NM_45
