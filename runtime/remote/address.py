# SPDX-License-Identifier: Apache-2.0
"""Addresses of servers: `pynq://host:port`, or host:port where no other is possible."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from vdla.runtime.remote.errors import RemoteError

SCHEME = "pynq://"
DEFAULT_PORT = 7968
_MOST_PORT = 65535


@dataclass(frozen=True, slots=True)
class Address:
    """A host by name or number, and a port; port 0 lets a server choose."""

    host: str
    port: int

    @staticmethod
    def parse(text: object) -> Address:
        """`pynq://host:port`, `host:port` or `host`; IPv6 in brackets."""
        if not isinstance(text, str):
            raise RemoteError(f"address: address must look like {SCHEME}HOST:PORT, got {text!r}")
        rest = text.removeprefix(SCHEME)
        host, port = rest, str(DEFAULT_PORT)
        if rest.startswith("["):
            host, _, after = rest[1:].partition("]")
            port = after.removeprefix(":") if after else port
        elif ":" in rest:
            host, _, port = rest.rpartition(":")
        bad_host = not host or not host.isascii() or any(c in "/@?# \t\n" or not c.isprintable() for c in host)
        if bad_host or not (port.isascii() and port.isdigit()) or int(port) > _MOST_PORT:
            raise RemoteError(f"address: address must look like {SCHEME}HOST:PORT, got {text}")
        return Address(host, int(port))

    @property
    def target(self) -> str:
        """As gRPC takes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether the address is of this machine only; a name is not, except for localhost."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"{SCHEME}{self.target}"
