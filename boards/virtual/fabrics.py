# SPDX-License-Identifier: Apache-2.0
"""The fabrics by name: `sim`, the simulator, and `rtl`, the hardware's sources under Verilator."""

from __future__ import annotations

from vdla.boards.virtual.bitstream import Machine
from vdla.boards.virtual.fabric import Fabric, FabricError
from vdla.boards.virtual.sim_fabric import SimFabric
from vdla.hardware.config import Config
from vdla.runtime.devices.device import DeviceError
from vdla.simulator.warm_up import PARTS, warm_up
from vdla.support.arrays import Bytes
from vdla.support.suggest import did_you_mean

NAMES = ("sim", "rtl")


def require_fabric(name: str) -> str:
    """The name; FabricError where there is no such fabric."""
    if name not in NAMES:
        raise FabricError(f"fabric: name must be one of {', '.join(NAMES)}, got {name}{did_you_mean(name, NAMES)}")
    return name


def prepare_fabric(name: str, config: Config) -> None:
    """Do now, once, what would make a client wait: compile the simulator, or build the RTL."""
    if require_fabric(name) == "sim":
        warm_up(PARTS).wait()
        return
    from vdla.runtime.devices.rtl_build import build_library

    try:
        build_library(config)
    except DeviceError as error:
        raise FabricError(str(error)) from None


def build_fabric(name: str, machine: Machine, memory: Bytes, pause_s: float = 0) -> Fabric:
    """A fabric that runs `machine` on `memory`; each stream takes longer by `pause_s`."""
    if require_fabric(name) == "sim":
        return SimFabric(machine, memory, pause_s)
    from vdla.boards.virtual.rtl_fabric import RtlFabric

    return RtlFabric(machine.config, memory, pause_s)
