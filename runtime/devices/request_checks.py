# SPDX-License-Identifier: Apache-2.0
"""The checks of requests that all devices share: configuration, time limit, data, addresses.

`where` is "device NAME" and begins every message, so that devices differ in nothing but their name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import RLock

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.hardware.program import STREAM, Program, placed_sizes
from vdla.runtime.devices.device import DeviceError
from vdla.support.integers import is_int

Bytes = NDArray[np.uint8]
MOST_BYTES = 1 << 40
"""The bytes that the machine can address."""


def require_config(where: str, config: object) -> Config:
    """The configuration; DeviceError for anything else."""
    if not isinstance(config, Config):
        raise DeviceError(f"{where}: config must be a Config, got {type(config).__name__}")
    return config


def require_integer(where: str, what: str, value: object) -> int:
    """A Python or NumPy integer as a Python integer; DeviceError for anything else."""
    if not is_int(value):
        raise DeviceError(f"{where}: {what} must be an integer, got {value!r}")
    return int(value)


def require_size(where: str, nbytes: object) -> int:
    """The bytes of an allocation, at least 1."""
    size = require_integer(where, "allocation in bytes", nbytes)
    if size < 1:
        raise DeviceError(f"{where}: allocation in bytes must be at least 1, got {size}")
    return size


def require_memory_bytes(where: str, nbytes: object) -> int:
    """The size of a device's memory."""
    size = require_integer(where, "size of memory in bytes", nbytes)
    if not 1 <= size <= MOST_BYTES:
        raise DeviceError(f"{where}: size of memory in bytes must be from 1 to {MOST_BYTES}, got {size}")
    return size


def require_timeout(where: str, cycles: object) -> int | None:
    """A limit in cycles from 1, or None."""
    if cycles is None:
        return None
    if not is_int(cycles) or cycles < 1:
        raise DeviceError(f"{where}: timeout in cycles must be an integer from 1, got {cycles!r}")
    return int(cycles)


def flat_bytes(where: str, data: object) -> Bytes:
    """The bytes of an array of numbers, in its order."""
    if not isinstance(data, np.ndarray) or data.dtype.hasobject:
        raise DeviceError(f"{where}: data to write must be an array of numbers, got {data!r}")
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8)


def require_addresses(
    where: str, config: Config, program: Program, addresses: object, require_window: Callable[[int, int], object]
) -> None:
    """DeviceError unless the program is for this machine, and its tensors and stream are allocated.

    `require_window(address, nbytes)` raises where the bytes do not lie in one allocated block.
    """
    mismatch = program.config.mismatch(config)
    if mismatch is not None:
        raise DeviceError(f"{where}: {mismatch}")
    for name, nbytes in placed_sizes(program).items():
        if not isinstance(addresses, Mapping) or name not in addresses:
            given = ", ".join(map(str, addresses)) if isinstance(addresses, Mapping) else ""
            raise DeviceError(f"{where}: addresses must include {name}, got {given or 'none'}")
        require_window(addresses[name], nbytes)
    assert isinstance(addresses, Mapping)  # STREAM was found in it
    beat = config.axi_bytes
    if addresses[STREAM] % beat:
        raise DeviceError(f"{where}: address of {STREAM} must be a multiple of {beat}, got {addresses[STREAM]}")


@contextmanager
def one_thread(where: str, lock: RLock) -> Iterator[None]:
    """Exclusive use by one thread; DeviceError where another has the lock."""
    if not lock.acquire(blocking=False):
        raise DeviceError(f"{where}: device must be used by one thread at a time, got a call from another")
    try:
        yield
    finally:
        lock.release()
