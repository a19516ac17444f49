"""Devices that are elsewhere: a server for a device of this machine, and the device of its clients.

Needs `grpcio` besides NumPy; a server needs what its device needs.
"""

from vdla.runtime.remote.channel import board_status
from vdla.runtime.remote.credentials import Credentials
from vdla.runtime.remote.errors import RemoteError
from vdla.runtime.remote.farm import FarmBoard, farm_status, open_farm, read_farm
from vdla.runtime.remote.limits import Limits
from vdla.runtime.remote.messages import BoardStatus
from vdla.runtime.remote.remote_device import RemoteDevice
from vdla.runtime.remote.server import RemoteServer

__all__ = [
    "BoardStatus",
    "Credentials",
    "FarmBoard",
    "Limits",
    "RemoteDevice",
    "RemoteError",
    "RemoteServer",
    "board_status",
    "farm_status",
    "open_farm",
    "read_farm",
]
