# SPDX-License-Identifier: Apache-2.0
"""Simulated devices with a fault that depends on the data, so that it repeats with the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vdla.hardware.isa import COL, Opcode, columns
from vdla.hardware.program import Program
from vdla.runtime.devices.device import Bytes, Device
from vdla.runtime.devices.sim import SimDevice
from vdla.simulator.function import Engine, token_order
from vdla.simulator.stats import RunStats, Times
from vdla.simulator.timing import time_program

FLIPPED = 0x11
"""The byte that faults turn into another."""


class FaultyDevice(SimDevice):
    """A simulator that calls `disturb` after each instruction."""

    name = "faulty"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = time_program(program, self.config, dict(addresses))
        places = {name: self._open().offset(address) for name, address in addresses.items()}
        engine = Engine(self.config, columns(self.config, program.link(places)), self.memory, portable=True)
        begin, self._begin = self._begin, None
        if begin is not None:
            engine.buffers.fill(begin)
        for number in token_order(engine.columns):
            engine.execute(int(number))
            self.disturb(engine, engine.columns[number])
        self._buffers = engine.buffers
        return stats

    def disturb(self, engine: Engine, row: Any) -> None:
        """Do what the fault does."""


class FlippingStore(FaultyDevice):
    """Stores that flip a bit of one byte value."""

    name = "flipping"

    def disturb(self, engine: Engine, row: Any) -> None:
        """Flip the bit in the rows that a STORE wrote."""
        if row[COL["opcode"]] != Opcode.STORE:
            return
        beat, entry = self.config.axi_bytes, self.config.out_entry_bytes
        for z in range(int(row[COL["z_size"]])):
            for y in range(int(row[COL["y_size"]])):
                begin = int(row[COL["dram"]] + z * row[COL["z_stride"]] + y * row[COL["y_stride"]]) * beat
                stored = self.memory[begin : begin + int(row[COL["x_size"]]) * entry]
                stored[stored == FLIPPED] ^= 4


class WrongGemm(FaultyDevice):
    """Products whose results flip a bit of one byte value."""

    name = "wrong"

    def disturb(self, engine: Engine, row: Any) -> None:
        """Flip the bit in the output buffer after a GEMM."""
        if row[COL["opcode"]] == Opcode.GEMM:
            out = engine.buffers.out.view(np.uint8)
            out[out == FLIPPED] ^= 4


class DamagedWeights(FaultyDevice):
    """A memory in which a byte of the weights changes before the first program runs."""

    name = "damaged"
    done = False

    def run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        """Damage, then run."""
        if not self.done:
            self.done = True
            tensor = next(each for each in program.tensors if "weight" in each.name)
            place = addresses[tensor.name] + 5
            self.write(place, self.read(place, 1) ^ np.uint8(0x80))
        return super().run(program, addresses)


class Transient(FaultyDevice):
    """A device whose first run leaves a wrong byte in memory, and no other does."""

    name = "transient"
    done = False

    def run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        """Run, then flip a byte of an output once."""
        stats = super().run(program, addresses)
        if not self.done:
            self.done = True
            tensor = next(each for each in program.tensors if each.role == "output")
            self.write(addresses[tensor.name], self.read(addresses[tensor.name], 1) ^ np.uint8(1))
        return stats


class Late(SimDevice):
    """A simulator whose programs all take a cycle longer."""

    name = "late"

    def _run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        stats = super()._run(program, addresses)
        return replace(stats, total_cycles=stats.total_cycles + 1)


class Elsewhere:
    """A device that shows nothing but the protocol, as a board does: neither memory nor times."""

    name = "board"

    def __init__(self, device: Device) -> None:
        self._device, self.config = device, device.config

    def allocate(self, nbytes: int) -> int:
        """As the device."""
        return self._device.allocate(nbytes)

    def free(self, address: int) -> None:
        """As the device."""
        self._device.free(address)

    def write(self, address: int, data: Bytes) -> None:
        """As the device."""
        self._device.write(address, data)

    def read(self, address: int, nbytes: int) -> Bytes:
        """As the device."""
        return self._device.read(address, nbytes)

    def run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        """The statistics without times."""
        stats, none = self._device.run(program, addresses), Times.none(len(program))
        return replace(stats, dispatches=none.dispatches, starts=none.starts, ends=none.ends, waits=None)

    def close(self) -> None:
        """As the device."""
        self._device.close()

    def __enter__(self) -> Elsewhere:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
