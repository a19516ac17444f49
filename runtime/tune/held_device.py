"""The device on which a process measures, open from its first trial on.

Opening a farm asks every board, which takes seconds where one does not answer. A device that failed
is closed, and opened anew for the next trial.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from vdla.support.errors import Error

if TYPE_CHECKING:
    from vdla.hardware.config import Config
    from vdla.runtime.devices import Device


class HeldDevice:
    """At most one open device, by its name and machine."""

    def __init__(self) -> None:
        self._key: tuple[str, Config] | None = None
        self._device: Device | None = None
        atexit.register(self.close)

    @contextmanager
    def opened(self, name: str, config: Config) -> Iterator[Device]:
        """The device of a name for a machine; DeviceError if it does not open."""
        from vdla.runtime.devices import open_device

        if self._device is None or self._key != (name, config):
            self.close()
            self._key, self._device = (name, config), open_device(name, config)
        try:
            yield self._device
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Closes the device, if one is open; one that is gone already is no error."""
        device, self._device = self._device, None
        if device is not None:
            with suppress(Error):
                device.close()


HELD = HeldDevice()
"""The device of this process."""
