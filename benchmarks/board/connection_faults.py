# SPDX-License-Identifier: Apache-2.0
"""Connections that fail, one for each cause, against real servers on the loopback.

The error of a client must tell the cause apart from all others and name a remedy.
"""

from __future__ import annotations

import datetime
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from vdla.benchmarks.harness import Row
from vdla.hardware.config import Config
from vdla.runtime.remote.certificate_life import CertificateLife
from vdla.runtime.remote.connection_cause import Cause, ConnectionFault
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.remote_device import RemoteDevice
from vdla.runtime.remote.server import RemoteServer
from vdla.support.errors import Error

_DAYS = 30
_CONNECT_S = 0.1
PAST = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)


class ExpiredMeanwhile(Credentials):
    """Those of a server that was started while its certificates were valid."""

    __slots__ = ()

    def require_valid_server(self) -> None:
        """Whatever the clock says."""


@dataclass(frozen=True, slots=True)
class FailedConnection:
    """Where a client connects, with which folder of certificates; `cause` is what is wrong."""

    cause: Cause
    address: str
    tls: Path | None = None

    def error(self) -> str:
        """What the client is told: the sentence, or another error's kind and text."""
        try:
            RemoteDevice(Config.preset("tiny"), self.address, tls=self.tls, connect_s=_CONNECT_S).close()
        except ConnectionFault as fault:
            return str(fault) if fault.cause is self.cause else f"{fault.cause.value}: {fault}"
        except Error as error:
            return f"{type(error).__name__}: {error}"
        return "no error"

    @property
    def is_told(self) -> bool:
        """Whether the error is that of the cause."""
        return self.error().startswith(f"{self.address}: ")


@contextmanager
def failed_connections(folder: Path) -> Iterator[tuple[FailedConnection, ...]]:
    """A connection for each cause, while their servers run; certificates go to `folder`."""
    from vdla.runtime.remote.certificates import Authority  # which needs the package cryptography

    now, hosts = datetime.datetime.now(datetime.timezone.utc), ["127.0.0.1", "localhost"]
    valid, past = CertificateLife.of(_DAYS, now - datetime.timedelta(hours=1)), CertificateLife.of(_DAYS, PAST)
    ours, others = Authority.new(valid), Authority.new(valid)
    contents = {
        "good": ours.files | ours.server(hosts, valid) | ours.client(valid),
        "strange": others.files | others.client(valid),
        "strange-client": ours.files | others.client(valid),
        "expired-server": ours.files | ours.server(hosts, past),
        "expired-client": ours.files | ours.client(past),
        "other-host": ours.files | ours.server(["board.lab", "10.0.0.5"], valid),
    }
    for name, files in contents.items():
        (folder / name).mkdir()
        for file, content in files.items():
            (folder / name / file).write_bytes(content)
    good = folder / "good"
    with (
        _served(None) as plain,
        _served(good) as secure,
        _served(folder / "expired-server") as expired,
        _served(folder / "other-host") as elsewhere,
    ):
        yield (
            FailedConnection(Cause.NO_SERVER, f"pynq://127.0.0.1:{_free_port()}"),
            FailedConnection(Cause.UNKNOWN_HOST, "pynq://board.invalid:7968"),
            FailedConnection(Cause.ADDRESS_FAMILY, f"pynq://[::1]:{plain.address.port}"),
            FailedConnection(Cause.FOREIGN_AUTHORITY, str(secure.address), folder / "strange"),
            FailedConnection(Cause.FOREIGN_AUTHORITY, str(secure.address), folder / "strange-client"),
            FailedConnection(Cause.EXPIRED_SERVER, str(expired.address), good),
            FailedConnection(Cause.EXPIRED_CLIENT, str(secure.address), folder / "expired-client"),
            FailedConnection(Cause.OTHER_HOST, str(elsewhere.address), good),
            FailedConnection(Cause.ONE_SIDED_TLS, str(plain.address), good),
            FailedConnection(Cause.ONE_SIDED_TLS, str(secure.address)),
        )


def _served(tls: Path | None) -> RemoteServer:
    return RemoteServer("sim", Config.preset("tiny"), "127.0.0.1:0", credentials=ExpiredMeanwhile(tls))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def connection_faults() -> Row:
    """`connection_causes` that were tried, and `connection_causes_told` by the client's error."""
    told: dict[Cause, bool] = {}
    with TemporaryDirectory() as folder, failed_connections(Path(folder)) as connections:
        for connection in connections:
            told[connection.cause] = told.get(connection.cause, True) and connection.is_told
    return {"connection_causes": len(told), "connection_causes_told": sum(told.values())}
