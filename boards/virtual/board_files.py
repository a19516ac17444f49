# SPDX-License-Identifier: Apache-2.0
"""The files of a virtual board, all of them in memory: what PYNQ reads, uploads and writes.

A write to the FPGA manager's `firmware` configures the fabric with the bitstream of that name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from threading import Lock

import numpy as np

from vdla.boards.board import Board
from vdla.boards.virtual.memory import BoardMemory
from vdla.support.errors import Error

MOST_BYTES = 64 << 20
"""The most bytes of a file."""
_MOST_FILES = 64
_MOST_STORED = 128 << 20  # bytes of all files

MANAGER = "/sys/class/fpga_manager/fpga0/"
FIRMWARE = "/lib/firmware/"
BUFFERS = "/proc/vdla/buffers"
"""A file of the virtual board alone: its buffers in JSON, to find what was not freed."""
_WRITABLE = (FIRMWARE, "/run/", "/tmp/")

_KERNELS = {
    "zynq7": "Linux version 5.15.19-xilinx (virtual@vdla) (arm-xilinx-linux-gnueabi-gcc) #1 SMP armv7l\n",
    "zynqmp": "Linux version 5.15.19-xilinx (virtual@vdla) (aarch64-xilinx-linux-gcc) #1 SMP aarch64\n",
}


class FileRefusal(Error, RuntimeError):
    """A file that cannot be read or written."""


class BoardFiles:
    """The files; `program` is called with the payload of a bitstream, to configure it."""

    def __init__(self, board: Board, memory: BoardMemory, program: Callable[[bytes], None]) -> None:
        self._board = board
        self._memory = memory
        self._program = program
        self._files: dict[str, bytes] = {}
        self._state, self._flags = b"unknown\n", b"0\n"
        self._started_s = time.monotonic()
        self._lock = Lock()
        self._programming = Lock()

    def exists(self, path: str) -> bool:
        """Whether a file exists; a client uploads a bitstream only where it does not."""
        try:
            self.read(path)
        except FileRefusal:
            return False
        return True

    def read(self, path: str) -> bytes:
        """The content of a file."""
        with self._lock:
            if path in self._files:
                return self._files[path]
        fixed = {
            "/proc/version": lambda: _KERNELS[self._board.processor].encode(),
            "/proc/device-tree/chosen/pynq_board": lambda: self._board.title.encode() + b"\0",
            "/proc/meminfo": self._meminfo,
            "/proc/uptime": lambda: f"{time.monotonic() - self._started_s:.2f} 0.00\n".encode(),
            MANAGER + "state": lambda: self._state,
            MANAGER + "flags": lambda: self._flags,
            BUFFERS: self._buffers,
        }
        if path not in fixed:
            raise FileRefusal(f"board file: path must be that of a file, got {path[:80]!r}")
        return fixed[path]()

    def _meminfo(self) -> bytes:
        total, free = len(self._memory.data), self._memory.free_bytes
        return f"CmaTotal: {total >> 10:14} kB\nCmaFree: {free >> 10:15} kB\n".encode()

    def _buffers(self) -> bytes:
        return json.dumps([[b.identifier, b.address, b.nbytes] for b in self._memory.buffers]).encode()

    # --- writes

    def write(self, path: str, content: bytes) -> None:
        """Replace the content of a file; the FPGA manager acts on what is written to it."""
        if path == MANAGER + "flags":
            self._set_flags(content)
        elif path == MANAGER + "firmware":
            self._configure(content.decode(errors="replace").strip())
        elif path.startswith(_WRITABLE) and ".." not in path:
            self._store(path, content)
        else:
            raise FileRefusal(f"board file: path must lie in one of {', '.join(_WRITABLE)}, got {path[:80]!r}")

    def _set_flags(self, content: bytes) -> None:
        if content.strip() != b"0":
            raise FileRefusal(f"board file: flags must be 0, a full bitstream, got {content[:40]!r}")
        self._flags = b"0\n"

    def _store(self, path: str, content: bytes) -> None:
        with self._lock:
            others = {name: data for name, data in self._files.items() if name != path}
            stored = sum(map(len, others.values())) + len(content)
            if stored > _MOST_STORED or len(others) >= _MOST_FILES or len(content) > MOST_BYTES:
                raise FileRefusal(
                    f"board file: files must be at most {_MOST_FILES} with {_MOST_STORED} bytes, "
                    f"got {len(others) + 1} with {stored}"
                )
            self._files[path] = content

    def _configure(self, name: str) -> None:
        with self._lock:
            payload = self._files.get(FIRMWARE + name)
        if payload is None:
            raise FileRefusal(f"board file: firmware must be uploaded first, got {name[:80]!r}")
        with self._programming:
            self._state = b"write\n"
            try:
                self._program(_in_order(payload))
            except BaseException:
                self._state = b"write error\n"
                raise
            self._state = b"operating\n"


def _in_order(payload: bytes) -> bytes:
    """The payload of a .bit from that of a .bin, whose words have the other byte order."""
    if len(payload) % 4:
        raise FileRefusal(f"board file: bitstream must be whole words, got {len(payload)} bytes")
    return np.frombuffer(payload, "<u4").byteswap().tobytes()
