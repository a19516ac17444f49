# SPDX-License-Identifier: Apache-2.0
"""A virtual board: contiguous memory and a fabric behind the services of PYNQ.remote.

    with VirtualBoard(load_board("pynq_z1"), PRESETS["pynq_z1"], fabric="sim") as served:
        ...  # a client of PYNQ with PYNQ_REMOTE_DEVICES=127.0.0.1

The fabric is empty until a client writes a bitstream to it. The services run in threads; a process
that has one must not fork.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Sequence
from threading import Lock, Thread
from types import ModuleType
from typing import TYPE_CHECKING

from vdla.boards.board import HIGH_DRAM_BASE, Board
from vdla.boards.virtual.active_faults import ActiveFaults
from vdla.boards.virtual.address_space import AddressSpace
from vdla.boards.virtual.bitstream import machine_of, preset
from vdla.boards.virtual.board_files import BoardFiles
from vdla.boards.virtual.buffer_service import BufferService
from vdla.boards.virtual.device_service import DeviceService
from vdla.boards.virtual.fabric import BusError, Fabric, MemoryWindow
from vdla.boards.virtual.fabrics import build_fabric, prepare_fabric
from vdla.boards.virtual.faults import Fault, FullMemory, OtherBitstream
from vdla.boards.virtual.gpio_service import GpioService
from vdla.boards.virtual.guard import Guard
from vdla.boards.virtual.memory import BASE_ADDRESS, DEFAULT_BYTES, BoardMemory
from vdla.boards.virtual.mmio_service import MmioService
from vdla.boards.virtual.server import PORT, BoardServer, Service
from vdla.boards.virtual.slcr import SystemRegisters
from vdla.hardware.config import Config
from vdla.hardware.generate.registers import OFFSETS
from vdla.runtime.devices.pynq_messages import messages
from vdla.support.errors import Error

if TYPE_CHECKING:
    from typing_extensions import Self

_CONTROL, _START = OFFSETS["CONTROL"], 1
_AWAY_S = 0.3  # how long a board is out of reach after its connections dropped


class AddressError(Error, ValueError):
    """An address that a virtual board must not have."""


def _require_local(address: str) -> None:
    """AddressError for an address that others reach: PYNQ.remote has neither secrets nor users."""
    if not address.startswith(("127.", "unix:")) and address not in ("localhost", "[::1]"):
        raise AddressError(
            f"board serve: address must be a loopback address or unix:PATH, since PYNQ.remote has no passwords, "
            f"got {address} (from another host, use ssh -L)"
        )


def _base(board: Board, *, high_memory: bool) -> int:
    """Where the contiguous memory begins."""
    if not high_memory:
        return BASE_ADDRESS
    if all(base < HIGH_DRAM_BASE for base, _ in board.memory_regions):
        raise AddressError(
            f"board serve: --high-memory must be of a board with DRAM beyond 2 GiB, got {board.title}; "
            "try --board kv260"
        )
    return HIGH_DRAM_BASE


class VirtualBoard:
    """A board that runs `config`, of any clock, once programmed; `fabric` is `sim` or `rtl`.

    With `high_memory`, the contiguous memory lies beyond the first 4 GiB of addresses.
    """

    def __init__(
        self,
        board: Board,
        config: Config,
        *,
        fabric: str = "sim",
        faults: Iterable[Fault] = (),
        address: str = "127.0.0.1",
        port: int = PORT,
        memory_bytes: int = DEFAULT_BYTES,
        high_memory: bool = False,
    ) -> None:
        self.board, self.config = board, config
        _require_local(address)
        self._fabric_name = fabric
        prepare_fabric(fabric, config)
        self._fabric: Fabric | None = None
        self._fabric_lock = Lock()
        self._server_lock = Lock()
        self._closed = False
        self.faults = ActiveFaults()
        self.memory = BoardMemory(memory_bytes, _base(board, high_memory=high_memory))
        self.memory.changed = self._map
        self.files = BoardFiles(board, self.memory, self._program)
        self._server = BoardServer(self._services(), Guard(self), address, port)
        for fault in faults:
            self.inject(fault)

    def _services(self) -> Sequence[tuple[Service, ModuleType]]:
        board = self.board
        registers = SystemRegisters(board.processor, board.interrupt_controller_base)
        space = AddressSpace(registers, self, board.control_base, board.control_bytes)
        return (
            (DeviceService(self.files), messages("remote_device")),
            (MmioService(space, secrets.token_hex(4)), messages("mmio")),
            (BufferService(self.memory), messages("buffer")),
            (GpioService(board.processor), messages("gpio")),
        )

    # --- lifetime

    @property
    def address(self) -> str:
        """The address for PYNQ_REMOTE_DEVICES."""
        return self._server.address

    @property
    def port(self) -> int:
        """The port; the client of PYNQ connects to 7967 only."""
        return self._server.port

    def start(self) -> None:
        """Listen for clients."""
        self._server.start()

    def close(self) -> None:
        """End the services and the fabric."""
        with self._server_lock:
            self._closed = True
            self._server.stop()
        with self._fabric_lock:
            if self._fabric is not None:
                self._fabric.close()
                self._fabric = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # --- the fabric

    def _program(self, payload: bytes) -> None:
        """Configure the fabric with a bitstream."""
        machine = machine_of(payload, self.config, self.faults.other_preset)
        fabric = build_fabric(self._fabric_name, machine, self.memory.data, self.faults.pause_s)
        with self._fabric_lock:
            if self._fabric is not None:
                self._fabric.close()
            self._fabric = fabric
            fabric.map(self.memory.windows())

    def _map(self, windows: Sequence[MemoryWindow]) -> None:
        with self._fabric_lock:
            if self._fabric is not None:
                self._fabric.map(windows)

    def _configured(self) -> Fabric:
        fabric = self._fabric
        if fabric is None:
            raise BusError("fabric: a bitstream must be loaded before its registers are used, got none")
        return fabric

    def read_word(self, offset: int) -> int:
        """A word of the accelerator's control port."""
        return self._configured().read_word(offset)

    def write_word(self, offset: int, value: int) -> None:
        """Set a word of the accelerator's control port."""
        fabric = self._configured()
        if offset == _CONTROL and value & _START:
            self.faults.start(self.memory)
        fabric.write_word(offset, value)

    @property
    def interrupt(self) -> bool:
        """The level of the interrupt line at the processor."""
        fabric = self._fabric
        return fabric is not None and fabric.interrupt and not self.faults.loses_interrupts

    @property
    def running(self) -> bool:
        """Whether the machine executes a stream."""
        fabric = self._fabric
        return fabric is not None and fabric.running

    # --- faults

    def inject(self, fault: Fault) -> None:
        """Give the board a fault, from now on."""
        if isinstance(fault, OtherBitstream):
            preset(fault.preset)
        if isinstance(fault, FullMemory):
            self.memory.reserved = max(0, self.memory.free_bytes - fault.free_bytes)
        self.faults.add(fault)

    def arrive(self, method: str) -> bool:
        """Delay a request where that is a fault; False where its connection drops."""
        delay_s = self.faults.delay_s
        if delay_s:
            time.sleep(delay_s)
        if not self.faults.drops():
            return True
        Thread(target=self._drop, name="vdla-drop", daemon=True).start()
        return False

    def _drop(self) -> None:
        """Cut all connections; listen on the same port again after a while."""
        with self._server_lock:
            if self._closed:
                return
            self._server.stop(grace_s=0)
            time.sleep(_AWAY_S)
            self._server.start()
