# SPDX-License-Identifier: Apache-2.0
"""A folder as a web server on this machine shows it, for pages that do more than files may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread


class _Quiet(SimpleHTTPRequestHandler):
    """Any server of static files will do: no header is added."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing is logged."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of a folder, which ends with the context."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder))) as server:
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
