# SPDX-License-Identifier: Apache-2.0
"""The service `gpio.Gpio`: the pins of the processing system, connected to nothing.

An output pin reads back what was written; an input pin reads 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock

from vdla.boards.virtual.fabric import BusError
from vdla.runtime.devices.pynq_messages import Message, messages

_CHIPS = {"zynq7": (906, 118), "zynqmp": (338, 174)}  # first number, pins


@dataclass(slots=True)
class _Pin:
    direction: str
    value: int = 0


class GpioService:
    """The pins of a processor, `zynq7` or `zynqmp`."""

    name = "gpio.Gpio"

    def __init__(self, processor: str) -> None:
        self._first, self._count = _CHIPS[processor]
        self._pins: dict[str, _Pin] = {}
        self._lock = Lock()
        self._messages = messages("gpio")

    def get_gpio(self, request: Message) -> Message:
        """Export a pin."""
        index, direction = request.index, request.direction
        if not self._first <= index < self._first + self._count:
            last = self._first + self._count - 1
            raise BusError(f"gpio: index must be from {self._first} to {last}, got {index}")
        if direction not in ("in", "out"):
            raise BusError(f"gpio: direction must be in or out, got {direction[:40]!r}")
        with self._lock:
            self._pins[str(index)] = _Pin(direction)
        return self._messages.GetGpioResponse(gpio_id=str(index))

    def _pin(self, identifier: str) -> _Pin:
        pin = self._pins.get(identifier)
        if pin is None:
            raise BusError(f"gpio: pin must be exported, got {identifier[:40]!r}")
        return pin

    def read(self, request: Message) -> Message:
        """The level of a pin."""
        with self._lock:
            return self._messages.GpioReadResponse(value=self._pin(request.gpio_id).value)

    def write(self, request: Message) -> Message:
        """Drive a pin."""
        if request.value not in (0, 1):
            raise BusError(f"gpio: value must be 0 or 1, got {request.value}")
        with self._lock:
            pin = self._pin(request.gpio_id)
            if pin.direction != "out":
                raise BusError(f"gpio: pin to write must be an output, got {request.gpio_id}")
            pin.value = request.value
        return self._messages.GpioWriteResponse()

    def unexport(self, request: Message) -> Message:
        """Release a pin."""
        with self._lock:
            self._pins.pop(request.gpio_id, None)
        return self._messages.GpioUnexportResponse()

    def is_exported(self, request: Message) -> Message:
        """Whether a pin is exported."""
        with self._lock:
            return self._messages.GpioIsExportedResponse(is_exported=request.gpio_id in self._pins)

    def get_gpio_base_path(self, request: Message) -> Message:
        """Where Linux has the pins; empty for a controller that the board does not have."""
        path = "" if request.target_label else f"/sys/class/gpio/gpiochip{self._first}"
        return self._messages.GetGpioBasePathResponse(base_path=path)

    def get_gpio_npins(self, request: Message) -> Message:
        """The number of pins; 0 for a controller that the board does not have."""
        return self._messages.GetGpioNPinsResponse(npins=0 if request.target_label else self._count)
