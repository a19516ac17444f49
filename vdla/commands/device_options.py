"""The options that select a device, and those of devices on boards."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import CommandError
from vdla.commands.completion import complete_with

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.runtime.devices import Device

_OF_BOARDS = ("bitstream", "accept_build")


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    """--device, --bitstream, --accept-build."""
    device = parser.add_argument(
        "--device", default="sim", metavar="NAME", help="sim (default), rtl, pynq, pynq://HOST:PORT, or a farm's file"
    )
    complete_with(device, device_names)
    parser.add_argument(
        "--bitstream", type=Path, metavar="FILE.bit",
        help="the bitstream of pynq (default NAME.bit of the machine, in $VDLA_OVERLAYS or here)",
    )  # fmt: skip
    parser.add_argument(
        "--accept-build", metavar="HASH", help="take a bitstream of this build, though other sources are installed"
    )


def device_names() -> list[str]:
    """The devices, for completion."""
    from vdla.runtime.devices import DEVICES

    return list(DEVICES)


def device_options(where: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The given options, as `open_device` takes them; refused where the device has none."""
    given = {name: getattr(arguments, name) for name in _OF_BOARDS if getattr(arguments, name) is not None}
    for name, value in given.items() if arguments.device != "pynq" else ():
        option = f"--{name.replace('_', '-')}"
        raise CommandError(f"{where}: --device must be pynq with {option} {value}, got {arguments.device}")
    return given


def opened(config: Config | None, device: str, options: Mapping[str, Any]) -> AbstractContextManager[Device | str]:
    """The device as the machine of a network; its name where the network has no programs."""
    from vdla.runtime.devices import open_device

    return nullcontext(device) if config is None else open_device(device, config, **options)
