# SPDX-License-Identifier: Apache-2.0
"""The devices by name; each is imported at its first use, since a board cannot import every one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from inspect import signature
from typing import Any

from vdla.hardware.config import Config
from vdla.runtime.devices.device import Device, DeviceError
from vdla.support.suggest import one_of


def _deferred(name: str, module: str, class_name: str) -> Callable[..., Device]:
    """A device class that is imported at its first use: a board cannot import every device."""

    def create(config: Config, **options: Any) -> Device:  # noqa: ANN401  of the device's class
        try:
            device_class: Callable[..., Device] = getattr(import_module(module), class_name)
        except ModuleNotFoundError as error:
            raise DeviceError(f"device {name}: {_missing(str(error.name))}") from error
        known = [name for name in signature(device_class).parameters if name != "config"]
        for option in sorted(options.keys() - known):
            raise DeviceError(f"device {name}: option must be {one_of(option, known)}")
        return device_class(config, **options)

    return create


def _missing(package: str) -> str:
    """The package to install; vdla-board has parts of VDLA only."""
    if package.startswith("vdla."):
        return f"Python package vdla must be installed, got vdla-board, which has no {package}"
    return f"Python package {package} must be installed, got none"


DEVICES: Mapping[str, Callable[..., Device]] = {
    "sim": _deferred("sim", "vdla.runtime.devices.sim", "SimDevice"),
    "rtl": _deferred("rtl", "vdla.runtime.devices.rtl", "RtlDevice"),
    "pynq": _deferred("pynq", "vdla.runtime.devices.pynq_device", "PynqDevice"),
}


SCHEMES: Mapping[str, Callable[..., Device]] = {
    "pynq": _deferred("pynq://", "vdla.runtime.remote.remote_device", "RemoteDevice"),
}
"""Remote devices, by the scheme of their addresses."""
_FARM = _deferred("farm", "vdla.runtime.remote.farm", "open_farm")
FARM_SUFFIX = ".toml"


def open_device(name: str, config: Config, **options: Any) -> Device:  # noqa: ANN401  of the device's class
    """The device `name` as a machine of configuration `config`; DeviceError lists the known names.

    An address such as `pynq://host:port` is a remote device, the path of a `.toml` file a farm of
    remote devices. `options` depend on the device: `memory_bytes` and `timeout_cycles` of all
    devices, `waves`, `window`, `assertions`, `stalls` and `start` of rtl, `bitstream`, `timeout_s`,
    `accept_build`, `download`, `target` and `fclk_mhz` of pynq, `tls`, `token` and `token_file` of
    an address.
    """
    require_device_name(name)
    if "://" in name:
        return SCHEMES[name.partition("://")[0]](config, address=name, **options)
    if name.endswith(FARM_SUFFIX):
        return _FARM(config, path=name, **options)
    return DEVICES[name](config, **options)


def require_device_name(name: object) -> None:
    """DeviceError unless `open_device` knows the name, the address's scheme or the file."""
    if isinstance(name, str) and "://" in name:
        if name.partition("://")[0] not in SCHEMES:
            known = ", ".join(f"{scheme}://HOST:PORT" for scheme in SCHEMES)
            raise DeviceError(f"device: address must be one of {known}, got {name}")
    elif not isinstance(name, str) or not (name.endswith(FARM_SUFFIX) or name in DEVICES):
        raise DeviceError(f"device: name must be {one_of(name, DEVICES)}")
