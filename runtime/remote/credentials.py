"""Who may use a server, and how a client knows the server: TLS files and a token.

A folder of TLS files is what `vdla board certificates` writes. A token never crosses a network
unencrypted, and a server that others can reach never listens without credentials.
"""

from __future__ import annotations

import datetime
import hmac
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from vdla.runtime.remote.address import Address
from vdla.runtime.remote.errors import RemoteError

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
        assert self.tls is not None
        return _read(self.tls / name)

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
        raise RemoteError(f"credentials: {path} must be a readable file, got {error.strerror}") from None


CA_KEY = "ca.key"
_BACKDATE = datetime.timedelta(hours=1)  # clocks of boards without a battery


def write_certificates(folder: Path, hosts: Sequence[str], days: int = 825) -> list[Path]:
    """Write the files; `hosts` are the names and addresses by which clients reach the server.

    Raises:
        RemoteError: no host, or files that exist.
    """
    if not hosts or not all(host and host.isascii() and host.isprintable() for host in hosts):
        raise RemoteError(f"certificates: hosts must be names or addresses, got {', '.join(hosts) or 'none'}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in (CA, CA_KEY, SERVER, SERVER_KEY, CLIENT, CLIENT_KEY):
        if (folder / name).exists():
            raise RemoteError(f"certificates: {folder / name} must not exist, got a file; choose another folder")
    life = datetime.timedelta(days=days)
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority = _authority(authority_key, life)
    written = _write_pair(folder / CA, folder / CA_KEY, authority, authority_key)
    names = [_general_name(host) for host in hosts]
    for path, key_path, subject, usage, alternatives in (
        (SERVER, SERVER_KEY, hosts[0], ExtendedKeyUsageOID.SERVER_AUTH, names),
        (CLIENT, CLIENT_KEY, "vdla client", ExtendedKeyUsageOID.CLIENT_AUTH, []),
    ):
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, authority.subject, key.public_key(), life)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if alternatives:
            builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        certificate = builder.sign(authority_key, hashes.SHA256())
        written += _write_pair(folder / path, folder / key_path, certificate, key)
    return written


def _authority(key: ec.EllipticCurvePrivateKey, life: datetime.timedelta) -> x509.Certificate:
    name = _name("vdla authority")
    builder = _builder("vdla authority", name, key.public_key(), life)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    return builder.sign(key, hashes.SHA256())


def _builder(
    subject: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now + life)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _write_pair(
    path: Path, key_path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
) -> list[Path]:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    content = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    handle = os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    return [path, key_path]
