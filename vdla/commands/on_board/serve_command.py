# SPDX-License-Identifier: Apache-2.0
"""`vdla_board serve`: this board for `pynq://` clients, without gRPC and without a computer."""

from __future__ import annotations

import argparse

from vdla.commands.on_board.device_choice import add_device_arguments, add_machine_arguments, device_options, machine
from vdla.commands.options import add_options
from vdla.commands.serving import add_credential_arguments, serve_device

EXAMPLES = """\
  python3 -m vdla_board serve --listen 0.0.0.0:7968 --tls certificates
  python3 -m vdla_board serve --listen 127.0.0.1:7968 --limit sessions=4
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to listen, the device and its machine, who may come."""
    add_options(parser, {"--listen HOST:PORT = 127.0.0.1:7968": "the address (default 127.0.0.1:7968)"})
    add_device_arguments(parser)
    add_machine_arguments(parser)
    add_credential_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    config, options = machine("serve", arguments), device_options("serve", arguments)
    return serve_device(arguments, arguments.device, config, options, "http")
