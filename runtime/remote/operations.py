# SPDX-License-Identifier: Apache-2.0
"""A batch of operations: prepared when it arrives, executed in the thread of the device.

Preparing refuses whatever can be refused without the device, unsafe programs included. A program
runs with the micro-ops that were verified, and with places that share no byte: otherwise the
machine could fetch words that nobody verified.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.isa import COL, Buffer, Opcode
from vdla.hardware.program import Program, ProgramError, ProgramTensor, placed_sizes, require_apart
from vdla.runtime.devices import Device, DeviceError
from vdla.runtime.remote.content_cache import ContentCache
from vdla.runtime.remote.errors import DEVICE, RemoteError
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.messages import (
    Allocate,
    BatchReply,
    Clear,
    Failure,
    Operation,
    Read,
    Release,
    Run,
    RunRecord,
    WriteBytes,
    WriteKnown,
    send,
)
from vdla.runtime.remote.run_record import to_record
from vdla.runtime.remote.sessions import Session, SessionMemory
from vdla.simulator.verify import require_verified
from vdla.support.errors import Error

_CLEAR_BYTES = 1 << 20
Content = memoryview | bytes | Program | None


@dataclass(frozen=True, slots=True)
class PreparedBatch:
    """Operations, each with what it needs: bytes to write, a program to run."""

    steps: tuple[tuple[Operation, Content], ...]


def prepare(
    operations: Sequence[Operation], data: memoryview, contents: ContentCache, config: Config, limits: Limits
) -> PreparedBatch:
    """The batch; RemoteError, ProgramError or VerifyError where it must not reach the device."""
    if len(operations) > limits.operations:
        raise RemoteError(f"batch: operations must be at most {limits.operations}, got {len(operations)}")
    if sum(isinstance(operation, Run) for operation in operations) > 1:
        raise RemoteError("batch: at most one operation must be a Run, got more")
    replied = sum(max(0, operation.nbytes) for operation in operations if isinstance(operation, Read))
    if replied > limits.message_bytes:
        raise RemoteError(f"batch: bytes to read must be at most {limits.message_bytes}, got {replied}")
    steps: list[tuple[Operation, Content]] = []
    position = 0
    for operation in operations:
        content: Content = None
        match operation:
            case WriteBytes():
                if not 0 <= operation.nbytes <= len(data) - position:
                    raise RemoteError(
                        f"batch: bytes to write must be at most the {len(data) - position} left, got {operation.nbytes}"
                    )
                content = data[position : position + operation.nbytes]
                position += operation.nbytes
            case WriteKnown():
                content = _constant(operation.sha256, contents)
            case Run():
                content = _program(operation, contents, config)
        steps.append((operation, content))
    if position != len(data):
        raise RemoteError(f"batch: bytes behind the header must be {position}, got {len(data)}")
    return PreparedBatch(tuple(steps))


def _constant(sha256: str, contents: ContentCache) -> bytes:
    content = contents.get(sha256)
    return content.to_bytes() if isinstance(content, Program) else content


def _program(operation: Run, contents: ContentCache, config: Config) -> Program:
    """A verified program of this machine, with places that do not overlap."""
    content = contents.get(operation.sha256)
    program = content if isinstance(content, Program) else _parsed(operation.sha256, content, contents)
    mismatch = program.config.mismatch(config)
    if mismatch is not None:
        raise DeviceError(f"program {program.name}: {mismatch}")
    require_verified(program)
    missing = [name for name in placed_sizes(program) if name not in operation.addresses]
    if missing:
        given = ", ".join(operation.addresses) or "none"
        raise DeviceError(f"program {program.name}: addresses must include {missing[0]}, got {given}")
    require_apart(program, operation.addresses)
    return program


def _parsed(sha256: str, content: bytes, contents: ContentCache) -> Program:
    try:
        program = Program.from_bytes(content, f"content {sha256[:12]}")
    except Error:
        raise
    except Exception as error:  # a hostile file; whatever it trips over, it is not a program
        raise ProgramError(f"content {sha256[:12]}: content must be a program, got {type(error).__name__}") from None
    contents.put_program(sha256, program, len(content))
    return program


def _micro_ops(program: Program) -> list[ProgramTensor]:
    """The constants from which the program loads micro-ops; their content was verified."""
    table = program.columns
    loads = (table[:, COL["opcode"]] == Opcode.LOAD) & (table[:, COL["buffer"]] == Buffer.UOP)
    numbers = sorted({int(number) for number in program.tensor_of[loads]} - {-1})
    return [program.tensors[number] for number in numbers if program.tensors[number].data is not None]


# --- in the thread of the device


@dataclass(slots=True)
class BatchExecution:
    """The execution of one batch; `reply` is the message of what was done."""

    device: Device
    session: Session
    memory: SessionMemory
    most_cycles: int
    values: list[int] = field(default_factory=list)
    parts: list[bytes | memoryview] = field(default_factory=list)
    times: list[bytes] = field(default_factory=list)
    record: RunRecord | None = None
    failed: str = ""

    def run(self, batch: PreparedBatch) -> bytes:
        """The reply after all operations, or up to the first that fails."""
        try:
            for operation, content in batch.steps:
                self.values.append(self._execute(operation, content))
        except Error as error:
            self.failed = str(error)
            return self.reply(Failure(DEVICE, self.failed))
        return self.reply(None)

    def reply(self, failure: Failure | None) -> bytes:
        """The message of what was done so far."""
        message = BatchReply(tuple(self.values), self.record, failure)
        return send(message, [*self.parts, *self.times])

    def _execute(self, operation: Operation, content: Content) -> int:
        device, session = self.device, self.session
        match operation:
            case Allocate(nbytes):
                return self.memory.allocate(device, session, nbytes)
            case Release(address):
                self.memory.release(device, session, address)
            case Clear(address, nbytes):
                self.memory.require(device, session, address, nbytes)
                for start in range(0, nbytes, _CLEAR_BYTES):
                    device.write(address + start, np.zeros(min(_CLEAR_BYTES, nbytes - start), np.uint8))
            case WriteBytes(address, _) | WriteKnown(address, _):
                assert isinstance(content, memoryview | bytes)
                self.memory.require(device, session, address, len(content))
                device.write(address, np.frombuffer(content, np.uint8))
            case Read(address, nbytes):
                self.memory.require(device, session, address, nbytes)
                self.parts.append(device.read(address, nbytes).tobytes())
                return nbytes
            case Run():
                assert isinstance(content, Program)
                self._run(operation, content)
        return 0

    def _run(self, operation: Run, program: Program) -> None:
        device = self.device
        addresses = {name: operation.addresses[name] for name in placed_sizes(program)}
        for name, nbytes in placed_sizes(program).items():
            self.memory.require(device, self.session, addresses[name], nbytes)
        for tensor in _micro_ops(program):
            device.write(addresses[tensor.name], np.frombuffer(tensor.data or b"", np.uint8))
        before = getattr(device, "timeout_cycles", None)
        limits = [cycles for cycles in (before, operation.timeout_cycles, self.most_cycles) if cycles is not None]
        if hasattr(device, "timeout_cycles"):
            device.timeout_cycles = max(1, min(limits))
        try:
            start = time.perf_counter()
            statistics = device.run(program, addresses)
            device_s = time.perf_counter() - start
        finally:
            if hasattr(device, "timeout_cycles"):
                device.timeout_cycles = before
        self.record, self.times = to_record(statistics, device_s)
