# SPDX-License-Identifier: Apache-2.0
"""Boards with PYNQ.remote asked for their state: by the class, and by the command."""

from __future__ import annotations

from vdla.cli import main
from vdla.runtime.remote.address import Address
from vdla.runtime.remote.pynq_board import PORT, PynqBoard
from vdla.runtime.remote.pynq_status import PynqStatus


def asked(host: str) -> PynqStatus:
    """What the board at a host says."""
    with PynqBoard(Address(host, PORT), 5.0) as board:
        return board.status()


def printed(capsys, *arguments: str, code: int = 0) -> str:
    """What the command prints, with single spaces."""
    assert main(["board", "status", *arguments]) == code
    return "\n".join(" ".join(line.split()) for line in capsys.readouterr().out.splitlines())
