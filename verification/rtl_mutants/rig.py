# SPDX-License-Identifier: Apache-2.0
"""A machine with its memory, driven through its registers, and a program with its results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Buffer, Opcode, columns
from vdla.hardware.isa.instructions import COMPUTE_BUFFERS
from vdla.hardware.program import STREAM, Program, place
from vdla.runtime.devices.driver import Driver, Stream
from vdla.runtime.devices.rtl import RtlModel
from vdla.runtime.devices.rtl_build import BuildOptions, build_library
from vdla.runtime.devices.rtl_library import RtlMachine, memory_parameters
from vdla.simulator.function import execute
from vdla.simulator.timing import time_program
from vdla.support.arrays import Bytes
from vdla.support.errors import Error
from vdla.verification.programs.random_programs import random_verified_program

WHERE = "machine"
_SLACK_CYCLES = 20_000
_ATTEMPTS = 1000
_CHUNK_CYCLES = 64  # between two looks at the state of a machine that stops


Check = Callable[[Config, RtlModel | None, int], None]
"""A scenario: on a machine, by a model or the RTL's own, with a seed."""


class MachineFault(Error, AssertionError):
    """The machine does what it must not do."""


def require(holds: bool, what: str) -> None:
    """MachineFault, unless `holds`."""
    if not holds:
        raise MachineFault(what)


def _program(config: Config, seed: int, count: int) -> Program:
    """A random program that has a STORE and whose load and compute units both read memory.

    With extensions it is longer, since it first writes their states.
    """
    count += 2 * len(config.extensions)
    for attempt in range(_ATTEMPTS):
        program = random_verified_program(config, seed + attempt, count)
        table = columns(config, program.words)
        loaded = {Buffer(buffer) for buffer in table[table[:, COL["opcode"]] == Opcode.LOAD, COL["buffer"]]}
        stores = (table[:, COL["opcode"]] == Opcode.STORE).any()
        if stores and loaded & COMPUTE_BUFFERS and loaded - COMPUTE_BUFFERS:
            return program
    raise MachineFault(f"one of {_ATTEMPTS} programs of {count} instructions must use every unit's memory")


class Rig:
    """A machine, reset, with a program in its memory, by its length a random one.

    `stalls` seeds random back-pressure on every channel, 0 for no stalls.
    """

    def __init__(
        self, config: Config, model: RtlModel | None, seed: int, program: Program | int, stalls: int = 0
    ) -> None:
        self.config, self.stalls = config, stalls
        self.program = _program(config, seed, program) if isinstance(program, int) else program
        self.addresses, end = place(self.program)
        self.image = np.random.default_rng(seed).integers(0, 256, end, np.uint8)
        self._put(STREAM, self.program.link(self.addresses))
        for tensor in self.program.tensors:
            if tensor.data is not None:
                self._put(tensor.name, np.frombuffer(tensor.data, np.uint8))
        self.wanted = self.image.copy()
        execute(config, columns(config, self.program.link(self.addresses)), self.wanted)
        self.cycles = time_program(self.program, config, self.addresses).total_cycles
        self.memory = self.image.copy()
        chosen = model or RtlModel(build_library(config, BuildOptions(assertions=True)))
        self.machine = RtlMachine(WHERE, chosen.library, self.memory, None, seed + 1, chosen.argument)
        self.driver = Driver(WHERE, self.machine)
        self.configure()

    def __enter__(self) -> Rig:
        return self

    def __exit__(self, *error: object) -> None:
        self.machine.close()

    def _put(self, name: str, values: Bytes) -> None:
        data = np.ascontiguousarray(values).view(np.uint8).ravel()
        self.image[self.addresses[name] : self.addresses[name] + data.size] = data

    # --- the memory

    def configure(self, **changes: int) -> None:
        """Sets the timing of the memory; burst numbers restart."""
        parameters = memory_parameters(self.config, stalls=int(self.stalls > 0), seed=self.stalls)
        for name, value in changes.items():
            setattr(parameters, name, value)
        self.machine.configure(parameters)

    def refill(self) -> None:
        """Writes the program's memory again."""
        self.memory[:] = self.image

    # --- runs

    @property
    def stream(self) -> Stream:
        """The program's stream under the configuration's limits."""
        dram = self.config.dram
        return Stream(
            self.addresses[STREAM],
            len(self.program.words),
            dram.read_latency,
            dram.outstanding_reads,
            dram.outstanding_writes,
        )

    def start(self, **changes: int) -> None:
        """Starts the stream, with these fields changed."""
        self.machine.forget_events()
        self.driver.start(replace(self.stream, **changes))

    def wait(self, cycles: int | None = None) -> None:
        """Waits for the interrupt."""
        limit = 40 * self.cycles + _SLACK_CYCLES if cycles is None else cycles
        require(self.machine.wait(limit), f"the interrupt must come within {limit} cycles")

    def pass_cycles(self, cycles: int) -> None:
        """Lets cycles pass, with the interrupt disabled."""
        self.driver.write("INTERRUPT", 0)
        self.machine.wait(cycles)

    def run_correctly(self) -> None:
        """The program leaves the expected memory and no error."""
        self.refill()
        self.configure()
        self.start()
        self.wait()
        self.driver.finish()
        wrong = np.flatnonzero(self.memory != self.wanted)
        require(not wrong.size, f"byte {wrong[:1]} of memory must be as the simulator's ({wrong.size} differ)")
        self.progress_equals_events(ended=True)

    def progress_equals_events(self, ended: bool = False) -> None:
        """The registers of progress equal the events on the trace port; all instructions ended."""
        log, state = self.machine.trace(), self.driver.state()
        require(state.dispatched == len(log.dispatches), "DISPATCHED must count the dispatches")
        require(state.started == tuple(map(len, log.starts)), "STARTED must count the starts")
        require(state.ended == tuple(map(len, log.ends)), "ENDED must count the ends")
        if ended:
            require(sum(state.ended) == len(self.program.words), "every instruction must end")
            cycles = self.driver.read_wide("CYCLES")
            for unit, counts in self.driver.counters().items():
                require(sum(counts.values()) == cycles, f"the counters of {unit} must sum to the cycles")

    def reset(self) -> None:
        """Resets the machine by software; it ends idle, without an outstanding transaction."""
        self.driver.request_reset()
        self.settle()

    def settle(self) -> None:
        """Waits until a reset has ended."""
        for _ in range(_SLACK_CYCLES // _CHUNK_CYCLES):
            if not self.driver.flag("STATUS", "busy"):
                break
            self.pass_cycles(_CHUNK_CYCLES)
        status = self.driver.read("STATUS")
        require(status == 0, f"STATUS must be 0 after a reset, got {status:#x}")
        require(self.machine.memory_idle, "no transaction may be outstanding after a reset")
