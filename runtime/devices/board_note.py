# SPDX-License-Identifier: Apache-2.0
"""The note on a board of who uses it: a file that every device `pynq` writes, in JSON.

PYNQ knows neither users nor locks. The note is for people only: no run depends on it, since any
client may lose or change it, and a client that was killed stays in it. It lies in /run, which a
start of the board empties. Times are seconds since that start, by the board's own clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

PATH = "/run/vdla_clients.json"
UPTIME = "/proc/uptime"
_MOST_CLIENTS = 16
_MOST_TEXT = 120


@dataclass(frozen=True, slots=True)
class NotedBitstream:
    """The bitstream that a device loaded last: its file on the board, named after its content, and
    its clock, as PYNQ said when a device was opened; 0 if it did not.
    """

    file: str
    machine: str
    fingerprint: str
    client: str
    at_s: float
    clock_mhz: float


@dataclass(frozen=True, slots=True)
class NotedClient:
    """A device that is open, as it wrote at `seen_s`; `key` tells it from all others."""

    key: str
    client: str
    machine: str
    file: str
    memory_bytes: int
    since_s: float
    seen_s: float


@dataclass(frozen=True, slots=True)
class BoardNote:
    """What the file says: the last bitstream, and the clients."""

    bitstream: NotedBitstream | None = None
    clients: tuple[NotedClient, ...] = ()

    @staticmethod
    def parse(content: bytes) -> BoardNote:
        """What a file says, of which nothing is trusted; what is not of this form is left out."""
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            return BoardNote()
        if not isinstance(document, dict):
            return BoardNote()
        entries = document.get("clients")
        clients = (_parsed(NotedClient, entry) for entry in (entries if isinstance(entries, list) else ()))
        return BoardNote(
            _parsed(NotedBitstream, document.get("bitstream")),
            _newest(client for client in clients if client is not None),
        )

    def render(self) -> bytes:
        """The content of the file."""
        bitstream = None if self.bitstream is None else asdict(self.bitstream)
        return json.dumps({"bitstream": bitstream, "clients": [asdict(client) for client in self.clients]}).encode()

    def with_client(self, client: NotedClient) -> BoardNote:
        """With the entry of a client in place of its older one."""
        return replace(self, clients=_newest([*self.without(client.key).clients, client]))

    def without(self, key: str) -> BoardNote:
        """Without the entry of a client."""
        return replace(self, clients=tuple(client for client in self.clients if client.key != key))


def uptime_s(content: bytes) -> float | None:
    """The seconds at the begin of /proc/uptime; None where it has none."""
    try:
        return float(content.split()[0])
    except (ValueError, IndexError):
        return None


def _newest(clients: Iterable[NotedClient]) -> tuple[NotedClient, ...]:
    """The clients seen last, in the order in which they came."""
    seen = sorted(clients, key=lambda client: client.seen_s)[-_MOST_CLIENTS:]
    return tuple(sorted(seen, key=lambda client: client.since_s))


def _parsed(kind: type[Any], entry: object) -> Any:  # noqa: ANN401  a dataclass above
    """An entry of the file, None where it is not one."""
    names = kind.__dataclass_fields__
    if not isinstance(entry, Mapping) or set(entry) != set(names):
        return None
    values = {name: _value(names[name].type, entry[name]) for name in names}
    return None if None in values.values() else kind(**values)


def _value(kind: str, value: object) -> object:
    """The value of a field by its annotation; None where it has another type."""
    if kind == "str":
        return printable(value) if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float(1 << 53):
        return None
    return int(value) if kind == "int" else float(value)


def printable(text: str) -> str:
    """The beginning of a text that others wrote, without what does harm on a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_MOST_TEXT])
