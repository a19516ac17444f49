# SPDX-License-Identifier: Apache-2.0
"""`vdla board status`: what servers of devices say of themselves."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from vdla.commands import FINDING, OK
from vdla.commands.board.status_rows import CLIENT_HEADINGS, client_rows, status_rows
from vdla.commands.console import output, table
from vdla.commands.files import write_json
from vdla.commands.options import add_options

if TYPE_CHECKING:
    from vdla.runtime.remote.farm import FarmBoard
    from vdla.runtime.remote.messages import BoardStatus

EXAMPLES = """\
  vdla board status pynq://127.0.0.1:7968
  vdla board status farm.toml              every board of a farm
  vdla board status 10.0.0.5 --tls certificates
  vdla board status farm.toml --page 127.0.0.1:8080     for a browser
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The server or the farm, and the credentials of one server."""
    add_options(
        parser,
        {
            "address ADDRESS": "an address (pynq://HOST:PORT), or the file of a farm",
            "--tls DIR": "certificates of a single address",
            "--token-file FILE": "the secret of a single address",
            "--page HOST:PORT": "serve the tables there as a page, until Ctrl-C",
            "--json": "write JSON to FILE, or to standard output in place of tables",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a column for each server; exit code 1 where one does not answer."""
    from vdla.runtime.remote.farm import FarmBoard, farm_status, read_farm
    from vdla.runtime.remote.messages import BoardStatus

    if arguments.address.endswith(".toml"):
        boards = read_farm(arguments.address)
    else:
        boards = (FarmBoard(arguments.address, arguments.address, arguments.tls, arguments.token_file),)
    if arguments.page is not None:
        return _serve_page(boards, arguments.page)
    farm = farm_status(boards) if arguments.address.endswith(".toml") else [boards[0].status()]
    answers = [(board, status) for board, status in zip(boards, farm, strict=True) if isinstance(status, BoardStatus)]
    silent = [(board, error) for board, error in zip(boards, farm, strict=True) if not isinstance(error, BoardStatus)]
    document = {board.name: asdict(status) for board, status in answers}
    if write_json(arguments.json, document | {board.name: {"error": str(error)} for board, error in silent}):
        return FINDING if silent else OK
    if answers:
        output().print(_table(answers))
        clients = [row for board, status in answers for row in client_rows(board.name, status)]
        if clients:
            output().print(_clients(clients))
    for board, error in silent:
        output().print(f"{board.name}: {error}", soft_wrap=True)
    return FINDING if silent else OK


def _table(answers: list[tuple[FarmBoard, BoardStatus]]) -> object:
    shown = table("servers", "", *(board.name for board, _ in answers))
    for name, *cells in zip(*(status_rows(status) for _, status in answers), strict=True):
        shown.add_row(name[0], name[1], *(cell[1] for cell in cells))
    return shown


def _clients(rows: list[list[str]]) -> object:
    shown = table("clients", *CLIENT_HEADINGS)
    for row in rows:
        shown.add_row(*row)
    return shown


def _serve_page(boards: Sequence[FarmBoard], listen: str) -> int:
    """Serve the page of boards until Ctrl-C; each request asks the boards."""
    from vdla.commands.board.status_page import StatusPage
    from vdla.commands.serving import serve_until_ended
    from vdla.runtime.remote.farm import farm_status

    def statuses() -> dict[str, BoardStatus | str]:
        asked = zip(boards, farm_status(boards), strict=True)
        return {board.name: str(status) if isinstance(status, Exception) else status for board, status in asked}

    page = StatusPage(statuses, listen)
    return serve_until_ended(page, lambda: f"status of {len(boards)} boards at {page.url}")
