# SPDX-License-Identifier: Apache-2.0
"""The SHA-256 by which a user trusts a file, as `sha256sum FILE` prints it."""

from __future__ import annotations

import hashlib

_DIGITS = 64


def require_digits(trust: object, where: str, error: type[Exception]) -> None:
    """Raise `error` unless this is a SHA-256, 64 hexadecimal digits."""
    if not isinstance(trust, str) or len(trust) != _DIGITS or not set(trust.lower()) <= set("0123456789abcdef"):
        raise error(f"{where}: trust must be a SHA-256 of {_DIGITS} hexadecimal digits, got {trust!r}")


def require_trusted(content: bytes, trust: str, where: str, error: type[Exception]) -> None:
    """Raise `error` unless the content has the trusted SHA-256, 64 hexadecimal digits."""
    require_digits(trust, where, error)
    digest = hashlib.sha256(content).hexdigest()
    if digest != trust.lower():
        raise error(f"{where}: SHA-256 must be the trusted {trust.lower()[:12]}, got {digest[:12]}")
