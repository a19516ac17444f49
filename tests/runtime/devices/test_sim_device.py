# SPDX-License-Identifier: Apache-2.0
"""The simulator as a device: a program is linked and timed once, and executed for all data."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import numpy as np
import pytest
from helpers.small_programs import small_gemm

from vdla.hardware.config import Config
from vdla.hardware.program import STREAM, Program
from vdla.runtime.devices import sim
from vdla.runtime.devices.sim import SimDevice
from vdla.simulator.support.errors import SimulationError
from vdla.simulator.timing import time_program

TINY = Config.preset("tiny")


class Placed:
    """A program's memory on a device, with its inputs and its stream."""

    def __init__(self, device: SimDevice, program: Program, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
        self.device, self.program = device, program
        self.addresses = {tensor.name: device.allocate(tensor.nbytes) for tensor in program.tensors}
        for tensor in program.tensors:
            if tensor.data is not None:
                device.write(self.addresses[tensor.name], np.frombuffer(tensor.data, np.uint8))
        self.addresses[STREAM] = device.allocate(program.words.size)
        for name, array in arrays.items():
            self.write(name, array)

    def write(self, name: str, array: np.ndarray[Any, Any]) -> None:
        self.device.write(self.addresses[name], np.ascontiguousarray(array).view(np.uint8).reshape(-1))

    def run(self) -> tuple[int, np.ndarray[Any, Any]]:
        """Cycles, and the bytes of the output."""
        self.device.write(self.addresses[STREAM], self.program.link(self.addresses).reshape(-1))
        cycles = self.device.run(self.program, self.addresses).total_cycles
        (output,) = (tensor for tensor in self.program.tensors if tensor.name == "out")
        return cycles, self.device.read(self.addresses["out"], output.nbytes)


@pytest.fixture
def timings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the programs that were timed."""
    seen: list[str] = []

    def timed(program: Program, *options: Any) -> Any:
        seen.append(program.name)
        return time_program(program, *options)

    monkeypatch.setattr(sim, "time_program", timed)
    return seen


def test_other_data_has_the_same_cycles_and_other_results(timings: list[str]) -> None:
    program, arrays, expected = small_gemm(TINY)
    with SimDevice(TINY) as device:
        placed = Placed(device, program, arrays)
        first = placed.run()
        placed.write("inp", np.zeros_like(arrays["inp"]))
        second = placed.run()
        placed.write("inp", arrays["inp"])
        third = placed.run()
    assert first[0] == second[0] == third[0] and timings == [program.name]
    assert np.array_equal(first[1], expected.astype(np.int8).view(np.uint8).reshape(-1))
    assert np.array_equal(third[1], first[1]) and not np.array_equal(second[1], first[1])


def test_other_addresses_are_timed_again(timings: list[str]) -> None:
    program, arrays, _ = small_gemm(TINY)
    with SimDevice(TINY) as device:
        places = Placed(device, program, arrays), Placed(device, program, arrays)
        results = [placed.run()[1] for placed in (*places, *places)]
    assert len(timings) == 4
    assert all(np.array_equal(result, results[0]) for result in results)


def test_a_shorter_limit_holds_for_a_program_that_has_run() -> None:
    program, arrays, _ = small_gemm(TINY)
    with SimDevice(TINY) as device:
        placed = Placed(device, program, arrays)
        cycles, _ = placed.run()
        device.timeout_cycles = cycles - 1
        with pytest.raises(SimulationError, match=f"{cycles - 1}"):
            placed.run()
        device.timeout_cycles = cycles
        assert placed.run()[0] == cycles


def test_programs_are_not_kept_alive() -> None:
    program, arrays, _ = small_gemm(TINY)
    with SimDevice(TINY) as device:
        Placed(device, program, arrays).run()
        gone = ref(program)
        del program
        gc.collect()
        assert gone() is None
