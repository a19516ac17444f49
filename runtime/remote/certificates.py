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
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from vdla.runtime.remote.credentials import CA, CLIENT, CLIENT_KEY, SERVER, SERVER_KEY
from vdla.runtime.remote.errors import RemoteError

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
