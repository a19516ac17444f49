"""What a machine says that it is, and what it must be: registers ID, VERSION, FINGERPRINT, BUILD.

A mismatch says what to compile for, which bitstream to load, or what to build again.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.hardware.config import PRESETS, Config
from vdla.hardware.generate.registers import ID, REGISTER_BITS, VERSION
from vdla.runtime.devices.device import DeviceError

UNKNOWN_BUILD = "0" * 12


@dataclass(frozen=True, slots=True)
class Identity:
    """The values of the registers; `build` is 0 where the build gave none."""

    id: int
    version: int
    fingerprint: int
    build: int

    @property
    def registers(self) -> dict[str, int]:
        """The registers that tell one machine from another, by name."""
        wide = {"FINGERPRINT": self.fingerprint, "BUILD": self.build}
        return {f"{name}_{half}": word for name, value in wide.items() for half, word in _halves(value)}


@dataclass(frozen=True, slots=True)
class Builds:
    """The builds that a machine must be of, where known, as 12 hex digits.

    `handoff` and `handoff_fingerprint` are those of the hardware handoff file (.hwh), `sources` is
    that of this installation, and `accepted` is one that the user accepts in its place.
    """

    handoff: str | None = None
    handoff_fingerprint: str | None = None
    sources: str | None = None
    accepted: str | None = None


def _halves(value: int) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("LO", value & 0xFFFFFFFF), ("HI", value >> REGISTER_BITS)


def source_build(config: Config) -> str | None:
    """The build of this installation's RTL as a machine of this configuration.

    None where there is no RTL, as on a board.
    """
    try:
        from vdla.hardware.generate.build_hash import build_hash
        from vdla.hardware.generate.rtl_files import FOLDER
    except ModuleNotFoundError:
        return None
    return build_hash(config) if FOLDER.is_dir() else None


def require_identity(where: str, identity: Identity, config: Config, builds: Builds) -> None:
    """DeviceError unless the machine is a VDLA of this configuration, and of these builds."""
    if identity.id != ID:
        raise DeviceError(
            f"{where}: register ID must be {ID:#x}, got {identity.id:#x}; no VDLA is at this address: "
            "load a bitstream of VDLA"
        )
    if identity.version != VERSION:
        raise DeviceError(_version(where, identity.version))
    fingerprint = f"{identity.fingerprint:012x}"
    if builds.handoff_fingerprint not in (None, fingerprint):
        raise DeviceError(_handoff(where, "fingerprint", fingerprint, builds.handoff_fingerprint))
    if fingerprint != config.fingerprint:
        raise DeviceError(_fingerprint(where, fingerprint, config))
    _require_build(where, f"{identity.build:012x}", config, builds)


def _version(where: str, got: int) -> str:
    age, remedy = ("an older", "build the bitstream again") if got < VERSION else ("a newer", "update vdla")
    return (
        f"{where}: register VERSION must be {VERSION}, the register table of this release, got {got}; "
        f"the bitstream is of {age} release: {remedy}"
    )


def _fingerprint(where: str, got: str, config: Config) -> str:
    preset = next((name for name, known in PRESETS.items() if known.fingerprint == got), None)
    found = f"{got}, which is no preset's" if preset is None else f"{got}, preset {preset}'s"
    target = "the configuration of the bitstream" if preset is None else f"preset {preset}"
    return (
        f"{where}: fingerprint must be {config.fingerprint} ({config.name}), got {found}; "
        f"compile for {target}, or load the bitstream of {config.name}"
    )


def _require_build(where: str, got: str, config: Config, builds: Builds) -> None:
    if got == UNKNOWN_BUILD:
        return
    if builds.handoff not in (None, UNKNOWN_BUILD, got):
        raise DeviceError(_handoff(where, "build", got, builds.handoff))
    if builds.sources is not None and got not in (builds.sources, builds.accepted):
        raise DeviceError(
            f"{where}: build must be {builds.sources}, that of this release's sources for {config.name}, got {got}; "
            f"build the bitstream again (vdla board vivado), or accept this one with accept_build={got!r}"
        )


def _handoff(where: str, what: str, got: str, handoff: str | None) -> str:
    return (
        f"{where}: {what} must be {handoff}, as the .hwh file says, got {got}; "
        "the .bit and the .hwh are of different builds: copy both from the same one"
    )
