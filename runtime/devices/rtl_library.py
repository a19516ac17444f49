# SPDX-License-Identifier: Apache-2.0
"""The machine in a Verilated library: its control port, its memory model, its event log.

It holds a pointer into the DRAM array, which must outlive it. Calls release the GIL.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.runtime.devices.device import DeviceError

Ints = NDArray[np.int64]
UNIT_NUMBERS = range(3)  # load, compute, store, as in the trace
OKAY = 0
_NO_ADDRESS = 2**64 - 1
_LAST_CYCLE = 2**64 - 1
INTERRUPT, FAULT = 1, -1

_VISIT = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint64)


class MappedMemory(ctypes.Structure):
    """A range of addresses and its first byte in the memory array, as in harness/memory.h."""

    _fields_ = (("address", ctypes.c_uint64), ("bytes", ctypes.c_uint64), ("offset", ctypes.c_uint64))


class MemoryParameters(ctypes.Structure):
    """The timing and errors of the memory model; harness/memory.h describes each field."""

    _fields_ = tuple(
        (name, ctypes.c_uint32)
        for name in (
            "read_latency", "write_latency", "beat_cycles", "burst_gap", "burst_beats", "stalls", "seed",
            "error_channel", "error_burst", "error_beat", "error_response", "bus_bytes", "banks", "page_bytes",
            "page_miss", "refresh_interval", "refresh_cycles", "turnaround",
        )
    )  # fmt: skip


def memory_parameters(config: Config, **others: int) -> MemoryParameters:
    """The memory that a configuration describes, with stalls and errors as given."""
    dram = {name: value for name, value in config.dram.to_dict().items() if not name.startswith("outstanding")}
    return MemoryParameters(burst_beats=config.burst_beats, **dram, **others)


class ControlInputs(ctypes.Structure):
    """The inputs of the control port in a cycle, as in harness/machine.h."""

    _fields_ = tuple(
        (name, ctypes.c_uint32)
        for name in ("awaddr", "awvalid", "wdata", "wstrb", "wvalid", "bready", "araddr", "arvalid", "rready")
    )


class ControlOutputs(ctypes.Structure):
    """The outputs of the control port and the interrupt line, as in harness/machine.h."""

    _fields_ = tuple(
        (name, ctypes.c_uint32)
        for name in ("awready", "wready", "bresp", "bvalid", "arready", "rdata", "rresp", "rvalid", "irq")
    )


@dataclass(frozen=True, slots=True)
class EventLog:
    """The cycles of dispatches, and of starts and ends by unit, in program order."""

    dispatches: Ints
    starts: tuple[Ints, ...]
    ends: tuple[Ints, ...]

    @staticmethod
    def empty() -> EventLog:
        """The log before any run."""
        nothing = np.zeros(0, np.int64)
        units = tuple(nothing for _ in UNIT_NUMBERS)
        return EventLog(nothing, units, units)


@cache
def _load(path: Path) -> ctypes.CDLL:
    library = _open_library(path)
    machine, word, cycles = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    signatures: dict[str, tuple[object, ...]] = {
        "create": (machine, ctypes.c_void_p, cycles, ctypes.c_char_p, cycles, cycles, word, ctypes.c_char_p),
        "destroy": (None, machine),
        "configure": (None, machine, ctypes.POINTER(MemoryParameters)),
        "map": (None, machine, ctypes.POINTER(MappedMemory), cycles),
        "write": (ctypes.c_int, machine, word, word),
        "read": (ctypes.c_int, machine, word, ctypes.POINTER(word)),
        "wait": (ctypes.c_int, machine, cycles),
        "control_cycle": (None, machine, ctypes.POINTER(ControlInputs), ctypes.POINTER(ControlOutputs)),
        "forget_events": (None, machine),
        "events": (cycles, machine, ctypes.c_uint, ctypes.POINTER(ctypes.POINTER(cycles))),
        "memories": (None, machine, _VISIT),
        "quiet_cycles": (cycles, machine),
        "running_cycles": (cycles, machine),
        "wave_time": (cycles, machine, cycles),
        "bytes_read": (cycles, machine),
        "bytes_written": (cycles, machine),
        "bursts_read": (cycles, machine),
        "bursts_written": (cycles, machine),
        "error_address": (cycles, machine),
        "memory_idle": (ctypes.c_int, machine),
        "fault": (ctypes.c_char_p, machine),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, f"vdla_{name}")
        function.restype, function.argtypes = result, arguments
    return library


def _open_library(path: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise DeviceError(f"device rtl: library must load, got {error} (remove {path} to build it again)") from None


def _destroy(library: ctypes.CDLL, pointer: int, memory: NDArray[np.uint8], process: int) -> None:
    """Destroy a machine before its memory is freed.

    A forked process leaves its copy alone: the copy has no threads to join.
    """
    if process == os.getpid():
        library.vdla_destroy(pointer)


class RtlMachine:
    """One machine, reset; close it before its memory is freed.

    A `start` other than 0 seeds its registers and memories, in a library with assertions;
    `argument` is a plusarg of the model; `window` has the first and the last cycle of a run that
    waveforms have, None for all.
    """

    def __init__(
        self,
        where: str,
        path: Path,
        memory: NDArray[np.uint8],
        waves: Path | None = None,
        start: int = 0,
        argument: str | None = None,
        window: tuple[int, int] | None = None,
    ) -> None:
        self._where = where
        self._library = _load(path)
        self._memory = memory
        target = None if waves is None else os.fsencode(waves)
        plusarg = None if argument is None else argument.encode()
        first, last = window or (0, _LAST_CYCLE)
        create = self._library.vdla_create
        self._pointer: int | None = create(memory.ctypes.data, len(memory), target, first, last, start, plusarg)
        self._end = finalize(self, _destroy, self._library, self._pointer, memory, os.getpid())
        self.check()

    @property
    def _handle(self) -> int:
        """The library's pointer to the machine; DeviceError once it is closed."""
        if self._pointer is None:
            raise DeviceError(f"{self._where}: device must be open, got a call after close")
        return self._pointer

    def close(self) -> None:
        """Destroy the machine and complete its waveforms; at interpreter exit at the latest."""
        self._end()
        self._pointer = None

    def check(self) -> None:
        """DeviceError if the harness or an assertion has found a fault."""
        fault = self._library.vdla_fault(self._handle).decode(errors="replace").strip()
        if fault:
            raise DeviceError(f"{self._where}: {fault}")

    # --- the control port

    def read_word(self, offset: int) -> int:
        """The word at a byte offset."""
        value = ctypes.c_uint32()
        response = self._library.vdla_read(self._handle, offset, ctypes.byref(value))
        self._require(response, f"read of the control port at {offset:#x}")
        return value.value

    def write_word(self, offset: int, value: int) -> None:
        """Set the word at a byte offset."""
        response = self._library.vdla_write(self._handle, offset, value)
        self._require(response, f"write of the control port at {offset:#x}")

    def control_cycle(self, **inputs: int) -> ControlOutputs:
        """One cycle with these inputs of the control port, 0 for all others; its outputs."""
        outputs = ControlOutputs()
        self._library.vdla_control_cycle(self._handle, ctypes.byref(ControlInputs(**inputs)), ctypes.byref(outputs))
        self.check()
        return outputs

    def _require(self, response: int, what: str) -> None:
        self.check()
        if response < 0:
            raise DeviceError(f"{self._where}: {what} must be answered, got nothing")
        if response != OKAY:
            raise DeviceError(f"{self._where}: {what} must be accepted, got response {response}")

    # --- time

    def configure(self, parameters: MemoryParameters) -> None:
        """Set timing and errors of the memory model; the burst numbers restart at 0."""
        self._library.vdla_configure(self._handle, ctypes.byref(parameters))

    def map(self, windows: Sequence[tuple[int, int, int]]) -> None:
        """The addresses at which the memory lies: (address, bytes, offset in the array) of each
        window.
        """
        table = (MappedMemory * len(windows))(*(MappedMemory(*window) for window in windows))
        self._library.vdla_map(self._handle, table, len(windows))

    def wait(self, cycles: int) -> bool:
        """Run up to `cycles` cycles, until the interrupt line is high; whether it is."""
        result = int(self._library.vdla_wait(self._handle, cycles))
        self.check()
        return result == INTERRUPT

    @property
    def quiet_cycles(self) -> int:
        """Cycles since the last AXI transfer, dispatch, start or end."""
        return int(self._library.vdla_quiet_cycles(self._handle))

    @property
    def running_cycles(self) -> int:
        """Cycles of the run, from the trace port."""
        return int(self._library.vdla_running_cycles(self._handle))

    def wave_time(self, cycle: int) -> int:
        """The time in the waveforms at which a cycle of the last run begins."""
        return int(self._library.vdla_wave_time(self._handle, cycle))

    @property
    def bytes_moved(self) -> tuple[int, int]:
        """Bytes read and written at the memory since `forget_events`."""
        library = self._library
        return int(library.vdla_bytes_read(self._handle)), int(library.vdla_bytes_written(self._handle))

    @property
    def bursts(self) -> tuple[int, int]:
        """Read and write bursts at the memory since `configure`, over all ports."""
        library = self._library
        return int(library.vdla_bursts_read(self._handle)), int(library.vdla_bursts_written(self._handle))

    @property
    def error_address(self) -> int | None:
        """Where the burst lies that was answered with the configured error; None if none was."""
        address = int(self._library.vdla_error_address(self._handle))
        return None if address == _NO_ADDRESS else address

    @property
    def memory_idle(self) -> bool:
        """Whether no transaction is outstanding."""
        return bool(self._library.vdla_memory_idle(self._handle))

    def memories(self) -> dict[str, NDArray[np.uint8]]:
        """Copies of the memories of the buffers, `uint8[elements, bytes]`, by hierarchical name."""
        result: dict[str, NDArray[np.uint8]] = {}

        def visit(name: bytes, data: int, elements: int, element_bytes: int) -> None:
            content = ctypes.string_at(data, elements * element_bytes)
            result[name.decode()] = np.frombuffer(content, np.uint8).reshape(elements, element_bytes)

        self._library.vdla_memories(self._handle, _VISIT(visit))
        return result

    # --- the trace

    def forget_events(self) -> None:
        """Forget the events, cycles and bytes of earlier runs."""
        self._library.vdla_forget_events(self._handle)

    def trace(self) -> EventLog:
        """The events since `forget_events`."""
        starts, ends = ([self._events(kind + unit) for unit in UNIT_NUMBERS] for kind in (1, 1 + len(UNIT_NUMBERS)))
        return EventLog(self._events(0), tuple(starts), tuple(ends))

    def _events(self, kind: int) -> Ints:
        cycles = ctypes.POINTER(ctypes.c_uint64)()
        count = self._library.vdla_events(self._handle, kind, ctypes.byref(cycles))
        return np.ctypeslib.as_array(cycles, (count,)).astype(np.int64) if count else np.zeros(0, np.int64)
