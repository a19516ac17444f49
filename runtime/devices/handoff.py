# SPDX-License-Identifier: Apache-2.0
"""What a hardware handoff file says of the accelerator, read without PYNQ."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from xml.etree import ElementTree

from vdla.runtime.devices.device import DeviceError
from vdla.support.file_kind import unreadable

IP_VLNV = "vdla:accelerator:vdla:1.0"
"""The type of the accelerator in a block design, to which its driver class is bound."""


def accelerator_parameters(path: str | PathLike[str]) -> dict[str, str]:
    """The parameters of the first accelerator in a .hwh file, such as PRESET and FINGERPRINT."""
    try:
        root = ElementTree.fromstring(Path(path).read_bytes())
    except OSError as error:
        raise DeviceError(unreadable(path, error)) from None
    except ElementTree.ParseError as error:
        raise DeviceError(f"{path}: file must be a hardware handoff (.hwh), got {error}") from None
    for module in root.iter("MODULE"):
        if module.get("VLNV") == IP_VLNV:
            parameters = module.iterfind("PARAMETERS/PARAMETER")
            return {str(item.get("NAME")): str(item.get("VALUE")) for item in parameters}
    raise DeviceError(f"{path}: design must have an IP of type {IP_VLNV}, got none")
