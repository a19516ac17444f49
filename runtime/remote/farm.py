# SPDX-License-Identifier: Apache-2.0
"""A farm: a list of servers in one file; a device of it is a session with the one that is free.

[[board]]
name = "left"
address = "pynq://10.0.0.5:7968"
tls = "certificates"      # paths are relative to the file
token_file = "token"

A board that runs PYNQ.remote, HOST:7967, may be listed for its status; it has no sessions.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

from vdla.hardware.config import Config
from vdla.runtime.devices.request_checks import require_config
from vdla.runtime.remote.address import SCHEME, Address
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.messages import BoardStatus
from vdla.runtime.remote.open_calls import board_status
from vdla.runtime.remote.pynq_board import PORT as PYNQ_PORT
from vdla.runtime.remote.pynq_board import PynqBoard
from vdla.runtime.remote.remote_device import RemoteDevice
from vdla.support.file_kind import unreadable

_LOG = logging.getLogger(__name__)
_FIELDS = ("name", "address", "tls", "token_file")
_MOST_BOARDS = 1024
STATUS_S = 5.0
"""Seconds that a board of a farm has to answer."""
_SETTLE_S = 0.25
"""Seconds that the other boards have once one can be used."""


@dataclass(frozen=True, slots=True)
class FarmBoard:
    """One board of a farm: that of a server, or one that runs PYNQ.remote, HOST:7967."""

    name: str
    address: str
    tls: Path | None = None
    token_file: Path | None = None

    @property
    def runs_pynq(self) -> bool:
        """Whether PYNQ.remote should answer, not a server of ours."""
        return not self.address.startswith(SCHEME)

    def pynq(self, timeout_s: float = STATUS_S) -> PynqBoard:
        """The connection to a board that runs PYNQ.remote; RemoteError where there is none."""
        return PynqBoard(Address.parse(self.address), timeout_s)

    def status(self, timeout_s: float = STATUS_S) -> BoardStatus:
        """What the server says of itself; RemoteError where it does not answer."""
        return board_status(self.address, Credentials.of(self.tls, token_file=self.token_file), timeout_s)


def board_address(text: object) -> str:
    """The address of a board as `FarmBoard` has it; RemoteError where it is none."""
    address = Address.parse(text)
    is_pynq = address.port == PYNQ_PORT and not str(text).startswith(SCHEME)
    return address.target if is_pynq else str(address)


def read_farm(path: str | Path) -> tuple[FarmBoard, ...]:
    """The boards in a farm's file; RemoteError says what is wrong with it."""
    file = Path(path)
    try:
        document = _toml().loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RemoteError(unreadable(path, error)) from None
    except ValueError as error:
        raise RemoteError(f"{path}: farm must be TOML, got {error}") from None
    entries = document.get("board")
    if set(document) != {"board"} or not isinstance(entries, list) or not 1 <= len(entries) <= _MOST_BOARDS:
        raise RemoteError(f"{path}: farm must be a list of [[board]] tables, got {', '.join(document) or 'nothing'}")
    boards = tuple(_board(f"{path}: board {index}", entry, file.parent) for index, entry in enumerate(entries))
    names = [board.name for board in boards]
    for name in names:
        if names.count(name) > 1:
            raise RemoteError(f"{path}: names of boards must differ, got {name} twice")
    return boards


def _toml() -> Any:  # noqa: ANN401  a module
    if sys.version_info >= (3, 11):
        import tomllib

        return tomllib
    import tomli

    return tomli


def _board(where: str, entry: object, folder: Path) -> FarmBoard:
    if not isinstance(entry, dict):
        raise RemoteError(f"{where}: entry must be a table, got {entry!r}")
    for field, value in entry.items():
        if field not in _FIELDS or not isinstance(value, str):
            raise RemoteError(f"{where}: fields must be texts named {', '.join(_FIELDS)}, got {field} = {value!r}")
    if "address" not in entry:
        raise RemoteError(f"{where}: address must be given, got {', '.join(entry) or 'nothing'}")
    address = board_address(entry["address"])
    paths = {name: folder / entry[name] for name in ("tls", "token_file") if name in entry}
    return FarmBoard(entry.get("name", address), address, **paths)


