# SPDX-License-Identifier: Apache-2.0
"""When a certificate is valid, read from its PEM file with the standard library only: a server and
its clients do without the package that makes certificates.
"""

from __future__ import annotations

import binascii
import datetime
import ssl
from dataclasses import dataclass
from pathlib import Path

from vdla.runtime.remote.errors import RemoteError

_UTC = datetime.timezone.utc
_VERSION, _UTC_TIME = 0xA0, 0x17  # tags of DER (ITU-T X.690)
_END = "-----END CERTIFICATE-----"
MAKE = "make new ones with vdla board certificates"


@dataclass(frozen=True, slots=True)
class CertificateLife:
    """The first and the last moment, with time zones."""

    begin: datetime.datetime
    end: datetime.datetime

    @staticmethod
    def of(days: int, begin: datetime.datetime) -> CertificateLife:
        """The days from a moment on."""
        return CertificateLife(begin, begin + datetime.timedelta(days=days))

    @staticmethod
    def in_file(path: Path, content: bytes) -> CertificateLife:
        """That of the first certificate in a PEM file; RemoteError for any other file."""
        try:
            first = content.decode("ascii").partition(_END)[0] + _END
            return _life(ssl.PEM_cert_to_DER_cert(first[first.index("-----BEGIN") :]))
        except (ValueError, IndexError, binascii.Error):
            raise RemoteError(f"credentials: {path} must be a certificate in PEM, got other content") from None

    @property
    def fault(self) -> str | None:
        """ "one that expired on 2026-01-31", or None for a certificate that is valid now."""
        now = datetime.datetime.now(_UTC)
        if now > self.end:
            return f"one that expired on {self.end:%Y-%m-%d}"
        if now < self.begin:
            return f"one that is valid from {self.begin:%Y-%m-%d} on, while the clock says {now:%Y-%m-%d}"
        return None


def _life(der: bytes) -> CertificateLife:
    """The validity of a certificate: the fifth field of its first part (RFC 5280, section 4.1)."""
    fields = _children(_children(_children(der)[0][1])[0][1])
    if fields[0][0] == _VERSION:  # left out in version 1
        fields = fields[1:]
    begin, end = (_time(tag, text.decode("ascii")) for tag, text in _children(fields[3][1]))
    return CertificateLife(begin, end)


def _children(der: bytes) -> list[tuple[int, bytes]]:
    """The tags and contents of the values that follow each other."""
    values = []
    while der:
        length, start = der[1], 2
        if length & 0x80:
            start += length & 0x7F
            length = int.from_bytes(der[2:start], "big")
        values.append((der[0], der[start : start + length]))
        der = der[start + length :]
    return values


def _time(tag: int, text: str) -> datetime.datetime:
    """UTCTime, whose years are of 1950 to 2049, or GeneralizedTime."""
    if tag == _UTC_TIME:
        text = ("19" if int(text[:2]) >= 50 else "20") + text
    return datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=_UTC)
