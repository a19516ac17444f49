# SPDX-License-Identifier: Apache-2.0
"""What commands that serve a device share: who may come, how much they may take, until when."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import fields
from importlib import import_module
from threading import Event
from typing import TYPE_CHECKING, Any

from vdla.commands import OK, CommandError
from vdla.commands.machine_options import key_and_value
from vdla.commands.options import add_options
from vdla.support.suggest import one_of

if TYPE_CHECKING:
    from vdla.hardware.config import Config


_PAGE = "vdla.commands.board.status_page"


def add_credential_arguments(parser: argparse._ActionsContainer) -> None:
    """--tls, --token-file and --limit."""
    add_options(
        parser,
        {
            "--tls DIR": "certificates, as vdla board certificates writes them",
            "--token-file FILE": "a secret that clients must know",
            "--limit KEY=VALUE...": "limits of clients, such as sessions=4 run_s=30",
        },
    )


def serve_device(
    arguments: argparse.Namespace, name: str, config: Config, options: Mapping[str, Any], transport: str | None = None
) -> int:
    """Serve a device of this machine until Ctrl-C or SIGTERM."""
    from vdla.runtime.remote.credentials import Credentials
    from vdla.runtime.remote.server import RemoteServer

    credentials = Credentials.of(arguments.tls, token_file=arguments.token_file)
    limits = limits_of(arguments.limit)
    server = RemoteServer(
        name, config, arguments.listen, options=options, credentials=credentials, limits=limits, transport=transport
    )
    what = f"{name}, {config.name} ({config.fingerprint}), at {server.address}"
    if getattr(arguments, "page", None) is None:  # the package for boards has no page
        return serve_until_ended(server, lambda: what)
    page = import_module(_PAGE).StatusPage(lambda: {name: server.status()}, arguments.page)
    with server:
        return serve_until_ended(page, lambda: f"{what}; status at {page.url}")


def serve_until_ended(server: AbstractContextManager[Any], greeting: Callable[[], str]) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    ended = Event()
    earlier = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        with server:
            print(greeting(), flush=True)
            ended.wait()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        signal.signal(signal.SIGTERM, earlier)
    return OK


def limits_of(settings: list[str]) -> Any:  # noqa: ANN401  Limits, which is imported late
    """The limits that KEY=VALUE words set."""
    from vdla.runtime.remote.limits import Limits

    kinds = {field.name: field.type for field in fields(Limits)}
    values: dict[str, Any] = {}
    for setting in settings:
        key, text = key_and_value("--limit", setting)
        if key not in kinds:
            raise CommandError(f"--limit: key must be {one_of(key, kinds)}")
        try:
            values[key] = int(text) if kinds[key] == "int" else float(text)
        except ValueError:
            raise CommandError(f"--limit: {key} must be a number, got {text!r}") from None
    return Limits(**values)
