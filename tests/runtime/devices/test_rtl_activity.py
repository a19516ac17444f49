# SPDX-License-Identifier: Apache-2.0
"""The counters of events in the RTL: they equal the counts from instructions, on every machine."""

from __future__ import annotations

import pytest
from helpers.extended_rtl import EXTENDED, extended, model_of
from helpers.seeds import ALL

from vdla.hardware.config import Config
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.run import run
from vdla.simulator.energy import Action, activity_of
from vdla.verification.programs.random_data import random_arrays
from vdla.verification.programs.random_machines import MACHINES
from vdla.verification.programs.random_programs import random_verified_program

pytestmark = pytest.mark.rtl

TINY = Config.preset("tiny")
LENGTHS = (60, 90, 25, 1, 40, 2)
KINDS = ("row", "double_group", "four_ports")  # no adder tree; multipliers at twice the clock; ports, odd bursts
"""The machines whose counters differ in kind from those of `tiny`; a release tries all."""
OTHERS = [
    pytest.param(config, marks=pytest.mark.long)
    for config in MACHINES
    if config.name in KINDS or (ALL and config.name != "tiny")
]


def differing(config, programs, model=None):
    """(Program, event, of the RTL, of the instructions) for every difference."""
    result = []
    with RtlDevice(config, 1 << 24, activity=True, model=model) as device:
        for seed in range(programs):
            program = random_verified_program(config, seed, LENGTHS[seed % len(LENGTHS)])
            run(program, random_arrays(program, seed), device)
            counted, expected = device.activity_counts(), activity_of(program).total
            events = counted.keys() | expected.keys()
            result += [
                (seed, str(event), counted.get(event, 0), expected.get(event, 0))
                for event in events
                if counted.get(event, 0) != expected.get(event, 0)
            ]
    return result


@pytest.mark.sampled
@pytest.mark.parametrize("config", [TINY, *OTHERS], ids=lambda config: config.name)
def test_random_programs_count_in_the_rtl_as_from_their_instructions(config):
    assert differing(config, 20) == []


@pytest.mark.sampled
@pytest.mark.long
@pytest.mark.parametrize("kind", EXTENDED)
def test_extensions_count_in_the_rtl_as_from_their_instructions(kind, tmp_path):
    config = extended(kind, tmp_path)
    assert differing(config, 20, model_of(config)) == []


def test_back_pressure_changes_no_count_and_buffers_stay_readable():
    program = random_verified_program(TINY, 4, 40)
    arrays = random_arrays(program, 4)
    with RtlDevice(TINY, 1 << 20, activity=True, stalls=7) as device:
        run(program, arrays, device)
        first = device.activity_counts()
        run(program, arrays, device)
        assert device.activity_counts() == first == activity_of(program).total
        assert len(device.contents()) == 6


def test_a_model_without_counters_says_how_to_get_them():
    with RtlDevice(TINY, 1 << 20) as device, pytest.raises(DeviceError) as caught:
        device.activity_counts()
    assert str(caught.value) == "device rtl: events must be counted by a model with activity=True, got one without"


def test_counts_are_of_the_last_run():
    programs = [random_verified_program(TINY, seed, 25) for seed in (1, 2)]
    with RtlDevice(TINY, 1 << 20, activity=True) as device:
        for program in programs:
            run(program, random_arrays(program, 1), device)
            assert device.activity_counts() == activity_of(program).total
        assert any(event.action is Action.READ for event in device.activity_counts())
