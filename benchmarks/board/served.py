# SPDX-License-Identifier: Apache-2.0
"""A server in a process of its own, as clients meet it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from vdla.benchmarks.board.child_process import child_process
from vdla.hardware.config import Config
from vdla.runtime.devices import Device
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.server import RemoteServer
from vdla.support.errors import Error

_START_S = 120.0


class ServedError(Error, RuntimeError):
    """A server process that did not start."""


@dataclass(frozen=True, slots=True)
class Served:
    """A server that runs: its address and its process."""

    address: str
    process: BaseProcess

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.is_alive()

    @property
    def resident_bytes(self) -> int:
        """The memory that the process takes."""
        text = Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
        line = next(line for line in text.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) << 10


@contextmanager
def served(
    device: str | Callable[[], Device], config: Config, limits: Limits | None = None, transport: str | None = None
) -> Iterator[Served]:
    """Serve a device on a free port of the loopback; a function must be picklable."""
    with child_process(_serve, device, config.to_dict(), limits, transport) as (process, pipe):
        if not pipe.poll(_START_S):
            raise ServedError(f"server: process must start within {_START_S:g} s, got nothing")
        yield Served(pipe.recv(), process)


def _serve(
    device: str | Callable[[], Device],
    config: dict[str, object],
    limits: Limits | None,
    transport: str | None,
    pipe: Connection,
) -> None:
    machine = Config.from_dict(config)
    with RemoteServer(device, machine, "127.0.0.1:0", limits=limits, transport=transport) as server:
        pipe.send(str(server.address))
        pipe.poll(None)  # until the parent closes its end or dies
