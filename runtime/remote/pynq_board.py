# SPDX-License-Identifier: Apache-2.0
"""A board that runs PYNQ.remote, asked for its state.

The invariant: it only reads files. It touches no register: the server keeps what is mapped for one,
in a table without a lock that the calls of other clients search, and a read of the fabric that
nothing answers would stop the board's processor.
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
_STATE = "/sys/class/fpga_manager/fpga0/state"
_MEMINFO = "/proc/meminfo"
_STREAMS = ("readfile",)
_MOST_PARTS = 64  # of a file, 1 KiB each on a board
_READS = 3  # of a note, which is empty while another client writes it
_STEP_S = 2.0  # of a look for the cause of a failure
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

    def close(self) -> None:
        """End the connection."""
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def status(self) -> PynqStatus:
        """What the board says now."""
        note, meminfo = self._note(), self._read(_MEMINFO).decode(errors="replace")
        uptime = uptime_s(self._read(UPTIME))
        now_s = uptime or 0.0
        return PynqStatus(
            board=_text(self._read(_NAME)) or "unknown",
            uptime_s=uptime,
            fabric=_text(self._read(_STATE)),
            clock_mhz=None if note.bitstream is None else note.bitstream.clock_mhz or None,
            memory_bytes=_bytes(meminfo, "CmaTotal"),
            free_bytes=_bytes(meminfo, "CmaFree"),
            bitstream=bitstream_of(note, now_s),
            clients=clients_of(note, now_s),
        )

    def _note(self) -> BoardNote:
        notes = (BoardNote.parse(self._read(PATH)) for _ in range(_READS))
        return next((note for note in notes if note != BoardNote()), BoardNote())

    # --- calls

    def _read(self, path: str) -> bytes:
        """The content of a file, b"" where there is none."""
        if not self._call("existsfile", path).exists:
            return b""
        return b"".join(part.data for part in self._call("readfile", path))

    def _call(self, method: str, path: str) -> Any:  # noqa: ANN401  a message, or a list of them
        """The answer of a method of the service that has the board's files, or a stream of them."""
        import grpc

        kinds = messages("remote_device")
        descriptor = kinds.DESCRIPTOR.services_by_name["RemoteDevice"].methods_by_name[method]
        make = self._channel.unary_stream if method in _STREAMS else self._channel.unary_unary
        call = make(
            f"/remote_device.RemoteDevice/{method}",
            request_serializer=getattr(kinds, descriptor.input_type.name).SerializeToString,
            response_deserializer=getattr(kinds, descriptor.output_type.name).FromString,
        )
        request = getattr(kinds, descriptor.input_type.name)(file_path=path)
        try:
            answer = call(request, timeout=self._timeout_s)
            return list(islice(answer, _MOST_PARTS)) if method in _STREAMS else answer
        except grpc.RpcError as error:
            raise self._failure(method, error.code().name, str(error.details())) from None

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
