# SPDX-License-Identifier: Apache-2.0
"""A device and a network with faults that are drawn from a seed.

The device is a simulator that fails as a board may: errors, crashes, slow runs, runs that do not
end. Its faults follow from the seed and its number, so that a device opened again has other faults
than before.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random

from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.runtime.devices import Device, DeviceError
from vdla.runtime.devices.sim import SimDevice
from vdla.simulator.stats import RunStats

MEMORY_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class DeviceFaults:
    """The share of runs with each fault, and the seconds of slow and of endless ones."""

    error: float = 0.02
    crash: float = 0.004
    slow: float = 0.02
    endless: float = 0.001
    slow_s: float = 0.2
    endless_s: float = 6.0


class FaultyDevice(SimDevice):
    """A simulator with faults drawn by `random`."""

    def __init__(self, config: Config, random: Random, faults: DeviceFaults) -> None:
        super().__init__(config, MEMORY_BYTES)
        self._random, self._faults = random, faults

    def run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        """Run a program, or fail before or after."""
        faults, drawn = self._faults, self._random.random()
        if drawn < faults.error:
            raise DeviceError(f"device {self.name}: injected error")
        drawn -= faults.error
        if drawn < faults.crash:
            raise OSError("injected crash")
        drawn -= faults.crash
        if drawn < faults.slow:
            time.sleep(self._random.uniform(0, faults.slow_s))
        elif drawn < faults.slow + faults.endless:
            time.sleep(faults.endless_s)
        return super().run(program, addresses)


@dataclass(slots=True)
class FaultyDevices:
    """Opens devices, one after the other; picklable."""

    config: Config
    seed: int
    faults: DeviceFaults = field(default_factory=DeviceFaults)
    opened: int = 0

    def __call__(self) -> Device:
        """The next device."""
        self.opened += 1
        return FaultyDevice(self.config, Random(f"{self.seed} {self.opened}"), self.faults)


# --- the network ----------------------------------------------------------------------------------
# A TCP proxy on the loopback that cuts connections and flips bits, at places drawn from a seed.


_BLOCK = 1 << 14
_START_S = 10.0


@dataclass(frozen=True, slots=True)
class NetworkFaults:
    """The share of blocks of bytes that cut the connection, and of those with a flipped bit."""

    cut: float = 0.004
    flip: float = 0.002


class FaultyNetwork:
    """Forwards connections to a port; `cuts` and `flips` count the faults."""

    def __init__(self, port: int, seed: int, faults: NetworkFaults) -> None:
        self._target, self._faults, self._random = port, faults, Random(f"network {seed}")
        self.port = self.cuts = self.flips = 0
        self.quiet = False
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="network", daemon=True)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._connection, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.close()
            return
        forward = asyncio.ensure_future(self._copy(reader, back))
        backward = asyncio.ensure_future(self._copy(there, writer))
        await asyncio.wait((forward, backward), return_when=asyncio.FIRST_COMPLETED)
        for task in (forward, backward):
            task.cancel()
        for side in (writer, back):
            with suppress(OSError):
                side.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while block := bytearray(await reader.read(_BLOCK)):
                drawn = 1.0 if self.quiet else self._random.random()
                if drawn < self._faults.cut:
                    self.cuts += 1
                    return
                if drawn < self._faults.cut + self._faults.flip:
                    self.flips += 1
                    block[self._random.randrange(len(block))] ^= 1 << self._random.randrange(8)
                writer.write(block)
                await writer.drain()

    def start(self) -> None:
        """Listen on a port of its own."""
        self._thread.start()
        self._ready.wait(_START_S)

    def close(self) -> None:
        """Stop listening and end all connections."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_START_S)


@contextmanager
def faulty_network(port: int, seed: int, faults: NetworkFaults) -> Iterator[FaultyNetwork]:
    """A proxy that runs."""
    network = FaultyNetwork(port, seed, faults)
    network.start()
    try:
        yield network
    finally:
        network.close()
