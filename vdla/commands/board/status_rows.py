# SPDX-License-Identifier: Apache-2.0
"""The status of a server as rows of tables, in the terminal and on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vdla.runtime.remote.messages import BoardStatus

_MEBIBYTE = 1 << 20
CLIENT_HEADINGS = ("board", "client", "memory", "batches", "reserved")


def client_rows(board: str, status: BoardStatus) -> list[list[str]]:
    """Who holds a board: a row for each client."""
    return [
        [
            board,
            client.client + ("" if client.connected else " (connection lost)"),
            f"{client.memory_bytes / _MEBIBYTE:.1f} MiB in {client.blocks} blocks",
            f"{client.queued} waiting, {client.running} running",
            f"for {client.reserved_s:.0f} s" if client.reserved_s else "no",
        ]
        for client in status.clients
    ]


def status_rows(status: BoardStatus) -> list[tuple[str, str]]:
    """What the tables say of a board."""
    memory = f"{status.memory_bytes / _MEBIBYTE:.1f} of {status.most_memory_bytes / _MEBIBYTE:.0f} MiB"
    return [
        ("device", status.device),
        ("configuration", status.config),
        ("fingerprint", status.fingerprint),
        ("clock", f"{status.clock_mhz:g} MHz"),
        ("power", _power(status)),
        ("sessions", f"{status.sessions} of {status.most_sessions}"),
        ("queue", f"{status.queued} waiting, {status.running} running"),
        ("memory", f"{memory} in {status.blocks} blocks"),
        ("cache", f"{status.cache_bytes / _MEBIBYTE:.1f} MiB, {status.cache_hits} hits, {status.cache_misses} misses"),
        ("runs", str(status.runs)),
        ("opened again", str(status.reopened)),
        ("uptime", f"{status.uptime_s:.0f} s"),
        ("last error", status.last_error.splitlines()[0] if status.last_error else "none"),
    ]


def _power(status: BoardStatus) -> str:
    """The watts of all rails together, and of each."""
    rails = ", ".join(f"{name} {watts:.2f}" for name, watts in status.power_w.items())
    return f"{sum(status.power_w.values()):.2f} W ({rails})" if rails else "no sensors"
