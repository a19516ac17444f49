# SPDX-License-Identifier: Apache-2.0
"""The status of a board that runs PYNQ.remote as rows of tables, and what to do next."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from vdla.runtime.devices.overlay import proxy_variables
from vdla.runtime.remote.address import Address

if TYPE_CHECKING:
    from vdla.runtime.remote.pynq_status import PynqClient, PynqStatus

_MEBIBYTE = 1 << 20
_SILENT_S = 60.0
"""Seconds after which a client may be one that was killed."""
_UNITS = ((86400, "d"), (3600, "h"), (60, "min"))
PYNQ_CLIENT_HEADINGS = ("board", "client", "machine", "memory", "open for", "last run")


def pynq_rows(status: PynqStatus) -> list[tuple[str, str]]:
    """What the tables say of a board."""
    loaded = status.bitstream
    return [
        ("board", status.board),
        ("up for", "unknown" if status.uptime_s is None else duration(status.uptime_s)),
        ("fabric", status.fabric or "unknown"),
        ("bitstream", "none of VDLA's noted" if loaded is None else loaded.file),
        ("machine", "-" if loaded is None else loaded.machine),
        ("fingerprint", "-" if loaded is None else loaded.fingerprint),
        ("loaded by", "-" if loaded is None else f"{loaded.client}, {duration(loaded.ago_s)} ago"),
        ("clock", "unknown" if status.clock_mhz is None else f"{status.clock_mhz:g} MHz"),
        ("contiguous memory", _memory(status)),
        ("clients", str(len(status.clients)) if status.clients else "none of VDLA's noted"),
    ]


def _memory(status: PynqStatus) -> str:
    if status.memory_bytes is None or status.free_bytes is None:
        return "unknown"
    used = status.memory_bytes - status.free_bytes
    return f"{used / _MEBIBYTE:.1f} of {status.memory_bytes / _MEBIBYTE:.0f} MiB in use"


def pynq_client_rows(board: str, status: PynqStatus) -> list[list[str]]:
    """Who has a board open: a row for each client that noted itself."""
    return [
        [
            board,
            client.client,
            client.machine,
            f"{client.memory_bytes / _MEBIBYTE:.1f} MiB",
            duration(client.since_s),
            f"{duration(client.seen_s)} ago",
        ]
        for client in status.clients
    ]


def duration(seconds: float) -> str:
    """A time in its largest unit, such as 5 min."""
    for length, unit in _UNITS:
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{seconds:.0f} s"


def advice(address: str, status: PynqStatus) -> str:
    """What to do with a board, by who uses it."""
    host = Address.parse(address).host
    return f"{_next(host, status)}{_proxies(host)}"


def _next(host: str, status: PynqStatus) -> str:
    silent = [client for client in status.clients if client.seen_s >= _SILENT_S]
    busy = [client for client in status.clients if client.seen_s < _SILENT_S]
    share = f"PYNQ_REMOTE_DEVICES={host} vdla board serve --listen HOST:PORT --device pynq"
    if len(busy) > 1:
        return f"{_names(busy)} disturb each other; let them share one server: {share}"
    if busy:
        return f"in use by {_names(busy)}: wait, or share one server: {share}"
    if silent:
        return (
            f"{_names(silent)} may have been killed, since there was no run for {duration(silent[-1].seen_s)}: "
            "ask, and restart the server of PYNQ.remote on the board if so, which frees the memory"
        )
    return f"no client of VDLA: PYNQ_REMOTE_DEVICES={host} vdla board selftest --device pynq uses it"


def _names(clients: list[PynqClient]) -> str:
    return " and ".join(client.client for client in clients)


def _proxies(host: str) -> str:
    """A warning of what would keep PYNQ's client from the board."""
    proxies = proxy_variables(os.environ)
    bypassed = [name.strip() for name in os.environ.get("no_proxy", "").split(",")]
    if not proxies or any(name and host.endswith(name) for name in bypassed):
        return ""
    return f"; PYNQ's client connects through the proxy in {' and '.join(proxies)}: name {host} in no_proxy"
