# SPDX-License-Identifier: Apache-2.0
"""Servers, devices and programs for the tests of remote devices."""

from __future__ import annotations

import threading
import time

from vdla.hardware.config import Config
from vdla.runtime.devices.run import run
from vdla.runtime.devices.sim import SimDevice
from vdla.verification.programs.gemm_program import GemmTiling, gemm_program
from vdla.verification.programs.random_data import random_arrays

TINY = Config.preset("tiny")
PROGRAM = gemm_program(GemmTiling(TINY, 6, 8, 8, 2, 1))
ARRAYS = random_arrays(PROGRAM, 3)
WAIT_S = 20.0


class GatedDevice(SimDevice):
    """A simulator whose runs wait for a gate, and which can fail or be stopped."""

    def __init__(self, config=TINY):
        super().__init__(config, 1 << 22)
        self.gate, self.began, self.stopped = threading.Event(), threading.Event(), threading.Event()
        self.gate.set()
        self.order = []
        self.failure = None

    def run(self, program, addresses):
        self.began.set()
        self.order.append(program.name)
        if not self.gate.wait(WAIT_S):
            raise AssertionError("the gate of a test must open")
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
        return super().run(program, addresses)


def right(device, program=PROGRAM, arrays=None):
    """Whether a device gives the simulator's result."""
    arrays = ARRAYS if arrays is None else arrays
    outputs = run(program, arrays, device).outputs
    return all((outputs[name] == array).all() for name, array in run(program, arrays, "sim").outputs.items())


def eventually(holds, what):
    """Wait until something holds; AssertionError says what did not."""
    end = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < end, what() if callable(what) else what
        time.sleep(0.01)
