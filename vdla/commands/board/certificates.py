# SPDX-License-Identifier: Apache-2.0
"""`vdla board certificates`: an authority, and certificates of a server and its clients."""

from __future__ import annotations

import argparse

from vdla.commands import OK, CommandError
from vdla.commands.options import add_options

EXAMPLES = """\
  vdla board certificates -o certificates --host board.lab --host 10.0.0.5
  vdla board serve --listen 0.0.0.0:7968 --tls certificates     on the board
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The folder, the names, the days."""
    add_options(parser, {"-o --output DIR": "folder of the files"}, required=True)
    parser.add_argument(
        "--host", action="append", required=True, metavar="NAME", help="a name or an address of the server; several"
    )
    add_options(parser, {"--days N = 825": "days until they expire (default 825)"})


def run(arguments: argparse.Namespace) -> int:
    """Write the files and say which goes where."""
    try:
        from vdla.runtime.remote.certificates import write_certificates
    except ModuleNotFoundError as error:
        raise CommandError(
            f'board certificates: Python package {error.name} must be installed, got none; pip install "vdla[remote]"'
        ) from None
    for path in write_certificates(arguments.output, arguments.host, arguments.days):
        print(f"wrote {path}")
    print("the server needs ca.pem, server.pem and server.key; a client needs ca.pem, client.pem and client.key")
    print("keep ca.key apart: whoever has it can admit further clients")
    return OK
