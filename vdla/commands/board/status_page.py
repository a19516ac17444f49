# SPDX-License-Identifier: Apache-2.0
"""The status of servers as a page of the web: read-only, so that it needs no token.

It says who holds a board and shows no secret; it has no scripts, and asks for itself again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6
from threading import Thread
from typing import TYPE_CHECKING

from vdla.charts.elements import html_page, html_table, html_text
from vdla.commands import CommandError
from vdla.commands.board.pynq_rows import PYNQ_CLIENT_HEADINGS, pynq_client_rows, pynq_rows
from vdla.commands.board.status_rows import CLIENT_HEADINGS, client_rows, status_rows
from vdla.runtime.remote.address import Address
from vdla.runtime.remote.messages import BoardStatus
from vdla.runtime.remote.pynq_status import PynqStatus

if TYPE_CHECKING:
    from typing_extensions import Self

REFRESH_S = 5
Statuses = Mapping[str, "BoardStatus | PynqStatus | str"]
"""By the name of a board: its status, or why it has none."""
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'",
    "Refresh": str(REFRESH_S),
}


def status_html(statuses: Statuses) -> str:
    """The page: boards beside each other, who holds them, and those that do not answer."""
    servers = {name: status for name, status in statuses.items() if isinstance(status, BoardStatus)}
    pynq = {name: status for name, status in statuses.items() if isinstance(status, PynqStatus)}
    silent = [[name, status] for name, status in statuses.items() if isinstance(status, str)]
    parts = []
    if servers or not pynq:
        clients = [row for name, status in servers.items() for row in client_rows(name, status)]
        parts += _parts({name: status_rows(status) for name, status in servers.items()}, CLIENT_HEADINGS, clients)
    if pynq:
        clients = [row for name, status in pynq.items() for row in pynq_client_rows(name, status)]
        parts.append(html_text("h2", "Boards with PYNQ.remote"))
        parts += _parts({name: pynq_rows(status) for name, status in pynq.items()}, PYNQ_CLIENT_HEADINGS, clients)
    if silent:
        parts.append(html_text("h2", "Boards that do not answer"))
        parts.append(html_table(["board", "why"], silent))
    return html_page("Boards", parts)


def _parts(boards: Mapping[str, list[tuple[str, str]]], headings: Sequence[str], clients: list[list[str]]) -> list[str]:
    """Boards of one kind beside each other, and their clients."""
    parts = []
    if boards:
        rows = [[row[0][0], *(value for _, value in row)] for row in zip(*boards.values(), strict=True)]
        parts.append(html_table(["", *boards], rows))
    parts.append(html_text("h2", "Clients"))
    parts.append(html_table(headings, clients) if clients else html_text("p", "none"))
    return parts


class StatusPage:
    """Serves the page at `listen`, "HOST:PORT", in threads; it listens when it is constructed."""

    def __init__(self, statuses: Callable[[], Statuses], listen: str) -> None:
        address = Address.parse(listen)

        class Server(ThreadingHTTPServer):
            address_family = AF_INET6 if ":" in address.host else AF_INET
            daemon_threads = True

        class Handler(BaseHTTPRequestHandler):
            timeout = 10.0  # of a client that sends nothing

            def do_GET(self) -> None:
                """The page, at / only."""
                if self.path != "/":
                    self.send_error(404)
                    return
                content = status_html(statuses()).encode()
                self.send_response(200)
                for name, value in {**_HEADERS, "Content-Length": str(len(content))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Nothing: a page that is open asks every few seconds."""

        try:
            self._server = Server((address.host, address.port), Handler)
        except OSError as error:
            raise CommandError(
                f"--page: address must be free to listen on, got {address.target}: {error.strerror}"
            ) from None
        self.url = f"http://{Address(address.host, self._server.server_port).target}/"
        self._thread = Thread(target=self._server.serve_forever, name="page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
