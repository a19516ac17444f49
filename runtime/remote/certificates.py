# SPDX-License-Identifier: Apache-2.0
"""An authority of one's own, and certificates of a server and of clients signed by it.

Needs the package `cryptography`. Keys are elliptic (P-256) and unencrypted, readable by their owner
only; whoever has `ca.key` can make further clients.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

from vdla.runtime.remote.certificate_life import CertificateLife
from vdla.runtime.remote.credentials import CA, CLIENT, CLIENT_KEY, SERVER, SERVER_KEY
from vdla.runtime.remote.errors import RemoteError
from vdla.support.atomic import write_with

CA_KEY = "ca.key"
_BACKDATE = datetime.timedelta(hours=1)  # clocks of boards without a battery
_DAYS = 825
Files = dict[str, bytes]


def write_certificates(folder: Path, hosts: Sequence[str], days: int = _DAYS) -> list[Path]:
    """Write the files, all or none; `hosts` are the names and addresses by which clients reach the
    server.

    Raises:
        RemoteError: no host, or files that exist.
        OSError: a file that cannot be written, as on a full disk.
    """
    if not hosts or not all(host and host.isascii() and host.isprintable() for host in hosts):
        raise RemoteError(f"certificates: hosts must be names or addresses, got {', '.join(hosts) or 'none'}")
    folder.mkdir(parents=True, exist_ok=True)
    life = CertificateLife.of(days, datetime.datetime.now(datetime.timezone.utc) - _BACKDATE)
    authority = Authority.new(life)
    files = authority.files | authority.server(hosts, life) | authority.client(life)
    for name in files:
        if (folder / name).exists():
            raise RemoteError(f"certificates: {folder / name} must not exist, got a file; choose another folder")
    written: list[Path] = []
    try:
        for name, content in files.items():
            write_with(folder / name, partial(_write_private, content=content))
            written.append(folder / name)
    except BaseException:
        for path in written:
            path.unlink(missing_ok=True)
        raise
    return written


def _write_private(path: Path, content: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates; each method returns a certificate and its key as files in PEM."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @staticmethod
    def new(life: CertificateLife) -> Authority:
        """An authority with a key of its own."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder("vdla authority", _name("vdla authority"), key.public_key(), life)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        return Authority(builder.sign(key, hashes.SHA256()), key)

    @property
    def files(self) -> Files:
        """The authority itself."""
        return _pair(CA, CA_KEY, self.certificate, self.key)

    def server(self, hosts: Sequence[str], life: CertificateLife) -> Files:
        """A server that clients reach by these names and addresses."""
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._signed(SERVER, SERVER_KEY, hosts[0], ExtendedKeyUsageOID.SERVER_AUTH, life, names)

    def client(self, life: CertificateLife) -> Files:
        """A client."""
        return self._signed(CLIENT, CLIENT_KEY, "vdla client", ExtendedKeyUsageOID.CLIENT_AUTH, life)

    def _signed(
        self,
        name: str,
        key_name: str,
        subject: str,
        usage: ObjectIdentifier,
        life: CertificateLife,
        *more: x509.ExtensionType,
    ) -> Files:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self.certificate.subject, key.public_key(), life)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        for extension in (x509.ExtendedKeyUsage([usage]), *more):
            builder = builder.add_extension(extension, critical=False)
        return _pair(name, key_name, builder.sign(self.key, hashes.SHA256()), key)


def _builder(
    subject: str, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: CertificateLife
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_name(subject))
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(life.begin)
        .not_valid_after(life.end)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pair(name: str, key_name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Files:
    plain = serialization.NoEncryption()
    content = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return {name: certificate.public_bytes(serialization.Encoding.PEM), key_name: content}
