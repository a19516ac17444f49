# SPDX-License-Identifier: Apache-2.0
"""Fabrics without a board: set-up, runs and all registers of a virtual board's machines."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.boards.virtual.bitstream import Machine
from vdla.boards.virtual.fabric import Fabric, MemoryWindow
from vdla.boards.virtual.fabrics import build_fabric
from vdla.boards.virtual.memory import BASE_ADDRESS
from vdla.hardware.config import Config
from vdla.hardware.generate.registers import OFFSETS, REGISTERS
from vdla.hardware.program import STREAM, Program, initial_contents, placed_sizes

PAGE = 4096
MEMORY = 1 << 22
TIMEOUT_S = 60.0
SHOWN = [register for register in REGISTERS if not register.name.startswith("BUILD")]
BUSY, DONE, ERROR = 1, 2, 4


@dataclass
class Bench:
    """A fabric and its memory, which begins at BASE_ADDRESS."""

    fabric: Fabric
    memory: NDArray[np.uint8]
    config: Config

    def read(self, name: str) -> int:
        return self.fabric.read_word(OFFSETS[name])

    def write(self, name: str, value: int) -> None:
        self.fabric.write_word(OFFSETS[name], value)

    def registers(self) -> dict[str, int]:
        return {register.name: self.fabric.read_word(register.offset) for register in SHOWN}

    def start(self, address: int, count: int) -> None:
        dram = self.config.dram
        values = {
            "STREAM_LO": address & 0xFFFFFFFF, "STREAM_HI": address >> 32, "COUNT": count,
            "READ_LATENCY": dram.read_latency, "READ_LIMIT": dram.outstanding_reads,
            "WRITE_LIMIT": dram.outstanding_writes, "INTERRUPT": 3, "CONTROL": 1,
        }  # fmt: skip
        for name, value in values.items():
            self.write(name, value)

    def wait(self, while_busy: float = TIMEOUT_S) -> int:
        """STATUS once the machine is not busy, or after a while."""
        deadline = time.monotonic() + while_busy
        while self.read("STATUS") & BUSY and time.monotonic() < deadline:
            time.sleep(0.002)
        return self.read("STATUS")

    def run(self, address: int, count: int) -> dict[str, int]:
        """All registers after a run that ends."""
        self.start(address, count)
        assert not self.wait() & BUSY, self.registers()
        return self.registers()

    def reset(self) -> None:
        self.write("CONTROL", 2)
        assert not self.wait() & BUSY, self.registers()

    def upload(self, program: Program, arrays: Mapping[str, NDArray]) -> dict[str, int]:
        """The addresses of tensors and stream; each has a window of its own, and a gap behind."""
        sizes = placed_sizes(program)
        places, at = {}, 0
        for name, nbytes in sizes.items():
            places[name] = MemoryWindow(BASE_ADDRESS + at, -(-nbytes // PAGE) * PAGE, at)
            at += places[name].nbytes + PAGE
        addresses = {name: window.address for name, window in places.items()}
        contents = {**initial_contents(program, arrays), STREAM: program.link(addresses).reshape(-1)}
        self.memory[:at] = 0
        for name, data in contents.items():
            self.memory[places[name].offset :][: len(data)] = data
        self.fabric.map(list(places.values()))
        self.windows = places
        return addresses


def open_bench(kind: str, config: Config, pause_s: float = 0) -> Bench:
    """A bench of `sim` or `rtl`; close its fabric."""
    memory = np.zeros(MEMORY, np.uint8)
    return Bench(build_fabric(kind, Machine(config, "0123456789ab"), memory, pause_s), memory, config)
