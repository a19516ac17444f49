# SPDX-License-Identifier: Apache-2.0
"""Who may use a server, and how a client knows the server: TLS files and a token.

A folder of TLS files is what `vdla board certificates` writes. A token never crosses a network
unencrypted, and a server that others can reach never listens without credentials.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from vdla.runtime.remote.address import Address
from vdla.runtime.remote.certificate_life import MAKE, CertificateLife
from vdla.runtime.remote.errors import RemoteError
from vdla.support.file_kind import unreadable

CA, SERVER, SERVER_KEY, CLIENT, CLIENT_KEY = "ca.pem", "server.pem", "server.key", "client.pem", "client.key"
_LEAST_TOKEN = 16
_MOST_TOKEN = 4096


@dataclass(frozen=True, slots=True)
class Credentials:
    """`tls`: a folder of certificates; `token`: a secret that both sides know. Both may be None."""

    tls: Path | None = None
    token: str | None = None

    @staticmethod
    def of(
        tls: str | PathLike[str] | None = None,
        token: str | None = None,
        token_file: str | PathLike[str] | None = None,
    ) -> Credentials:
        """Checked credentials; a token is given itself or in a file."""
        if token is not None and token_file is not None:
            raise RemoteError("credentials: token and token_file must not both be given, got both")
        if token_file is not None:
            token = _read(Path(token_file)).decode("utf-8", "replace").strip()
        if token is not None:
            _check_token(token)
        return Credentials(None if tls is None else Path(tls), token)

    def file(self, name: str) -> bytes:
        """The content of a file of the TLS folder."""
        return _read(self.path(name))

    def path(self, name: str) -> Path:
        """The path of a file of the TLS folder."""
        assert self.tls is not None
        return self.tls / name

    @property
    def has_client_certificate(self) -> bool:
        """Whether a client shows a certificate: always without a token, else where it has one."""
        return self.tls is not None and (self.token is None or (self.tls / CLIENT).exists())

    def fault(self, name: str) -> str | None:
        """Why a certificate of the TLS folder is not valid now, "one that expired on 2026-01-31";
        None where it is.
        """
        return CertificateLife.in_file(self.path(name), self.file(name)).fault

    # --- the rules

    def require_safe_server(self, address: Address) -> None:
        """RemoteError for a server that strangers could use or overhear."""
        if address.is_loopback or self.tls is not None:
            return
        got = "a token without TLS" if self.token is not None else "none"
        raise RemoteError(
            f"server: credentials must be set to listen on {address.host}, which others can reach, got {got}; "
            "make certificates with vdla board certificates and pass --tls"
        )

    def require_valid_server(self) -> None:
        """RemoteError for certificates with which no client would accept a server."""
        for name in (CA, SERVER) if self.tls is not None else ():
            fault = self.fault(name)
            if fault is not None:
                raise RemoteError(f"server: certificate {self.path(name)} must be valid now, got {fault}; {MAKE}")

    def require_safe_client(self, address: Address) -> None:
        """RemoteError where the token would cross a network unencrypted."""
        if self.token is not None and self.tls is None and not address.is_loopback:
            raise RemoteError(
                f"{address}: tls must be given with a token, which must not be sent unencrypted, got none"
            )

    @property
    def needs_client_certificate(self) -> bool:
        """Whether a server asks clients for certificates: where it has no token."""
        return self.tls is not None and self.token is None

    def allows(self, authorization: str | bytes | None) -> bool:
        """Whether a call may pass; takes the same time for any wrong authorization."""
        if self.token is None:
            return True
        given = authorization.encode("utf-8", "replace") if isinstance(authorization, str) else authorization or b""
        return hmac.compare_digest(given, self.authorization)

    @property
    def authorization(self) -> bytes:
        """The metadata of a call with the token."""
        return f"Bearer {self.token}".encode()


def _check_token(token: str) -> None:
    usable = token.isascii() and token.isprintable() and " " not in token
    if not usable or not _LEAST_TOKEN <= len(token) <= _MOST_TOKEN:
        raise RemoteError(
            f"credentials: token must be {_LEAST_TOKEN} to {_MOST_TOKEN} printable ASCII characters without spaces, "
            f"got {len(token)} characters"
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise RemoteError(f"credentials: {unreadable(path, error)}") from None
