# SPDX-License-Identifier: Apache-2.0
"""Trials on remote devices: a farm's boards measure the cycles of the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("grpc")

from vdla.compiler.templates import dense
from vdla.compiler.tune import VdlaTask, template_task
from vdla.hardware.config import Config
from vdla.runtime.devices.sim import SimDevice
from vdla.runtime.remote.server import RemoteServer
from vdla.runtime.tune.measurer import DeviceMeasurer, HeldDevice, SimMeasurer

TINY = Config.preset("tiny")


@pytest.fixture
def task() -> VdlaTask:
    return template_task(dense, TINY, rows=2, in_features=16, out_features=24)


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[str]:
    """A farm of one board."""
    with RemoteServer(lambda: SimDevice(TINY), TINY, "127.0.0.1:0") as server:
        file = tmp_path / "farm.toml"
        file.write_text(f'[[board]]\naddress = "{server.address}"\n')
        yield str(file)


def test_a_farm_measures_the_cycles_of_the_simulator(task: VdlaTask, farm: str) -> None:
    measurer = DeviceMeasurer(farm)
    assert measurer.missing(task) == ""
    for point in task.space.sample(np.random.default_rng(0), 4):
        assert measurer.measure(task, point) == SimMeasurer().measure(task, point)


def test_a_farm_for_another_machine_is_refused(farm: str) -> None:
    task = template_task(dense, Config.preset("batch4"), rows=4, in_features=16, out_features=16)
    assert "tiny" in DeviceMeasurer(farm).missing(task)


def test_a_device_stays_open_until_a_trial_fails() -> None:
    held = HeldDevice()
    with held.opened("sim", TINY) as first:
        pass
    with pytest.raises(ZeroDivisionError), held.opened("sim", TINY) as again:
        assert again is first
        _ = 1 // 0
    with held.opened("sim", TINY) as other:
        assert other is not first
    held.close()
