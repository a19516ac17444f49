# SPDX-License-Identifier: Apache-2.0
"""The state of several boards, asked as often as wanted: servers of ours, and PYNQ.remote's.

Connections to boards with PYNQ.remote are kept from one time to the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from vdla.runtime.devices.pynq_messages import MissingPackageError
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.farm import FarmBoard
from vdla.runtime.remote.messages import BoardStatus
from vdla.runtime.remote.pynq_board import PynqBoard
from vdla.runtime.remote.pynq_status import PynqStatus
from vdla.support.errors import Error

if TYPE_CHECKING:
    from typing_extensions import Self

Status = BoardStatus | PynqStatus
_MOST_THREADS = 32


class BoardWatch:
    """Boards, by their names."""

    def __init__(self, boards: Sequence[FarmBoard]) -> None:
        self._boards = boards
        self._connections: dict[str, PynqBoard] = {}

    def statuses(self) -> dict[str, Status | Error]:
        """What every board says, or why it says nothing; all are asked at the same time."""
        with ThreadPoolExecutor(min(_MOST_THREADS, len(self._boards))) as pool:
            answers = pool.map(self._ask, self._boards)
            return {board.name: answer for board, answer in zip(self._boards, answers, strict=True)}

    def close(self) -> None:
        """End the connections."""
        for name in list(self._connections):
            self._drop(name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, board: FarmBoard) -> Status | Error:
        try:
            return self._pynq(board).status() if board.runs_pynq else board.status()
        except (RemoteError, MissingPackageError) as error:
            self._drop(board.name)
            return error

    def _pynq(self, board: FarmBoard) -> PynqBoard:
        if board.name not in self._connections:
            self._connections[board.name] = board.pynq()
        return self._connections[board.name]

    def _drop(self, name: str) -> None:
        connection = self._connections.pop(name, None)
        if connection is not None:
            connection.close()
