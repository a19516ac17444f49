# SPDX-License-Identifier: Apache-2.0
"""Which machine a bitstream configures: the fingerprint in it names one that the server knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.boards.bit_file import parse_virtual
from vdla.boards.virtual.fabric import FabricError
from vdla.hardware.config import PRESETS, Config

_WHERE = "fabric"


@dataclass(frozen=True, slots=True)
class Machine:
    """What a bitstream configures: a configuration, and the build that its registers show."""

    config: Config
    build: str


def machine_of(payload: bytes, served: Config, other: str | None = None) -> Machine:
    """The machine of a bitstream's payload, or of the preset `other`, whatever the payload.

    FabricError for a configuration that is neither `served` nor a preset: it cannot be run here.
    """
    facts = parse_virtual(payload, _WHERE)
    if other is not None:
        return Machine(preset(other), "0" * 12)
    known = {config.fingerprint: config for config in (*PRESETS.values(), served)}
    fingerprint = facts["fingerprint"]
    if fingerprint not in known:
        raise FabricError(
            f"{_WHERE}: bitstream must be of {served.name} ({served.fingerprint}) or of a preset, "
            f"got {facts['preset']} ({fingerprint}); start the board with its configuration"
        )
    return Machine(known[fingerprint], facts["build"])


def preset(name: str) -> Config:
    """The configuration of a preset; FabricError where there is none."""
    if name not in PRESETS:
        raise FabricError(f"{_WHERE}: preset must be one of {', '.join(PRESETS)}, got {name}")
    return PRESETS[name]


def build_numbers(build: str) -> Sequence[int]:
    """The registers BUILD_LO and BUILD_HI of 12 hexadecimal digits; FabricError for other text."""
    try:
        value = int(build, 16)
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 48:
        raise FabricError(f"{_WHERE}: build of a bitstream must be 12 hexadecimal digits, got {build[:40]!r}")
    return value & 0xFFFFFFFF, value >> 32
