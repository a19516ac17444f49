# SPDX-License-Identifier: Apache-2.0
"""A remote device: `open_device("pynq://host:port", config)`.

Every access is checked here as the server checks it. Writes wait until a run or a read sends them;
a run brings small outputs along with its statistics.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from os import PathLike
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.program import Program, placed_sizes
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.client_name import client_name
from vdla.runtime.devices.request_checks import flat_bytes, require_addresses, require_config
from vdla.runtime.remote.address import Address
from vdla.runtime.remote.client_memory import ClientMemory
from vdla.runtime.remote.connection import Connection, NotExecuted
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.errors import UNKNOWN_CONTENT, RemoteError
from vdla.runtime.remote.messages import (
    VERSION,
    Allocate,
    BatchReply,
    Hello,
    Operation,
    Read,
    Run,
    WriteBytes,
    WriteKnown,
)
from vdla.runtime.remote.run_record import from_record
from vdla.simulator.stats import RunStats
from vdla.simulator.support.errors import require_program
from vdla.simulator.verify import require_verified
from vdla.support.integers import is_int

if TYPE_CHECKING:
    from typing_extensions import Self

Bytes = NDArray[np.uint8]
CACHED_BYTES = 1 << 16
"""Writes of at least this size may be constants, which are cached by hash."""
_MOST_WAITING = 512
_MOST_CONTENTS = 8
_UPLOADS = 3


class RemoteDevice:
    """A session with the server at `address`; see docs/remote.md.

    `timeout_cycles` limits every run; the server has a limit of its own. `reserve_s` keeps other
    clients away for so many seconds. `device_s` is the time that the server's device took for the
    last run.
    """

    def __init__(
        self,
        config: Config,
        address: str,
        memory_bytes: int | None = None,
        timeout_cycles: int | None = None,
        *,
        tls: str | PathLike[str] | None = None,
        token: str | None = None,
        token_file: str | PathLike[str] | None = None,
        connect_s: float = 10.0,
        wait_s: float = 600.0,
        reserve_s: float | None = None,
    ) -> None:
        where = Address.parse(address)
        self.name = str(where)
        require_config(f"device {self.name}", config)
        for what, value in (("size of memory in bytes", memory_bytes), ("timeout in cycles", timeout_cycles)):
            if value is not None and (not is_int(value) or value < 1):
                raise DeviceError(f"device {self.name}: {what} must be an integer from 1, got {value!r}")
        self.timeout_cycles = None if timeout_cycles is None else int(timeout_cycles)
        self.device_s = 0.0
        self.runs = 0
        hello = Hello(VERSION, client_name(), "", None if memory_bytes is None else int(memory_bytes), None)
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        connection = Connection(where, Credentials.of(tls, token, token_file), hello, connect_s, wait_s)
        try:
            self.config = self._configuration(connection, config)
            if reserve_s is not None:
                connection.reserve(float(reserve_s))
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self._chunk_bytes = connection.welcome.chunk_bytes
        self._memory = ClientMemory(f"device {self.name}")
        self._varying: set[int] = set()  # addresses of blocks whose next write is hardly a constant
        self._hashes: WeakKeyDictionary[Program, tuple[str, bytes]] = WeakKeyDictionary()
        self._held: set[str] = set()  # contents that the server held when it was asked
        self._contents: dict[str, bytes] = {}  # those that waiting operations name
        self._brought: dict[tuple[int, int], Bytes] = {}

    def _configuration(self, connection: Connection, config: Config) -> Config:
        """The configuration of the server's machine; RemoteError where ours differs."""
        result = Config.from_dict(connection.welcome.config)
        mismatch = config.mismatch(result)
        if mismatch is not None:
            raise RemoteError(f"device {self.name}: {mismatch}")
        return result

    # --- memory

    def allocate(self, nbytes: int) -> int:
        """The address of zeroed memory, a multiple of ALIGNMENT."""
        with self._lock:
            self._open()
            size = self._memory.size(nbytes)
            spare = self._memory.reuse(size)
            if spare is not None:
                self._brought.clear()
                self._flush_if_long()
                return spare
            self._memory.release_spare()
            reply, _ = self._send([Allocate(size)])
            address = reply.values[-1]
            self._varying.discard(address)
            self._memory.add(address, size)
            return address

    def free(self, address: int) -> None:
        """Free a block that `allocate` returned."""
        with self._lock:
            self._open()
            self._memory.free(address)
            self._varying.add(address)
            self._brought.clear()
            self._flush_if_long()

    def write(self, address: int, data: Bytes) -> None:
        """Copy bytes into allocated memory."""
        with self._lock:
            self._open()
            content = flat_bytes(f"device {self.name}", data).tobytes()
            start, nbytes = self._memory.require(address, len(content))
            self._brought.clear()
            if nbytes >= CACHED_BYTES and self._write_known(start, content):
                return
            for offset in range(0, nbytes, self._chunk_bytes):
                part = content[offset : offset + self._chunk_bytes]
                if self._memory.waiting_bytes + len(part) > self._chunk_bytes:
                    self._send([])
                self._memory.wait(WriteBytes(start + offset, len(part)), part)
            self._flush_if_long()

    def _write_known(self, address: int, content: bytes) -> bool:
        """Write what the server holds, or what is probably a constant; whether it was.

        The first write of a new block is taken for a constant. Later ones, and those of a block
        that was used before, are inputs, unless the server has their content already.
        """
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 not in self._held:
            if address in self._varying:
                return False
            self._open().ensure(sha256, content)
            self._held.add(sha256)
        self._varying.add(address)
        self._contents[sha256] = content
        self._memory.wait(WriteKnown(address, sha256))
        self._flush_if_long()
        return True

    def _flush_if_long(self) -> None:
        if len(self._memory.waiting) > _MOST_WAITING or len(self._contents) > _MOST_CONTENTS:
            self._send([])

    def read(self, address: int, nbytes: int) -> Bytes:
        """Copy bytes out of allocated memory."""
        with self._lock:
            self._open()
            start, count = self._memory.require(address, nbytes)
            brought = self._brought.get((start, count))
            if brought is not None:
                return brought.copy()
            result = np.empty(count, np.uint8)
            for offset in range(0, count, self._chunk_bytes):
                size = min(self._chunk_bytes, count - offset)
                _, data = self._send([Read(start + offset, size)])
                result[offset : offset + size] = np.frombuffer(data[:size], np.uint8)
            return result

    # --- programs

    def run(self, program: Program, addresses: Mapping[str, int]) -> RunStats:
        """Run a program to its end; VerifyError or DeviceError where it cannot."""
        with self._lock:
            self._open()
            require_program(f"device {self.name}", program)
            places = self._checked(program, addresses)
            require_verified(program)
            sha256, content = self._hashed(program)
            reads = self._reads(program, places)
            run = Run(sha256, places, self.timeout_cycles)
            self._brought.clear()
            if sha256 not in self._held:
                self._open().ensure(sha256, content)
                self._held.add(sha256)
            self._contents[sha256] = content
            reply, data = self._send([run, *reads])
            return self._finished(program, reads, reply, data)

    def _checked(self, program: Program, addresses: Mapping[str, int]) -> dict[str, int]:
        """The address of every tensor and of the stream."""
        require_addresses(f"device {self.name}", self.config, program, addresses, self._memory.require)
        return {name: int(addresses[name]) for name in placed_sizes(program)}

    def _hashed(self, program: Program) -> tuple[str, bytes]:
        if program not in self._hashes:
            content = program.to_bytes()
            self._hashes[program] = (hashlib.sha256(content).hexdigest(), content)
        return self._hashes[program]

    def _reads(self, program: Program, places: Mapping[str, int]) -> list[Operation]:
        """Outputs sent along with the result where they fit into a message."""
        reads: list[Operation] = []
        room = self._chunk_bytes
        for tensor in program.tensors:
            if tensor.role == "output" and tensor.nbytes <= room:
                reads.append(Read(places[tensor.name], tensor.nbytes))
                room -= tensor.nbytes
        return reads

    def _finished(self, program: Program, reads: list[Operation], reply: BatchReply, data: memoryview) -> RunStats:
        position = 0
        for read in reads:
            assert isinstance(read, Read)
            part = data[position : position + read.nbytes]
            self._brought[read.address, read.nbytes] = np.frombuffer(part, np.uint8)
            position += read.nbytes
        if reply.record is None:
            raise RemoteError(f"device {self.name}: reply to a run must have statistics, got none")
        self.device_s = reply.record.device_s
        self.runs += 1
        return from_record(reply.record, data[position:], program, self.config, f"device {self.name}")

    # --- messages

    def _send(self, operations: list[Operation]) -> tuple[BatchReply, memoryview]:
        """The reply to all that waits and to these operations; DeviceError where one failed."""
        waiting, parts = self._memory.take()
        todo = [*waiting, *operations]
        if not todo:
            return BatchReply((), None, None), memoryview(b"")
        try:
            reply, data = self._batch(todo, parts)
        except NotExecuted:
            self._memory.restore(waiting, parts)
            raise
        self._contents.clear()
        if reply.failure is not None:
            raise RemoteError(reply.failure.message, reply.failure.code)
        if len(reply.values) != len(todo):
            raise RemoteError(f"device {self.name}: reply must have {len(todo)} values, got {len(reply.values)}")
        return reply, data

    def _batch(self, operations: list[Operation], parts: list[bytes]) -> tuple[BatchReply, memoryview]:
        """The reply to a batch; contents that the server has dropped are uploaded again."""
        for _ in range(_UPLOADS):
            try:
                return self._open().batch(operations, parts)
            except NotExecuted as error:
                if error.code != UNKNOWN_CONTENT:
                    raise
                for sha256, content in self._contents.items():
                    self._open().ensure(sha256, content)
        return self._one_by_one(operations, parts)

    def _one_by_one(self, operations: list[Operation], parts: list[bytes]) -> tuple[BatchReply, memoryview]:
        """The reply to the last operations, after each constant was sent on its own.

        The server's cache does not hold all contents of the batch at a time.
        """
        connection, pending = self._open(), list(parts)
        for done, operation in enumerate(operations):
            try:
                if isinstance(operation, Run | WriteKnown):
                    connection.ensure(operation.sha256, self._contents[operation.sha256])
                if isinstance(operation, Run | Read | Allocate):  # these are last
                    reply, data = connection.batch(operations[done:])
                    return BatchReply((0,) * done + reply.values, reply.record, reply.failure), data
                reply, data = connection.batch([operation], pending[:1] if isinstance(operation, WriteBytes) else [])
            except NotExecuted as error:
                kept = [item for item in operations[done:] if not isinstance(item, Run | Read | Allocate)]
                self._memory.restore(kept, pending)
                raise RemoteError(str(error), error.code) from None
            if isinstance(operation, WriteBytes):
                del pending[0]
            if reply.failure is not None:
                return reply, data
        return BatchReply((0,) * len(operations), None, None), memoryview(b"")

    # --- lifetime

    def _open(self) -> Connection:
        if self._connection is None:
            raise DeviceError(f"device {self.name}: device must be open, got a call after close")
        return self._connection

    def close(self) -> None:
        """End the session; the server releases everything."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