def _answers(
    boards: Sequence[FarmBoard], settled: Callable[[], bool]
) -> Iterator[tuple[FarmBoard, BoardStatus | RemoteError]]:
    """The boards as they answer. Once it is `settled`, those that are silent soon count as such: a
    stopped board costs nothing where another can be used.
    """
    came: SimpleQueue[tuple[FarmBoard, BoardStatus | RemoteError]] = SimpleQueue()
    for board in boards:  # daemons: nobody waits for the answer of a stopped board
        Thread(target=_ask, args=(board, came), name=f"status {board.name}", daemon=True).start()
    silent = {board.name: board for board in boards}
    while silent:
        try:
            board, status = came.get(timeout=_SETTLE_S if settled() else None)
        except Empty:
            break
        del silent[board.name]
        yield board, status
    for board in silent.values():
        yield board, RemoteError(f"{board.address}: server must answer as soon as the others, got no answer yet")


def _ask(board: FarmBoard, came: SimpleQueue[tuple[FarmBoard, BoardStatus | RemoteError]]) -> None:
    try:
        came.put((board, board.status()))
    except RemoteError as error:
        came.put((board, error))


def open_farm(
    config: Config,
    path: str,
    memory_bytes: int | None = None,
    timeout_cycles: int | None = None,
    wait_s: float = 600.0,
) -> RemoteDevice:
    """A session with the least loaded board that fits; boards that cannot be used are logged.

    Raises:
        RemoteError: no board can be used; the message has the reason of each.
    """
    boards = read_farm(path)
    require_config(f"device {path}", config)
    reasons = {board.name: _no_queue(board) for board in boards if board.runs_pynq}
    usable: list[tuple[tuple[int, float], FarmBoard]] = []
    servers = [board for board in boards if not board.runs_pynq]
    for board, status in _answers(servers, settled=lambda: bool(usable)):
        reason = _misfit(status, config, memory_bytes) if isinstance(status, BoardStatus) else str(status)
        if reason:
            reasons[board.name] = reason
        elif isinstance(status, BoardStatus):
            usable.append((_load(status), board))
    for _, board in sorted(usable, key=lambda pair: pair[0]):
        try:
            device = RemoteDevice(
                config, board.address, memory_bytes, timeout_cycles,
                tls=board.tls, token_file=board.token_file, wait_s=wait_s,
            )  # fmt: skip
        except RemoteError as error:  # it filled up in the meantime
            reasons[board.name] = str(error)
            continue
        _note(path, reasons)
        return device
    listed = "".join(f"\n  {board.name}: {reasons[board.name]}" for board in boards)  # not as they answered
    raise RemoteError(f"device {path}: a board must be free and fit, got none of {len(boards)}:{listed}")


def _no_queue(board: FarmBoard) -> str:
    """Why a board that runs PYNQ.remote takes no work of a farm."""
    host = Address.parse(board.address).host
    return (
        f"{board.address}: board must have a server with a queue, got PYNQ.remote; serve it from a computer: "
        f"PYNQ_REMOTE_DEVICES={host} vdla board serve --listen HOST:PORT --device pynq"
    )


def _note(path: str, reasons: Mapping[str, str]) -> None:
    for name, reason in reasons.items():
        _LOG.warning("device %s: skipped board %s: %s", path, name, reason)


def _load(status: BoardStatus) -> tuple[int, float]:
    return (status.queued + status.running + status.sessions, status.memory_bytes / status.most_memory_bytes)


def _misfit(status: BoardStatus, config: Config, memory_bytes: int | None) -> str:
    """Why a board cannot take the work; empty where it can."""
    if status.fingerprint != config.fingerprint:
        return f"fingerprint must be {config.fingerprint}, got {status.fingerprint} ({status.config})"
    for client in status.clients:
        if client.reserved_s:
            seconds = f"{client.reserved_s:.0f} s"
            return f"board must not be reserved, got a reservation of {client.client} for another {seconds}"
    if status.sessions >= status.most_sessions:
        return f"sessions must be below {status.most_sessions}, got {status.sessions}"
    free = min(status.session_memory_bytes, status.most_memory_bytes - status.memory_bytes)
    if memory_bytes is not None and free < memory_bytes:
        return f"free memory must be at least {memory_bytes} bytes, got {free}"
    return ""
