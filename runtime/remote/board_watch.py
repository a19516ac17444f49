# SPDX-License-Identifier: Apache-2.0
"""The state of several boards at once: of servers of ours, and of boards with PYNQ.remote."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from vdla.runtime.devices.pynq_messages import MissingPackageError
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.farm import FarmBoard
from vdla.runtime.remote.messages import BoardStatus
from vdla.runtime.remote.pynq_status import PynqStatus
from vdla.support.errors import Error

Status = BoardStatus | PynqStatus
_MOST_THREADS = 32


def board_statuses(boards: Sequence[FarmBoard]) -> dict[str, Status | Error]:
    """By name, what every board says, or why it says nothing; all are asked at the same time."""
    with ThreadPoolExecutor(min(_MOST_THREADS, len(boards))) as pool:
        return {board.name: answer for board, answer in zip(boards, pool.map(_asked, boards), strict=True)}


def _asked(board: FarmBoard) -> Status | Error:
    try:
        if not board.runs_pynq:
            return board.status()
        with board.pynq() as connection:
            return connection.status()
    except (RemoteError, MissingPackageError) as error:
        return error
