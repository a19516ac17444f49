# SPDX-License-Identifier: Apache-2.0
"""Why no connection to a server stands: gRPC says for every cause that it is unavailable.

The steps of a connection are made again, one by one, with the standard library: the name, TCP, TLS,
the certificates of both sides, the first bytes of the server. The step that fails is the cause.
"""

from __future__ import annotations

import errno
import socket
import ssl
from contextlib import closing, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

from vdla.runtime.remote.address import SCHEME, Address
from vdla.runtime.remote.certificate_life import MAKE, CertificateLife
from vdla.runtime.remote.credentials import CA, CLIENT, CLIENT_KEY, Credentials
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.tls_contexts import GRPC, HTTP

_STEP_S = 2.0
_TWINS = {"127.0.0.1": "::1", "::1": "127.0.0.1", "0.0.0.0": "::1", "::": "127.0.0.1"}
_NO_FAMILY = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL, errno.ENETUNREACH)
_EXPIRED, _EARLY, _OTHER_HOST, _OTHER_IP = 10, 9, 62, 64  # codes of OpenSSL's X509_V_ERR
_HTTP2 = b"\x00\x00"  # the length of the first frame of a server, SETTINGS, begins with it


class Cause(Enum):
    """What is wrong. Only the first two may mend themselves while a client waits."""

    NO_SERVER = "no server"
    NO_ANSWER = "no answer"
    UNKNOWN_HOST = "unknown host"
    ADDRESS_FAMILY = "address family"
    OTHER_SERVICE = "another service"
    ONE_SIDED_TLS = "TLS on one side"
    FOREIGN_AUTHORITY = "foreign authority"
    EXPIRED_SERVER = "expired server certificate"
    EXPIRED_CLIENT = "expired client certificate"
    NO_CLIENT_CERTIFICATE = "no client certificate"
    OTHER_HOST = "certificate of another host"

    @property
    def may_pass(self) -> bool:
        """Whether the same client may connect later."""
        return self in (Cause.NO_SERVER, Cause.NO_ANSWER)


class ConnectionFault(RemoteError):
    """A connection that does not stand, and its cause; `address` as its service is addressed."""

    def __init__(self, address: str, cause: Cause, sentence: str) -> None:
        super().__init__(f"{address}: {sentence}")
        self.cause = cause


@dataclass(frozen=True, slots=True)
class ServerKind:
    """What kind of server should answer at an address, as sentences call it.

    `start` is what starts it, `listen` what lets it listen elsewhere, `plain` what to say where
    only it uses TLS.
    """

    name: str
    scheme: str
    program: str
    start: str
    listen: str
    plain: str

    def shown(self, address: Address) -> str:
        """An address as users write it."""
        return f"{self.scheme}{address.target}"


SERVER = ServerKind(
    name="server",
    scheme=SCHEME,
    program="vdla board serve",
    start="start it with vdla board serve --listen, or check the port",
    listen="serve with --listen",
    plain="client must use TLS, as the server does, got no tls; pass tls=, the folder with the server's ca.pem, "
    "or name it in the file of a farm, which commands take as a device",
)
"""A server of ours."""


def connection_fault(
    address: Address, credentials: Credentials, step_s: float = _STEP_S, kind: ServerKind = SERVER
) -> ConnectionFault:
    """The cause for which no connection stands; each step may take `step_s` seconds."""
    return _Attempt(address, credentials, step_s, kind).fault()


def other_service(address: Address, kind: ServerKind) -> ConnectionFault:
    """The fault of a port at which something else listens."""
    return ConnectionFault(
        kind.shown(address),
        Cause.OTHER_SERVICE,
        f"port {address.port} must be that of {kind.program}, got a service of another kind; check the port",
    )


