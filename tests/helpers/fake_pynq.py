# SPDX-License-Identifier: Apache-2.0
"""A board in this process under the names of the package `pynq`, for tests of the driver.

`FakeBoard` has registers and memory but computes nothing: what its machine does, when calls fail
and what they raise is set by the test.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.generate.registers import ID, OFFSETS, VERSION
from vdla.runtime.devices.overlay import IP_VLNV

BUSY, DONE, ERROR = 1, 2, 4
MEMINFO = "MemTotal: 505068 kB\nCmaTotal: 131072 kB\nCmaFree: 512 kB\n"


class RpcError(Exception):
    """An error with the attributes of gRPC's."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"<_InactiveRpcError of RPC: status = {code}\n details = {details}>")
        self._code, self._details = code, details

    def code(self) -> Any:
        return SimpleNamespace(name=self._code)

    def details(self) -> str:
        return self._details


class FakeBuffer(np.ndarray):
    """A buffer with two copies: this array, and `dram`; both begin with garbage."""

    board: FakeBoard
    dram: np.ndarray
    address: int

    @property
    def physical_address(self) -> int:
        self.board.call("physical_address")
        return self.address

    def flush(self) -> None:
        self.board.call("flush")
        self.dram[:] = self

    def invalidate(self) -> None:
        self.board.call("invalidate")
        self[:] = self.dram

    def freebuffer(self) -> None:
        self.board.call("free")
        self.board.buffers.remove(self.address)


class FakeBoard:
    """The board; `polls` is how often STATUS is busy after a start, None for ever."""

    def __init__(self, config: Config, build: int = 0) -> None:
        fingerprint = int(config.fingerprint, 16)
        self.registers = {
            "ID": ID, "VERSION": VERSION,
            "FINGERPRINT_LO": fingerprint & 0xFFFFFFFF, "FINGERPRINT_HI": fingerprint >> 32,
            "BUILD_LO": build & 0xFFFFFFFF, "BUILD_HI": build >> 32,
        }  # fmt: skip
        self.parameters = {"COHERENT": "0"}
        self.ip_type = IP_VLNV
        self.capabilities: dict[str, bool] = {}
        self.polls: int | None = 2
        self.end_status, self.cycles = DONE, 100
        self.resets_to_idle = True
        self.calls: list[str] = []
        self.fails: Callable[[str], None] = lambda call: None
        self.buffers: list[int] = []
        self.last: FakeBuffer | None = None
        self._next, self._left = 0x10000000, 0
        self._status = 0
        self._offsets = {offset: name for name, offset in OFFSETS.items()}

    def call(self, name: str) -> None:
        self.calls.append(name)
        self.fails(name)

    def read_file(self, path: str) -> bytes:
        assert path == "/proc/meminfo"
        return MEMINFO.encode()

    def exists_file(self, path: str) -> Any:
        return SimpleNamespace(exists=False)

    # --- memory

    def allocate(self, shape: tuple[int], dtype: type, target: object, cacheable: int) -> FakeBuffer:
        assert (dtype, target, cacheable) == (np.uint8, self, 1)
        self.call("allocate")
        buffer = np.full(shape, 0xAA, np.uint8).view(FakeBuffer)
        buffer.board, buffer.dram, buffer.address = self, np.full(shape, 0xBB, np.uint8), self._next
        self._next += -(-shape[0] // 4096) * 4096
        self.buffers.append(buffer.address)
        self.last = buffer
        return buffer

    # --- registers, as PYNQ's MMIO

    def read(self, offset: int) -> int:
        name = self._offsets[offset]
        self.call(f"read {name}")
        if name == "STATUS":
            if self._status & BUSY and self._left == 0 and self.polls is not None:
                self._status = self.end_status
                self.registers["DISPATCHED"] = self.registers.get("COUNT", 0)
            self._left = max(0, self._left - 1)
            return self._status
        return self.cycles if name == "CYCLES_LO" else self.registers.get(name, 0)

    def write(self, offset: int, data: int | bytes) -> None:
        values = [data] if isinstance(data, int) else np.frombuffer(data, "<u4").tolist()
        for index, value in enumerate(values):
            self._write(self._offsets[offset + 4 * index], value)

    def _write(self, name: str, value: int) -> None:
        self.call(f"write {name}")
        self.registers[name] = value
        if name == "CONTROL" and value & 1:
            self._status, self._left = BUSY, self.polls or 0
            self.registers["DISPATCHED"] = 0
        if name == "INTERRUPT":
            self.registers[name] = value & 1  # writing `pending` clears it
        if name == "CONTROL" and value & 2 and self.resets_to_idle:
            self._status = 0

    # --- the package

    def install(self, monkeypatch: Any) -> None:
        """Make this board what `import pynq` finds."""
        from vdla.runtime.devices import overlay

        monkeypatch.setattr(overlay, "_driver_class", overlay._driver_class.__wrapped__)
        monkeypatch.setitem(sys.modules, "pynq", self._module())
        monkeypatch.setitem(sys.modules, "pynq.overlay", ModuleType("pynq.overlay"))

    def _module(self) -> ModuleType:
        board, module = self, ModuleType("pynq")

        class DefaultIP:
            def __init_subclass__(cls) -> None:
                board.calls.append(f"bind {cls.bindto}")

            def __init__(self) -> None:
                self.mmio, self._interrupts = board, {}

        class Overlay:
            def __init__(self, path: str, download: bool, device: object) -> None:
                board.call(f"load {Path(path).name} {download}")
                self.device = device
                self.ip_dict = {"vdla_0": {"type": board.ip_type, "parameters": board.parameters}}
                self.vdla_0 = DefaultIP()

            def download(self) -> None:
                board.call(f"upload {self.binfile_name}")

        module.Overlay, module.DefaultIP, module.allocate = Overlay, DefaultIP, board.allocate
        module.Device = SimpleNamespace(active_device=board)
        return module
