# SPDX-License-Identifier: Apache-2.0
"""Measurers: the cost of a point of a task on the simulator or on a device.

A measurer is pickled into worker processes. It may crash or hang there: that costs the trial.
The simulator is imported where it is used, since it takes a worker a second. A device stays open
from trial to trial: opening a farm asks every board, which takes seconds where one does not answer.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from vdla.compiler.tune import Built, Point, TuningTask
from vdla.hardware.program import STREAM, Program, allocated_sizes, initial_contents, input_tensors, with_parts
from vdla.runtime.tune.trial import CYCLES, TuningError
from vdla.support.errors import Error

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.runtime.devices import Device


class HeldDevice:
    """At most one open device, by its name and machine."""

    def __init__(self) -> None:
        self._key: tuple[str, Config] | None = None
        self._device: Device | None = None
        atexit.register(self.close)

    @contextmanager
    def opened(self, name: str, config: Config) -> Iterator[Device]:
        """The device of a name for a machine; DeviceError if it does not open."""
        from vdla.runtime.devices import open_device

        if self._device is None or self._key != (name, config):
            self.close()
            self._key, self._device = (name, config), open_device(name, config)
        try:
            yield self._device
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the device, if one is open; one that is gone already is not an error."""
        device, self._device = self._device, None
        if device is not None:
            with suppress(Error):
                device.close()


HELD = HeldDevice()
"""The device of this process."""


class Measurer(Protocol):
    """Builds points and measures them, one at a time."""

    @property
    def unit(self) -> str:
        """The unit of costs: `cycles` or `seconds`."""
        ...

    @property
    def most_workers(self) -> int | None:
        """How many processes may measure at once without changing each other's costs; None: any."""
        ...

    def missing(self, task: TuningTask) -> str:
        """Why this process cannot do it, as `<what> must <rule>, got <value>`; or empty."""
        ...

    def measure(self, task: TuningTask, point: Point) -> float:
        """The cost of a point, with what the task adds to it.

        Raises:
            Error: the point cannot be built or does not run.
        """
        ...


@dataclass(frozen=True, slots=True)
class SimMeasurer:
    """The simulator: exact cycles, so that one run is enough."""

    unit: str = CYCLES
    most_workers: int | None = None

    def missing(self, task: TuningTask) -> str:
        """Nothing: the simulator is every machine."""
        return ""

    def measure(self, task: TuningTask, point: Point) -> float:
        """The cycles of the program of a point."""
        from vdla.simulator.timing import time_program

        program = _program(task, task.draft(point))
        return time_program(program).total_cycles + task.overhead(point)


@dataclass(frozen=True, slots=True)
class DeviceMeasurer:
    """A device by its name: `rtl`, `pynq`, `pynq://HOST:PORT`, or the file of a farm.

    A device measures one program at a time, so more workers than `boards` wait for each other.
    """

    device: str
    boards: int = 1
    unit: str = CYCLES

    @property
    def most_workers(self) -> int | None:
        """One for each board."""
        return self.boards

    def missing(self, task: TuningTask) -> str:
        """Why the device does not open for the task's machine, if it does not."""
        try:
            with HELD.opened(self.device, _program(task, task.draft(task.space.point(0))).config):
                return ""
        except Error as error:
            return str(error)

    def measure(self, task: TuningTask, point: Point) -> float:
        """The cycles of the program of a point, which do not depend on its inputs."""
        program = _program(task, task.build(point))
        with HELD.opened(self.device, program.config) as device:
            return _cycles(program, device) + task.overhead(point)


def _program(task: TuningTask, built: Built) -> Program:
    if not isinstance(built, Program):
        raise TuningError(f"tune {task.name}: task must build programs, got a {type(built).__name__}")
    return built


def _cycles(program: Program, device: Device) -> int:
    """The cycles of a run on zeros; its memory is free again after it."""
    types = {"int32": np.int32, "int64": np.int64}
    inputs = {t.name: np.zeros(t.shape, types.get(t.dtype, np.int8)) for t in input_tensors(program)}
    contents = initial_contents(program, inputs)
    held = {name: device.allocate(nbytes) for name, nbytes in allocated_sizes(program).items()}
    addresses = with_parts(program, held, {})
    contents[STREAM] = program.link(addresses).reshape(-1)
    for name, data in contents.items():
        device.write(addresses[name], data)
    cycles = device.run(program, addresses).total_cycles
    for address in held.values():
        device.free(address)
    return cycles
