# SPDX-License-Identifier: Apache-2.0
"""`vdla board status`: what servers of devices say of themselves."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from vdla.commands import FINDING, OK
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
"""

_MEBIBYTE = 1 << 20


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The server or the farm, and the credentials of one server."""
    add_options(
        parser,
        {
            "address ADDRESS": "an address (pynq://HOST:PORT), or the file of a farm",
            "--tls DIR": "certificates of a single address",
            "--token-file FILE": "the secret of a single address",
            "--json": "write JSON to FILE, or to standard output in place of tables",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Print a column for each server; exit code 1 where one does not answer."""
    from vdla.runtime.remote.farm import FarmBoard, farm_status, read_farm
    from vdla.runtime.remote.messages import BoardStatus

    if arguments.address.endswith(".toml"):
        boards = read_farm(arguments.address)
        farm = farm_status(boards)
    else:
        boards = (FarmBoard(arguments.address, arguments.address, arguments.tls, arguments.token_file),)
        farm = [boards[0].status()]
    answers = [(board, status) for board, status in zip(boards, farm, strict=True) if isinstance(status, BoardStatus)]
    silent = [(board, error) for board, error in zip(boards, farm, strict=True) if not isinstance(error, BoardStatus)]
    document = {board.name: asdict(status) for board, status in answers}
    if write_json(arguments.json, document | {board.name: {"error": str(error)} for board, error in silent}):
        return FINDING if silent else OK
    if answers:
        output().print(_table(answers))
    for board, error in silent:
        output().print(f"{board.name}: {error}", soft_wrap=True)
    return FINDING if silent else OK


def _table(answers: list[tuple[FarmBoard, BoardStatus]]) -> object:
    shown = table("servers", "", *(board.name for board, _ in answers))
    for name, *cells in zip(*(_rows(status) for _, status in answers), strict=True):
        shown.add_row(name[0], name[1], *(cell[1] for cell in cells))
    return shown


def _rows(status: BoardStatus) -> list[tuple[str, str]]:
    memory = f"{status.memory_bytes / _MEBIBYTE:.1f} of {status.most_memory_bytes / _MEBIBYTE:.0f} MiB"
    return [
        ("device", status.device),
        ("configuration", status.config),
        ("fingerprint", status.fingerprint),
        ("clock", f"{status.clock_mhz:g} MHz"),
        ("sessions", f"{status.sessions} of {status.most_sessions}"),
        ("queue", f"{status.queued} waiting, {status.running} running"),
        ("memory", f"{memory} in {status.blocks} blocks"),
        ("cache", f"{status.cache_bytes / _MEBIBYTE:.1f} MiB, {status.cache_hits} hits, {status.cache_misses} misses"),
        ("runs", str(status.runs)),
        ("opened again", str(status.reopened)),
        ("uptime", f"{status.uptime_s:.0f} s"),
        ("last error", status.last_error.splitlines()[0] if status.last_error else "none"),
    ]
