# SPDX-License-Identifier: Apache-2.0
"""The figures of networks on a device: equal on a right one, counted differences on a wrong one."""

from __future__ import annotations

import numpy as np
from helpers.faulty_devices import Elsewhere, WrongGemm

from vdla.benchmarks.board.network_equal import _differing, network_equal
from vdla.hardware.config import Config
from vdla.runtime.devices.sim import SimDevice


def test_a_device_of_another_kind_gives_the_same_bits() -> None:
    with Elsewhere(SimDevice(Config.preset("pynq_z1"))) as device:
        found = network_equal(device, names=("digits",), small=True)
    assert (found["network_equal"], found["digits_equal"], found["digits_differing"]) == (1, 1, 0)
    assert found["digits_entries"] == 10 and found["digits_programs"] == 1 and found["digits_cycles"] > 0


def test_a_device_by_name() -> None:
    assert network_equal("sim", names=("digits",), options={"memory_bytes": 1 << 26})["network_equal"] == 1


def test_a_wrong_device_is_seen() -> None:
    with WrongGemm(Config.preset("pynq_z1")) as device:
        found = network_equal(device, names=("digits",))
    assert found["network_equal"] == found["digits_equal"] == 0
    assert found["digits_differing"] > 0


def test_bits_count_not_values() -> None:
    assert _differing(np.array([0.0, 1.0], np.float32), np.array([-0.0, 1.0], np.float32)) == 1
    assert _differing(np.array([np.nan], np.float32), np.array([np.nan], np.float32)) == 0
    assert _differing(np.zeros(3, np.int8), np.zeros(3, np.int32)) == 3
