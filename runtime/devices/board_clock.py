# SPDX-License-Identifier: Apache-2.0
"""The clock of the accelerator and the power of a board, as PYNQ reads and sets them.

The accelerator runs on the first clock of the processing system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vdla.hardware.config import Config
from vdla.runtime.devices.device import DeviceError

_NEAR = 1e-3  # a PLL's nearest frequency differs by less


class BoardClock:
    """The clock of a loaded overlay; without PYNQ's class for clocks, it is unknown."""

    def __init__(self, where: str, pynq: Any) -> None:  # noqa: ANN401  a module without types
        self._where, self._clocks = where, getattr(pynq, "Clocks", None)

    def read_mhz(self) -> float | None:
        """The frequency in MHz; None where the board does not say."""
        if self._clocks is None:
            return None
        try:
            mhz = float(self._clocks.fclk0_mhz)
        except Exception:  # a board without the registers: nothing depends on it but what is shown
            return None
        return mhz if 0 < mhz < float("inf") else None

    def set_mhz(self, mhz: float) -> None:
        """Set the frequency; DeviceError where the board has another one then."""
        if self._clocks is None:
            raise DeviceError(f"{self._where}: PYNQ must have clocks to set fclk_mhz, got none")
        self._clocks.fclk0_mhz = mhz
        got = self.read_mhz()
        if got is None or abs(got - mhz) > _NEAR * mhz:
            raise DeviceError(
                f"{self._where}: fclk_mhz must be a frequency that the board can make, got {mhz:g}; "
                f"the board has {'none' if got is None else f'{got:g}'}"
            )


def require_clock(where: str, config: Config, mhz: object) -> float:
    """A frequency that the bitstream was built for: at most the machine's."""
    if isinstance(mhz, bool) or not isinstance(mhz, (int, float)) or not 0 < mhz <= config.clock_mhz:
        raise DeviceError(
            f"{where}: fclk_mhz must be a number above 0 and at most {config.clock_mhz:g}, "
            f"for which {config.name} is built, got {mhz!r}"
        )
    if config.array_rate != 1 and mhz != config.clock_mhz:
        raise DeviceError(
            f"{where}: fclk_mhz must be {config.clock_mhz:g} for {config.name}, whose two clocks are made from it, "
            f"got {mhz:g}"
        )
    return float(mhz)


def at_clock(config: Config, mhz: float | None) -> Config:
    """The machine at the clock that the board says; its own where the board is close or silent."""
    if mhz is None or abs(mhz - config.clock_mhz) <= _NEAR * config.clock_mhz:
        return config
    return replace(config, clock_mhz=mhz)


def rail_watts(where: str) -> Mapping[str, float]:
    """The power of each rail in watts; DeviceError on a board whose rails cannot be measured."""
    import pynq

    try:
        rails = dict(getattr(pynq, "get_rails", dict)())
    except Exception as error:
        raise DeviceError(f"{where}: the board must read its power rails, got {error}") from error
    watts = {name: float(rail.power.value) for name, rail in rails.items() if getattr(rail, "power", None) is not None}
    if not watts:
        raise DeviceError(
            f"{where}: the board must have power rails that PYNQ reads, got none; PYNQ-Z1 and PYNQ-Z2 have no sensors"
        )
    return watts
