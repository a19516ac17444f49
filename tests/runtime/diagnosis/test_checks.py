# SPDX-License-Identifier: Apache-2.0
"""The checks of the self-test: all presets pass, and each kind of fault is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vdla.hardware.config import PRESETS, Config
from vdla.hardware.program import Program
from vdla.runtime.devices import Device, DeviceError
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.sim import SimDevice
from vdla.runtime.diagnosis.check_programs import simulated_programs, test_programs
from vdla.runtime.diagnosis.device_checks import CheckOutcome, CheckState, check_device
from vdla.simulator.stats import RunStats
from vdla.simulator.verify import verify

TINY = Config.preset("tiny")


def outcomes(device: Device) -> dict[str, CheckOutcome]:
    with device:
        return {outcome.name: outcome for outcome in check_device(device, simulated_programs(device.config))}


def failures(device: Device) -> dict[str, str]:
    return {name: outcome.detail for name, outcome in outcomes(device).items() if outcome.failed}


@pytest.mark.parametrize("preset", ["tiny", "int4", "batch4", "pynq_z1", "zcu104", "pynq_z1_512x2"])
def test_the_simulator_passes(preset: str) -> None:
    found = outcomes(SimDevice(Config.preset(preset)))
    assert len(found) == 13
    assert found.pop("registers") == CheckOutcome("registers", CheckState.ABSENT, "device sim shows none")
    assert all(outcome.verdict is CheckState.OK for outcome in found.values()), found


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_has_verified_programs(preset: str) -> None:
    assert all(verify(each.program).ok for each in test_programs(Config.preset(preset)))


@pytest.mark.rtl
def test_the_rtl_passes_and_says_its_build() -> None:
    found = outcomes(RtlDevice(TINY))
    assert all(outcome.verdict is CheckState.OK for outcome in found.values()), found
    assert found["registers"].detail.startswith(f"fingerprint {TINY.fingerprint}, build ")


class StuckBit(SimDevice):
    """A memory in which bit 3 of byte 5 of every block reads as 0."""

    name = "stuck"

    def read(self, address: int, nbytes: int) -> Any:
        found = super().read(address, nbytes)
        if nbytes > 5:
            found[5] &= 0xF7
        return found


def test_a_stuck_bit_of_memory_is_named() -> None:
    found = failures(StuckBit(TINY))
    assert found["memory"] == "ones: byte 5 must be 0xff, got 0xf7 (1 bytes differ)"


class WrongStrides(SimDevice):
    """A machine that writes one wrong byte where planes are stored."""

    name = "wrong"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = super()._run(program, addresses)
        if program.name == "strides":
            place = addresses["result"] + 3
            self.write(place, self.read(place, 1) ^ np.uint8(1))
        return stats


def test_a_wrong_store_is_named_with_its_entry() -> None:
    found = failures(WrongStrides(TINY))
    assert list(found) == ["stores with strides"]
    assert found["stores with strides"].startswith("strides: result[3] must be ")
    assert found["stores with strides"].endswith(" (1 of 80 differ)")


class Refusing(SimDevice):
    """A device that ends one program with an error."""

    name = "refusing"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        if program.name == "tokens":
            raise DeviceError("device refusing: the program hangs")
        return super()._run(program, addresses)


def test_an_error_is_an_outcome_and_the_rest_runs() -> None:
    assert failures(Refusing(TINY)) == {"tokens": "device refusing: the program hangs"}


class Miscounting(SimDevice):
    """A machine whose load unit counts one cycle too few."""

    name = "miscounting"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = super()._run(program, addresses)
        counters = {unit: dict(values) for unit, values in stats.counters.items()}
        counters["load"]["busy"] -= 1
        return replace(stats, counters=counters)


def test_counters_must_add_up() -> None:
    found = failures(Miscounting(TINY))
    assert found["tokens"].startswith("counters of load must add up to 1290 cycles, got 1289")
    assert len(found) == 11


class Slow(SimDevice):
    """A simulated machine that takes a cycle longer than its model."""

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = super()._run(program, addresses)
        counters = {unit: values | {"idle": values["idle"] + 1} for unit, values in stats.counters.items()}
        return replace(stats, total_cycles=stats.total_cycles + 1, counters=counters)


def test_counters_of_a_simulated_memory_must_be_equal() -> None:
    found = failures(Slow(TINY))
    assert found["tokens"] == "simulator and sim: total_cycles is 1290, other has 1291"
