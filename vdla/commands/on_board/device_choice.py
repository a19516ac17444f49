# SPDX-License-Identifier: Apache-2.0
"""Which bitstream, and the machine in it: as options say, or the only one at hand."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

from vdla.commands import CommandError
from vdla.commands.machine_options import read_config
from vdla.commands.options import add_options
from vdla.hardware.config import PRESETS, Config
from vdla.runtime.devices.handoff import accelerator_parameters
from vdla.runtime.devices.installed_overlays import installed_bitstreams
from vdla.runtime.devices.overlay import OVERLAYS
from vdla.support.suggest import one_of


def add_device_arguments(parser: argparse.ArgumentParser) -> None:
    """--device, --bitstream, --accept-build, --fclk-mhz."""
    options = {
        "--device NAME = pynq": "pynq (default), or pynq://HOST:PORT, another board",
        "--bitstream FILE.bit": f"the bitstream (default: the machine's in ${OVERLAYS}, here or installed)",
        "--accept-build HASH": "accept a bitstream of this build, though other sources are installed",
        "--fclk-mhz MHZ": "set the clock of the accelerator",
    }
    add_options(parser, options)


def add_machine_arguments(parser: argparse.ArgumentParser) -> None:
    """--preset and --config."""
    options = {
        "--preset NAME": "the machine, by name (default: that of the bitstream)",
        "--config FILE": "the machine as JSON, like vdla config NAME --json",
    }
    add_options(parser.add_mutually_exclusive_group(), options)


def device_options(where: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """The options of `open_device`, which a device that is not of this board does not have."""
    given = {name: getattr(arguments, name) for name in ("bitstream", "accept_build", "fclk_mhz")}
    given = {name: value for name, value in given.items() if value is not None}
    for name, value in given.items() if arguments.device != "pynq" else ():
        option = f"--{name.replace('_', '-')}"
        raise CommandError(f"{where}: --device must be pynq with {option} {value}, got {arguments.device}")
    return given


def bitstreams() -> list[Path]:
    """The bitstreams with a handoff file beside them: in $VDLA_OVERLAYS, the current folder, and
    installed packages.
    """
    folder = os.environ.get(OVERLAYS)
    folders = [Path(folder)] if folder else []
    files = [file for place in [*folders, Path()] for file in sorted(place.glob("*.bit"))]
    return [*(file for file in files if file.with_suffix(".hwh").is_file()), *installed_bitstreams()]


def machine(where: str, arguments: argparse.Namespace) -> Config:
    """The machine that the options name, or that of the bitstream."""
    if arguments.config:
        return read_config(arguments.config)
    if arguments.preset:
        return Config.preset(arguments.preset)
    if arguments.device != "pynq":
        raise CommandError(f"{where}: --preset or --config must be given for {arguments.device}, got none")
    return machine_in(_bitstream(where, arguments.bitstream))


def _bitstream(where: str, given: Path | None) -> Path:
    if given is not None:
        return given
    at_hand = bitstreams()
    if len(at_hand) != 1:
        got = ", ".join(map(str, at_hand)) or "none"
        raise CommandError(
            f"{where}: --bitstream must be given unless ${OVERLAYS}, the current folder and installed packages "
            f"have one together, got {got}"
        )
    return at_hand[0]


def machine_in(bitstream: Path) -> Config:
    """The machine of a bitstream, by its handoff file: a preset, or that of a package's JSON."""
    handoff, description = bitstream.with_suffix(".hwh"), bitstream.with_suffix(".json")
    parameters = accelerator_parameters(handoff)
    name, fingerprint = parameters.get("PRESET", "none"), parameters.get("FINGERPRINT", "none")
    packed = [read_config(description)] if description.is_file() else []
    for config in [*packed, *PRESETS.values()]:
        if config.name == name and config.fingerprint == fingerprint:
            return config
    if name in PRESETS:
        raise CommandError(
            f"{handoff}: fingerprint must be {PRESETS[name].fingerprint} for {name}, got {fingerprint}; give --config"
        )
    raise CommandError(f"{handoff}: machine must be {one_of(name, PRESETS)}; give --config")
