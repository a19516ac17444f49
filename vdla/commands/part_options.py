"""The option that names an FPGA."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vdla.commands import CommandError
from vdla.support.suggest import did_you_mean

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.hardware.fpga.parts import FpgaPart


def part_named(command: str, name: str | None, config: Config) -> FpgaPart:
    """The part of this name, by default that of the board after which a machine is named."""
    from vdla.hardware.fpga.parts import PARTS, part_of_preset

    if name is None:
        return part_of_preset(config.name)
    if name not in PARTS:
        hint = did_you_mean(name, PARTS)
        raise CommandError(f"{command}: --part must be one of {', '.join(PARTS)}, got {name}{hint}")
    return PARTS[name]


def part_names() -> list[str]:
    """The parts, for completion."""
    from vdla.hardware.fpga.parts import PARTS

    return list(PARTS)
