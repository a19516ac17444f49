# SPDX-License-Identifier: Apache-2.0
"""The machine as its register file over the simulator: a run takes no time that software sees.

While a stream is busy, progress and counters read 0; at its end they are those of the hardware.
Cycles pass in the simulator alone: only STATUS says when a run is over.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from threading import Condition, Event, Lock, Thread

from vdla.boards.virtual.bitstream import Machine, build_numbers
from vdla.boards.virtual.fabric import MemoryWindow, refused
from vdla.boards.virtual.page_map import PageMap
from vdla.boards.virtual.stream_run import StreamOutcome, StreamRequest, run_stream
from vdla.hardware.config import Config
from vdla.hardware.generate.registers import (
    OFFSETS,
    REGISTERS,
    ErrorCode,
    Register,
    RegisterAccess,
    counter_offset,
    tokens_register,
)
from vdla.hardware.isa import COUNTERS, QUEUES, UNITS, Unit
from vdla.support.arrays import Bytes

_BITS = {(register.name, bit.name): 1 << bit.position for register in REGISTERS for bit in register.bits}
_BY_OFFSET = {register.offset: register for register in REGISTERS}
_SETUP = tuple(register for register in REGISTERS if register.access == RegisterAccess.RW)
_IDLE = StreamOutcome(over=True)
_WORD = 0xFFFFFFFF
_log = logging.getLogger(__name__)


class SimFabric:
    """The registers of docs/registers.md over the simulator; runs are in a thread of their own."""

    def __init__(self, machine: Machine, memory: Bytes, pause_s: float = 0) -> None:
        self._config = machine.config
        self._memory = memory
        self._pause_s = pause_s
        self._setup = {register.offset: register.reset for register in _SETUP}
        self._identity = _identity(machine)
        self._outcome, self._busy, self._over = _IDLE, False, False
        self._enable = self._pending = self._active = False
        self._pages = PageMap(())
        self._windows: frozenset[MemoryWindow] = frozenset()
        self._lock = Lock()
        self._executing = Condition(Lock())
        self._executions = 0
        self._cancel = Event()

    # --- the control port

    def read_word(self, offset: int) -> int:
        """The word at an offset."""
        register = _BY_OFFSET.get(offset)
        if register is None:
            raise refused("read", offset)
        with self._lock:
            return self._value(register)

    def _value(self, register: Register) -> int:
        offset = register.offset
        if offset in self._identity:
            return self._identity[offset]
        if offset in self._setup:
            return self._setup[offset]
        flags = {
            "CONTROL": 0,
            "STATUS": self._status(),
            "INTERRUPT": self._enable * _BITS["INTERRUPT", "enable"] | self._pending * _BITS["INTERRUPT", "pending"],
        }
        if register.name in flags:
            return flags[register.name]
        return _results(self._outcome).get(offset, 0)

    def _status(self) -> int:
        error = self._outcome.error != ErrorCode.NONE
        done = self._over and not error
        return self._busy * _BITS["STATUS", "busy"] | done * _BITS["STATUS", "done"] | error * _BITS["STATUS", "error"]

    def write_word(self, offset: int, value: int) -> None:
        """Set the word at an offset."""
        register = _BY_OFFSET.get(offset)
        if register is None or register.access == RegisterAccess.RO:
            raise refused("write", offset)
        with self._lock:
            if register.name == "CONTROL":
                self._command(value)
            elif register.name == "INTERRUPT":
                self._enable = bool(value & _BITS["INTERRUPT", "enable"])
                self._pending &= not value & _BITS["INTERRUPT", "pending"]
            else:
                self._set_up(register, value & _WORD)

    def _set_up(self, register: Register, value: int) -> None:
        limits = register.limits
        if self._busy or (limits is not None and not limits[0] <= value <= limits[1]):
            raise refused("write", register.offset)
        self._setup[register.offset] = value & ((1 << register.width) - 1)

    def _command(self, value: int) -> None:
        if value & _BITS["CONTROL", "reset"]:
            self._reset()
        elif value & _BITS["CONTROL", "start"]:
            if self._busy:
                raise refused("write", OFFSETS["CONTROL"])
            self._start()

    # --- runs

    def _start(self) -> None:
        self._busy, self._over, self._outcome = True, False, _IDLE
        self._cancel, self._active = Event(), True
        with self._executing:
            self._executions += 1
        Thread(target=self._run, args=(self._request(), self._limits(), self._pages, self._cancel), daemon=True).start()

    def _request(self) -> StreamRequest:
        setup = {register.name: self._setup[register.offset] for register in _SETUP}
        address = setup["STREAM_HI"] << 32 | setup["STREAM_LO"]
        return StreamRequest(address // self._config.axi_bytes * self._config.axi_bytes, setup["COUNT"])

    def _limits(self) -> Config:
        """The configuration under the limits of the registers."""
        reads, writes = (self._setup[OFFSETS[name]] for name in ("READ_LIMIT", "WRITE_LIMIT"))
        dram = replace(self._config.dram, outstanding_reads=reads, outstanding_writes=writes)
        return replace(self._config, dram=dram)

    def _run(self, request: StreamRequest, config: Config, pages: PageMap, cancel: Event) -> None:
        outcome = StreamOutcome(over=False)
        try:
            outcome = run_stream(config, self._memory, pages, request, cancel.is_set)
        except Exception:
            _log.exception("the simulator failed; the machine stays busy")
        finally:
            with self._executing:
                self._executions -= 1
                self._executing.notify_all()
        if outcome.over:
            cancel.wait(self._pause_s)
        self._end(outcome, cancel)

    def _end(self, outcome: StreamOutcome, cancel: Event) -> None:
        """Show the outcome of a run; one that never ends stays busy, one that is reset is idle."""
        with self._lock:
            self._active = False
            if cancel.is_set():
                self._busy = False
                return
            self._outcome = outcome
            if outcome.over:
                self._busy, self._over, self._pending = False, True, True

    def _reset(self) -> None:
        """Stop: the machine is busy until a run has noticed it."""
        self._cancel.set()
        self._busy, self._over, self._outcome = self._active, False, _IDLE

    # --- the rest of the machine

    @property
    def interrupt(self) -> bool:
        """The level of the interrupt line."""
        return self._enable and self._pending

    @property
    def running(self) -> bool:
        """Whether a stream is executing."""
        with self._executing:
            return self._executions > 0

    def map(self, windows: Sequence[MemoryWindow]) -> None:
        """Set what the machine reaches; waits for a run that reaches what it loses."""
        kept = frozenset(windows)
        with self._lock:
            lost = self._windows - kept
            self._windows, self._pages = kept, PageMap(windows)
        if lost:
            self._quiet()

    def _quiet(self) -> None:
        with self._executing:
            self._executing.wait_for(lambda: self._executions == 0)

    def close(self) -> None:
        """End a run."""
        self._cancel.set()
        self._quiet()


def _identity(machine: Machine) -> dict[int, int]:
    """The registers that never change."""
    fingerprint = int(machine.config.fingerprint, 16)
    values = {register.name: register.reset for register in REGISTERS if register.name in ("ID", "VERSION")}
    values |= {"FINGERPRINT_LO": fingerprint & _WORD, "FINGERPRINT_HI": fingerprint >> 32}
    values |= dict(zip(("BUILD_LO", "BUILD_HI"), build_numbers(machine.build), strict=True))
    return {OFFSETS[name]: value for name, value in values.items()}


def _results(outcome: StreamOutcome) -> dict[int, int]:
    """The registers of an outcome, by offset; those that are left out read 0."""
    values = {"ERROR": int(outcome.error), "ERROR_INDEX": outcome.error_index, "DISPATCHED": outcome.dispatched}
    values |= {"CYCLES_LO": outcome.cycles & _WORD, "CYCLES_HI": outcome.cycles >> 32}
    for unit in Unit:
        values[f"{unit.name}_STARTED"], values[f"{unit.name}_ENDED"] = outcome.started[unit], outcome.ended[unit]
        values[f"{unit.name}_COMMANDS"] = outcome.commands[unit]
    for queue, tokens in zip(QUEUES, outcome.tokens, strict=True):
        values[tokens_register(queue)] = tokens
    by_offset = {OFFSETS[name]: value for name, value in values.items()}
    for name, row in zip(UNITS, outcome.counters, strict=False):
        for counter, cycles in zip(COUNTERS, row, strict=True):
            offset = counter_offset(name, counter)
            by_offset[offset], by_offset[offset + 4] = cycles & _WORD, cycles >> 32
    return by_offset
