"""The part of `vdla board serve` that serves a device of this machine for `pynq://` clients."""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import fields
from pathlib import Path
from threading import Event
from typing import Any

from vdla.commands import OK, CommandError
from vdla.commands.completion import complete_with
from vdla.commands.machine_options import key_and_value, machine
from vdla.support.suggest import did_you_mean


def device_names() -> list[str]:
    """The devices of this machine, for completion."""
    from vdla.runtime.devices import DEVICES

    return list(DEVICES)


def add_remote_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to listen, for what device, who may come, how much they may take."""
    group = parser.add_argument_group("a device for pynq:// clients")
    group.add_argument("--listen", metavar="HOST:PORT", help="serve a device of this machine there")
    device = group.add_argument("--device", metavar="NAME", help="the device to serve: sim (default), rtl or pynq")
    complete_with(device, device_names)
    group.add_argument("--tls", type=Path, metavar="DIR", help="certificates, as vdla board certificates writes them")
    group.add_argument("--token-file", type=Path, metavar="FILE", help="a secret that clients must know")
    group.add_argument(
        "--limit", nargs="+", default=[], metavar="KEY=VALUE", help="limits of clients, such as sessions=4 run_s=30"
    )


def serve_device(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM."""
    from vdla.runtime.remote.credentials import Credentials
    from vdla.runtime.remote.server import RemoteServer

    config = machine(arguments)
    credentials = Credentials.of(arguments.tls, token_file=arguments.token_file)
    ended = Event()
    earlier = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        name = arguments.device or "sim"
        with RemoteServer(
            name, config, arguments.listen, credentials=credentials, limits=limits_of(arguments.limit)
        ) as server:
            print(f"{name}, {config.name} ({config.fingerprint}), at {server.address}", flush=True)
            ended.wait()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        signal.signal(signal.SIGTERM, earlier)
    return OK


def refuse_remote_options(arguments: argparse.Namespace) -> None:
    """CommandError for options that need --listen."""
    for option in ("device", "tls", "token_file", "limit"):
        value = getattr(arguments, option)
        if value not in (None, []):
            shown = " ".join(value) if isinstance(value, list) else value
            raise CommandError(
                f"board serve: --{option.replace('_', '-')} must be left out without --listen, got {shown}"
            )


def limits_of(settings: list[str]) -> Any:  # noqa: ANN401  Limits, which is imported late
    """The limits that KEY=VALUE words set."""
    from vdla.runtime.remote.limits import Limits

    kinds = {field.name: field.type for field in fields(Limits)}
    values: dict[str, Any] = {}
    for setting in settings:
        key, text = key_and_value("--limit", setting)
        if key not in kinds:
            raise CommandError(f"--limit: key must be one of {', '.join(kinds)}, got {key}{did_you_mean(key, kinds)}")
        try:
            values[key] = int(text) if kinds[key] == "int" else float(text)
        except ValueError:
            raise CommandError(f"--limit: {key} must be a number, got {text!r}") from None
    return Limits(**values)
