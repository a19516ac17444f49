# SPDX-License-Identifier: Apache-2.0
"""`vdla board status`: what boards say of themselves, those of servers and those of PYNQ.remote."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import FINDING, OK, CommandError
from vdla.commands.board.pynq_rows import PYNQ_CLIENT_HEADINGS, advice, pynq_client_rows, pynq_rows
from vdla.commands.board.status_rows import CLIENT_HEADINGS, client_rows, status_rows
from vdla.commands.console import output, table
from vdla.commands.files import write_json
from vdla.commands.options import add_options

if TYPE_CHECKING:
    from vdla.runtime.remote.address import Address
    from vdla.runtime.remote.board_watch import Status
    from vdla.runtime.remote.farm import FarmBoard
    from vdla.support.errors import Error

EXAMPLES = """\
  vdla board status 192.168.2.99           a board that runs PYNQ.remote, or a server
  vdla board status pynq://127.0.0.1:7968
  vdla board status farm.toml              every board of a farm
  vdla board status 10.0.0.5 --tls certificates
  vdla board status farm.toml --page 127.0.0.1:8080     for a browser
"""
_BOARDS = "PYNQ_REMOTE_DEVICES"
_LOOK_S = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The boards, and the credentials of servers."""
    add_options(
        parser,
        {
            "address ADDRESS": "a server (pynq://HOST:PORT), a board that runs PYNQ.remote (HOST:7967), either of "
            f"both (HOST), or the file of a farm; default: the boards in ${_BOARDS}",
        },
        nargs="*",
    )
    add_options(
        parser,
        {
            "--tls DIR": "certificates of servers that are no farm's",
            "--token-file FILE": "the secret of servers that are no farm's",
            "--page HOST:PORT": "serve the tables there as a page, until Ctrl-C",
            "--json": "write JSON to FILE, or to standard output in place of tables",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a column for each board; exit code 1 where one does not answer."""
    from vdla.runtime.remote.board_watch import board_statuses

    boards = _boards(arguments)
    if arguments.page is not None:
        return _serve_page(boards, arguments.page)
    answers = board_statuses(boards)
    for host in filter(_is_host, arguments.address):
        answers[host] = _of_both(answers[host])
    if not write_json(arguments.json, {name: _described(answer) for name, answer in answers.items()}):
        _print(answers, {board.name: board.address for board in boards})
    return FINDING if any(isinstance(answer, Exception) for answer in answers.values()) else OK


# --- addresses ------------------------------------------------------------------------------------


def _boards(arguments: argparse.Namespace) -> list[FarmBoard]:
    """The boards that are named, those that are named twice once."""
    from vdla.runtime.remote.farm import read_farm

    boards: dict[FarmBoard, None] = {}
    for text in arguments.address or _named_by_pynq():
        if text.endswith(".toml"):
            boards |= dict.fromkeys(read_farm(text))
        else:
            boards[_board(text, arguments.tls, arguments.token_file)] = None
    names = [board.name for board in boards]
    for name in names:
        if names.count(name) > 1:
            raise CommandError(f"board status: names of boards must differ, got {name} twice")
    return list(boards)


def _named_by_pynq() -> list[str]:
    """The boards that PYNQ's client uses."""
    from vdla.runtime.remote.pynq_board import PORT

    hosts = [host.strip() for host in os.environ.get(_BOARDS, "").split(",")]
    addresses = [f"{host}:{PORT}" for host in hosts if host]
    if not addresses:
        raise CommandError(f"board status: ADDRESS must be given, or ${_BOARDS} name boards, got neither")
    return addresses


def _board(text: str, tls: Path | None, token_file: Path | None) -> FarmBoard:
    """The board at an address; a host alone, without credentials, may be one of PYNQ.remote."""
    from vdla.runtime.remote.address import Address
    from vdla.runtime.remote.farm import FarmBoard, board_address
    from vdla.runtime.remote.pynq_board import PORT

    address, server = board_address(text), Address.parse(text)
    pynq = Address(server.host, PORT)
    option = "--tls" if tls else "--token-file" if token_file else None
    if option is None and _is_host(text) and not _listens(server) and _listens(pynq):
        address = pynq.target
    board = FarmBoard(text, address, tls, token_file)
    if option is not None and board.runs_pynq:
        raise CommandError(f"board status: {option} must be for servers, got {text}, PYNQ.remote, which has no secrets")
    return board


def _is_host(text: str) -> bool:
    """Whether an address is a host alone, without scheme and port."""
    host = text.removeprefix("[").removesuffix("]")
    return (":" not in text and not text.endswith(".toml")) if host == text else text == f"[{host}]"


def _listens(address: Address) -> bool:
    """Whether something listens at an address."""
    try:
        socket.create_connection((address.host, address.port), _LOOK_S).close()
    except OSError:
        return False
    return True


def _described(answer: Status | Error) -> dict[str, Any]:
    """An answer as JSON."""
    return {"error": str(answer)} if isinstance(answer, Exception) else asdict(answer)


def _of_both(answer: Status | Error) -> Status | Error:
    """The answer of a host alone, at which both kinds of servers were looked for."""
    from vdla.runtime.remote.connection_cause import Cause, ConnectionFault
    from vdla.runtime.remote.errors import RemoteError
    from vdla.runtime.remote.pynq_board import PORT

    if isinstance(answer, ConnectionFault) and answer.cause is Cause.NO_SERVER:
        return RemoteError(f"{answer}; PYNQ.remote does not answer at port {PORT} either")
    return answer


# --- tables ---------------------------------------------------------------------------------------


def _print(answers: Mapping[str, Status | Error], addresses: Mapping[str, str]) -> None:
    from vdla.runtime.remote.messages import BoardStatus
    from vdla.runtime.remote.pynq_status import PynqStatus

    servers = {name: status for name, status in answers.items() if isinstance(status, BoardStatus)}
    pynq = {name: status for name, status in answers.items() if isinstance(status, PynqStatus)}
    if servers:
        _print_columns("servers", {name: status_rows(status) for name, status in servers.items()})
        _print_rows(CLIENT_HEADINGS, [row for name, status in servers.items() for row in client_rows(name, status)])
    if pynq:
        _print_columns("boards with PYNQ.remote", {name: pynq_rows(status) for name, status in pynq.items()})
        rows = [row for name, status in pynq.items() for row in pynq_client_rows(name, status)]
        _print_rows(PYNQ_CLIENT_HEADINGS, rows)
    for name, status in pynq.items():
        output().print(f"{name}: {advice(addresses[name], status)}", soft_wrap=True)
    for name, answer in answers.items():
        if isinstance(answer, Exception):
            output().print(f"{name}: {answer}", soft_wrap=True)


def _print_columns(title: str, boards: Mapping[str, list[tuple[str, str]]]) -> None:
    """A row for each thing that boards say, a column for each board."""
    shown = table(title, "", *boards)
    for cells in zip(*boards.values(), strict=True):
        shown.add_row(cells[0][0], *(cell for _, cell in cells))
    output().print(shown)


def _print_rows(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The clients, if there are any."""
    if rows:
        shown = table("clients", *headings)
        for row in rows:
            shown.add_row(*row)
        output().print(shown)


def _serve_page(boards: Sequence[FarmBoard], listen: str) -> int:
    """Serve the page of boards until Ctrl-C; each request asks the boards."""
    from vdla.commands.board.status_page import StatusPage
    from vdla.commands.serving import serve_until_ended
    from vdla.runtime.remote.board_watch import board_statuses

    def statuses() -> dict[str, Status | str]:
        answers = board_statuses(boards)
        return {name: str(status) if isinstance(status, Exception) else status for name, status in answers.items()}

    page = StatusPage(statuses, listen)
    return serve_until_ended(page, lambda: f"status of {len(boards)} boards at {page.url}")