@dataclass(frozen=True, slots=True)
class _Attempt:
    address: Address
    credentials: Credentials
    step_s: float
    kind: ServerKind

    def fault(self) -> ConnectionFault:
        """Make the steps up to the one that fails."""
        try:
            raw = self._connect(self.address.host)
        except OSError as error:
            return self._no_connection(error)
        with closing(raw):
            try:
                return self._plain(raw) if self.credentials.tls is None else self._secure(raw)
            except TimeoutError:
                return self._silent()
            except OSError as error:
                return self._because(
                    Cause.NO_ANSWER, f"{self.kind.name} must answer, got {_reason(error)}; try again later"
                )

    def _because(self, cause: Cause, sentence: str) -> ConnectionFault:
        return ConnectionFault(self.kind.shown(self.address), cause, sentence)

    def _silent(self) -> ConnectionFault:
        return self._because(
            Cause.NO_ANSWER,
            f"{self.kind.name} must answer, got a connection but not a byte within {self.step_s:g} s; "
            "its process is stopped or overloaded: continue or restart it",
        )

    # --- TCP

    def _connect(self, host: str) -> socket.socket:
        return socket.create_connection((host, self.address.port), self.step_s)

    def _no_connection(self, error: OSError) -> ConnectionFault:
        host, kind = self.address.host, self.kind
        if isinstance(error, (socket.gaierror, UnicodeError)):
            return self._because(
                Cause.UNKNOWN_HOST,
                f"host must have an address, got none for {host}; check its name, or use its address",
            )
        family, other = ("IPv6", "IPv4") if ":" in host else ("IPv4", "IPv6")
        if error.errno in _NO_FAMILY:
            return self._because(
                Cause.ADDRESS_FAMILY,
                f"this machine must have a route for {family} to {host}, got {_reason(error)}; "
                f"use the {other} address of the {self.kind.name}",
            )
        twin = self._twin()
        if twin is not None:
            return self._because(
                Cause.ADDRESS_FAMILY,
                f"{kind.name} must listen with {family}, got one that listens at {twin.target} only; "
                f"use {kind.shown(twin)}, or {kind.listen} {self.address.target}",
            )
        if isinstance(error, ConnectionRefusedError):
            return self._because(
                Cause.NO_SERVER,
                f"{kind.name} must listen on port {self.address.port}, got a refused connection; {kind.start}",
            )
        return self._because(
            Cause.NO_SERVER,
            f"host must answer, got {_reason(error)}; check the address, the network and its firewalls",
        )

    def _twin(self) -> Address | None:
        """The loopback address of the other family, where something listens there."""
        twin = _TWINS.get(self.address.host)
        if twin is not None:
            with suppress(OSError), closing(self._connect(twin)):
                return Address(twin, self.address.port)
        return None

    # --- without TLS

    def _plain(self, raw: socket.socket) -> ConnectionFault:
        """The fault of a client without TLS: does the server have it?"""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        try:
            with context.wrap_socket(raw):
                pass
        except ssl.SSLError as error:
            if "ALERT" not in (error.reason or ""):  # an alert is TLS as well
                return self._no_tls()
        return self._because(Cause.ONE_SIDED_TLS, self.kind.plain)

    def _no_tls(self) -> ConnectionFault:
        """A server without TLS that gRPC cannot use."""
        with closing(self._connect(self.address.host)) as raw:
            raw.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\x04" + bytes(5))
            first = raw.recv(9)
        if first.startswith(_HTTP2):
            name = self.kind.name
            return self._because(Cause.NO_ANSWER, f"{name} must answer, got a connection that came too late; try again")
        return other_service(self.address, self.kind)

    # --- with TLS

    def _secure(self, raw: socket.socket) -> ConnectionFault:
        host = self.address.host
        try:
            with self._context().wrap_socket(raw, server_hostname=host) as secured:
                return self._after_handshake(secured)
        except ssl.SSLCertVerificationError as error:
            return self._bad_server(error)
        except ssl.SSLError as error:
            if "ALERT" in (error.reason or ""):
                return self._bad_client()
        except (ConnectionResetError, BrokenPipeError):
            return self._bad_client()
        return self._because(
            Cause.ONE_SIDED_TLS,
            "server must use TLS, as the client does, got a server without; "
            "serve with --tls, or leave tls out and connect through an SSH tunnel",
        )

    def _context(self) -> ssl.SSLContext:
        credentials = self.credentials
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.set_alpn_protocols([GRPC, HTTP])
        try:
            context.load_verify_locations(cadata=credentials.file(CA).decode("ascii", "replace"))
            if credentials.has_client_certificate:
                context.load_cert_chain(credentials.path(CLIENT), credentials.path(CLIENT_KEY))
        except ssl.SSLError as error:
            raise RemoteError(
                f"credentials: {credentials.tls} must hold a certificate and its key in PEM, got {_reason(error)}; "
                f"{MAKE}"
            ) from None
        return context

    def _after_handshake(self, secured: ssl.SSLSocket) -> ConnectionFault:
        """The server has shown a good certificate; it ends the connection unless ours is good."""
        if secured.recv(1):
            return self._because(Cause.NO_ANSWER, "server must answer, got a connection that came too late; try again")
        return self._bad_client()

    def _bad_client(self) -> ConnectionFault:
        credentials = self.credentials
        if not credentials.has_client_certificate:
            return self._because(
                Cause.NO_CLIENT_CERTIFICATE,
                f"client must show a certificate, got none in {credentials.tls}; "
                f"copy client.pem and client.key of the server's authority there",
            )
        path = credentials.path(CLIENT)
        fault = credentials.fault(CLIENT)
        if fault is not None:
            return self._because(
                Cause.EXPIRED_CLIENT, f"certificate {path} of the client must be valid now, got {fault}; {MAKE}"
            )
        return self._because(
            Cause.FOREIGN_AUTHORITY,
            f"certificate {path} of the client must be signed by the server's authority, got another's; "
            "copy client.pem and client.key from where the server's certificates were made",
        )

    def _bad_server(self, error: ssl.SSLCertVerificationError) -> ConnectionFault:
        if error.verify_code in (_EXPIRED, _EARLY):
            fault = self.credentials.fault(CA) or self._server_life().fault or error.verify_message
            return self._because(
                Cause.EXPIRED_SERVER,
                f"certificate of the server must be valid now, got {fault}; {MAKE}, and restart the server",
            )
        if error.verify_code in (_OTHER_HOST, _OTHER_IP):
            host = self.address.host
            return self._because(
                Cause.OTHER_HOST,
                f"certificate of the server must name {host}, got {', '.join(self._server_names()) or 'no name'}; "
                f"use one of these, or make certificates with vdla board certificates --host {host}",
            )
        return self._because(
            Cause.FOREIGN_AUTHORITY,
            f"certificate of the server must be signed by {self.credentials.path(CA)}, got another authority's; "
            "copy ca.pem from where the server's certificates were made",
        )

    def _shown(self, *, checked: bool) -> ssl.SSLSocket:
        """A connection whatever host the server's certificate names, or whatever it is."""
        context = self._context()
        context.check_hostname = False
        if not checked:
            context.verify_mode = ssl.CERT_NONE
        return context.wrap_socket(self._connect(self.address.host))

    def _server_names(self) -> list[str]:
        with self._shown(checked=True) as secured:
            names: Any = (secured.getpeercert() or {}).get("subjectAltName", ())
        return [str(name) for _, name in names]

    def _server_life(self) -> CertificateLife:
        with self._shown(checked=False) as secured:
            pem = ssl.DER_cert_to_PEM_cert(secured.getpeercert(binary_form=True) or b"")
        return CertificateLife.in_file(self.credentials.path(CA), pem.encode())


def _reason(error: OSError) -> str:
    """What the operating system says, in small letters."""
    if isinstance(error, TimeoutError):
        return "nothing"
    said = getattr(error, "reason", None) or error.strerror or type(error).__name__
    return str(said).replace("_", " ").lower()
