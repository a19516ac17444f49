# SPDX-License-Identifier: Apache-2.0
"""A board that runs PYNQ.remote, asked for its state.

The invariant: it only reads files and registers of the processing system. It loads nothing and
never touches the fabric, where a read that nothing answers would stop the board's processor.
"""

from __future__ import annotations

import socket
from itertools import islice
from typing import TYPE_CHECKING, Any

from vdla.runtime.devices.board_link import call_failure
from vdla.runtime.devices.board_note import PATH, UPTIME, BoardNote, printable, uptime_s
from vdla.runtime.devices.contiguous_memory import meminfo_kib
from vdla.runtime.devices.pynq_messages import messages, require_pynq
from vdla.runtime.remote.address import Address
from vdla.runtime.remote.connection_cause import ServerKind, connection_fault, other_service
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.pynq_clock import clock_tree
from vdla.runtime.remote.pynq_status import PynqStatus, bitstream_of, clients_of

if TYPE_CHECKING:
    from typing_extensions import Self

PORT = 7967
"""The port that PYNQ's client connects to."""
PYNQ_REMOTE = ServerKind(
    name="PYNQ.remote",
    scheme="",
    program="PYNQ.remote",
    start="switch the board on, or restart the server of PYNQ.remote on it",
    listen="let it listen at",
    plain="PYNQ.remote must listen, which has no TLS, got a server with TLS; check the port",
)
_NAME = "/proc/device-tree/chosen/pynq_board"
_COMPATIBLE = "/proc/device-tree/compatible"
_STATE = "/sys/class/fpga_manager/fpga0/state"
_MEMINFO = "/proc/meminfo"
_MOST_PARTS = 8  # of a file, each of a message
_PAGE, _RANGE_BYTES = 0x1000, 0x200  # of registers
_STEP_S = 2.0  # of a look for the cause of a failure
_STREAMS = ("readfile",)
_NO_PROXY = (("grpc.enable_http_proxy", 0),)
_AWAY = ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED")


class PynqBoard:
    """The connection to a board; RemoteError where it cannot be had within `timeout_s`."""

    def __init__(self, address: Address, timeout_s: float) -> None:
        require_pynq("board status")
        import grpc

        self._address, self._timeout_s = address, timeout_s
        try:
            socket.create_connection((address.host, address.port), timeout_s).close()
        except OSError:
            raise self._fault() from None
        self._channel = grpc.insecure_channel(address.target, _NO_PROXY)
        self._ranges: dict[int, str] = {}  # mapped pages, which the board keeps

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def status(self) -> PynqStatus:
        """What the board says now."""
        note, meminfo = BoardNote.parse(self._read(PATH)), self._read(_MEMINFO).decode(errors="replace")
        uptime = uptime_s(self._read(UPTIME))
        now_s = uptime or 0.0
        return PynqStatus(
            board=_text(self._read(_NAME)) or "unknown",
            uptime_s=uptime,
            fabric=_text(self._read(_STATE)),
            clock_mhz=self._clock_mhz(),
            memory_bytes=_bytes(meminfo, "CmaTotal"),
            free_bytes=_bytes(meminfo, "CmaFree"),
            bitstream=bitstream_of(note, now_s),
            clients=clients_of(note, now_s),
        )

    def _clock_mhz(self) -> float | None:
        tree = clock_tree(self._read(_COMPATIBLE))
        return None if tree is None else tree.read_mhz(self._read_word)

    # --- calls

    def _read(self, path: str) -> bytes:
        """The content of a file, b"" where there is none."""
        if not self._call("remote_device", "RemoteDevice", "existsfile", file_path=path).exists:
            return b""
        return b"".join(part.data for part in self._call("remote_device", "RemoteDevice", "readfile", file_path=path))

    def _read_word(self, address: int) -> int:
        """A register of the processing system."""
        base = address - address % _PAGE
        if base not in self._ranges:
            mapped = self._call("mmio", "Mmio", "get_mmio", base_addr=base, length=_RANGE_BYTES)
            self._ranges[base] = mapped.mmio_id
        identifier, offset = self._ranges[base], address - base
        return int(self._call("mmio", "Mmio", "read", mmio_id=identifier, length=4, offset=offset).data)

    def _call(self, module: str, service: str, method: str, **fields: object) -> Any:  # noqa: ANN401  a message
        """The answer of a method, or its stream of answers."""
        import grpc

        kinds = messages(module)
        descriptor = kinds.DESCRIPTOR.services_by_name[service].methods_by_name[method]
        make = self._channel.unary_stream if method in _STREAMS else self._channel.unary_unary
        call = make(
            f"/{module}.{service}/{method}",
            request_serializer=getattr(kinds, descriptor.input_type.name).SerializeToString,
            response_deserializer=getattr(kinds, descriptor.output_type.name).FromString,
        )
        try:
            answer = call(getattr(kinds, descriptor.input_type.name)(**fields), timeout=self._timeout_s)
            return list(islice(answer, _MOST_PARTS)) if method in _STREAMS else self._accepted(method, answer)
        except grpc.RpcError as error:
            raise self._failure(method, error.code().name, str(error.details())) from None

    def _accepted(self, method: str, answer: Any) -> Any:  # noqa: ANN401  a message
        """An answer without the message that it was refused."""
        if getattr(answer, "msg", ""):
            raise RemoteError(f"{self._where}: PYNQ.remote must answer {method}, got {printable(answer.msg)}")
        return answer

    # --- errors

    @property
    def _where(self) -> str:
        return PYNQ_REMOTE.shown(self._address)

    def _fault(self) -> RemoteError:
        return connection_fault(self._address, Credentials(), min(_STEP_S, self._timeout_s), PYNQ_REMOTE)

    def _failure(self, method: str, code: str, details: str) -> RemoteError:
        """The error of a call: no connection, another service, or a refusal."""
        if code == "UNIMPLEMENTED":
            return other_service(self._address, PYNQ_REMOTE)
        if code in _AWAY:
            return self._fault()
        return RemoteError(
            f"{self._where}: PYNQ.remote must answer {method}, got {printable(call_failure(code, details))}"
        )


def _text(content: bytes) -> str | None:
    """The text in a file, in one line."""
    return printable(content.decode(errors="replace").strip("\0\n ")) or None


def _bytes(meminfo: str, field: str) -> int | None:
    kib = meminfo_kib(meminfo, field)
    return None if kib is None else kib << 10
