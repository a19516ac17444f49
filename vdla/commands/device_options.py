# SPDX-License-Identifier: Apache-2.0
"""The options that select a device or an FPGA, and those of devices on boards."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from vdla.commands import CommandError
from vdla.commands.options import add_options, given
from vdla.support.suggest import one_of

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.hardware.fpga.parts import FpgaPart
    from vdla.runtime.devices import Device


def part_named(command: str, name: str | None, config: Config) -> FpgaPart:
    """The part of this name or in this file, by default that of the board after which a machine is
    named.
    """
    from vdla.hardware.fpga import part_file
    from vdla.hardware.fpga.parts import PARTS

    if name is not None and name not in PARTS and not name.endswith(part_file.SUFFIX):
        raise CommandError(f"{command}: --part must be {one_of(name, PARTS, ' or FILE.json')}")
    return part_file.part_named(name, config.name)


_OF_BOARDS = ("bitstream", "accept_build")


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    """--device, --bitstream, --accept-build."""
    add_options(
        parser,
        {
            "--device NAME = sim": "sim (default), rtl, pynq, pynq://HOST:PORT, or a farm's file",
            "--bitstream FILE.bit": "the bitstream of pynq "
            "(default NAME.bit of the machine, in $VDLA_OVERLAYS, here or installed)",
            "--accept-build HASH": "accept a bitstream of this build, though other sources are installed",
        },
    )


def device_options(where: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The given options, as `open_device` takes them; refused where the device has none."""
    for option, value in given(arguments, _OF_BOARDS) if arguments.device != "pynq" else ():
        raise CommandError(f"{where}: --device must be pynq with {option} {value}, got {arguments.device}")
    return {name: getattr(arguments, name) for name in _OF_BOARDS if getattr(arguments, name) is not None}


def opened(config: Config | None, device: str, options: Mapping[str, Any]) -> AbstractContextManager[Device | str]:
    """The device as the machine of a network; its name where the network has no programs."""
    from vdla.runtime.devices import open_device

    return nullcontext(device) if config is None else open_device(device, config, **options)
