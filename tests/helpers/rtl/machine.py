# SPDX-License-Identifier: Apache-2.0
"""The machine with a memory on its AXI ports, driven through its registers as software does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from helpers.rtl.axi_memory import ReadMemory, Storage, WriteMemory
from helpers.rtl.axil_master import OKAY, AxiLite
from helpers.rtl.rtl_bench import Bench, any_pattern, config, pattern
from helpers.small_programs import small_gemm
from vdla.hardware.generate.registers import OFFSETS, ErrorCode, counter_offset
from vdla.hardware.isa import COUNTERS, UNITS, columns
from vdla.hardware.numerics import pack_elements
from vdla.hardware.program import STREAM, Program, place
from vdla.simulator.function import execute
from vdla.verification.programs.random_programs import random_verified_program

START, RESET = 1, 2
BUSY, DONE, ERROR = 1, 2, 4
ENABLE, PENDING = 1, 2
BASE = 0x10000
TIMEOUT_CYCLES = 100_000


class Machine:
    """The machine, its memory and a program in that memory."""

    def __init__(self, dut: Any) -> None:
        self.config = config()
        self.bench = Bench(dut)
        self.matrix_product()

    def matrix_product(self) -> None:
        """Places a small matrix product in memory; NumPy gives the expected memory."""
        program, arrays, expected = small_gemm(self.config)
        self._place(program)
        bits = {"inp": self.config.inp_bits, "wgt": self.config.wgt_bits}
        for name, values in arrays.items():
            self._put(self.image, name, pack_elements(values, bits[name]) if name in bits else values)
        self.wanted = self.image.copy()
        self._put(self.wanted, "out", pack_elements(expected, self.config.out_bits))

    def random_program(self, rng: np.random.Generator, count: int) -> None:
        """Places a random verified program in memory; the simulator gives the expected memory."""
        program = random_verified_program(self.config, int(rng.integers(1 << 30)), count)
        self._place(program, rng)
        self.wanted = self.image.copy()
        execute(self.config, columns(self.config, program.link(self.addresses)), self.wanted)

    def _place(self, program: Program, rng: np.random.Generator | None = None) -> None:
        self.program = program
        self.addresses, end = place(program, BASE)
        self.image = np.zeros(end, np.uint8) if rng is None else rng.integers(0, 256, end, np.uint8)
        self._put(self.image, STREAM, program.link(self.addresses))
        for tensor in program.tensors:
            if tensor.data is not None:
                self._put(self.image, tensor.name, np.frombuffer(tensor.data, np.uint8))

    def _put(self, image: NDArray[np.uint8], name: str, values: NDArray[Any]) -> None:
        data = np.ascontiguousarray(values).view(np.uint8).ravel()
        image[self.addresses[name] : self.addresses[name] + data.size] = data

    def attach(self, rng: np.random.Generator, calm: bool = False) -> None:
        """Attaches new memories; calm ones have the delays of the timing contract."""
        self.storage = Storage(self.image.size, self.config.axi_bytes)
        self.storage.bytes[:] = self.image
        habits = [pattern("always", rng) if calm else any_pattern(rng) for _ in range(4)]
        latency = (1, 2) if calm else (1, int(rng.integers(2, 60)))
        order = "any" if calm else str(rng.choice(["any", "address", "data"]))
        self.reads = ReadMemory(self.bench, self.storage, rng, *habits[:2], latency, not calm and rng.random() < 0.5)
        self.writes = WriteMemory(self.bench, self.storage, rng, *habits[2:], latency, order)
        self.bench.models = [self.reads, self.writes]
        self.port = AxiLite(self.bench, rng, 0 if calm else int(rng.integers(4)))

    async def power_up(self, rng: np.random.Generator, calm: bool = False) -> None:
        """Resets the machine with fresh memories."""
        self.attach(rng, calm)
        await self.bench.reset()

    async def write(self, name: str, value: int, expected: int = OKAY) -> None:
        """Writes a register."""
        assert await self.port.write(OFFSETS[name], value) == expected, name

    async def read(self, name: str) -> int:
        """Reads a register."""
        value, response = await self.port.read(OFFSETS[name])
        assert response == OKAY, name
        return value

    async def read_pair(self, offset: int) -> int:
        """Reads two registers, the low half first."""
        low, high = [await self.port.read(offset + half) for half in (0, 4)]
        return low[0] | high[0] << 32

    async def start(self, count: int | None = None) -> None:
        """Sets up the stream and starts it."""
        address = self.addresses[STREAM]
        await self.write("STREAM_LO", address & 0xFFFFFFFF)
        await self.write("STREAM_HI", address >> 32)
        await self.write("COUNT", len(self.program.words) if count is None else count)
        await self.write("READ_LIMIT", self.config.dram.outstanding_reads)
        await self.write("WRITE_LIMIT", self.config.dram.outstanding_writes)
        await self.write("INTERRUPT", ENABLE | PENDING)
        await self.write("CONTROL", START)

    async def finish(self) -> int:
        """Waits for the interrupt; returns the status."""
        await self.bench.until("irq_o", 1, TIMEOUT_CYCLES)
        assert await self.read("INTERRUPT") == ENABLE | PENDING
        await self.write("INTERRUPT", ENABLE | PENDING)
        await self.bench.cycle()  # the line is registered
        assert self.bench["irq_o"] == 0
        return await self.read("STATUS")

    async def run_correctly(self) -> None:
        """Runs the program; checks its results, and that nothing else in memory changed."""
        await self.start()
        assert await self.finish() == DONE
        assert await self.read("ERROR") == ErrorCode.NONE
        wrong = np.flatnonzero(self.storage.bytes != self.wanted)
        assert not wrong.size, (
            f"bytes {wrong[:8]} must be {self.wanted[wrong[:8]]}, got {self.storage.bytes[wrong[:8]]}"
        )

    async def counters(self) -> dict[str, list[int]]:
        """The counters of each unit."""
        return {unit: [await self.read_pair(counter_offset(unit, name)) for name in COUNTERS] for unit in UNITS}

    @property
    def quiet(self) -> bool:
        """Whether no transaction is outstanding."""
        reads, writes = self.reads, self.writes
        return not (reads.bursts or writes.addresses or writes.data or writes.beats or writes.responses)
