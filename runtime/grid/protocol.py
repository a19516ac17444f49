# SPDX-License-Identifier: Apache-2.0
"""Devices that run kernels on a grid of threads, as the rest of the runtime sees them.

The work of one stream is done in order; streams are independent of each other unless one waits for
an event of the other. Nothing but copies to the host and `synchronize` waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

from vdla.compiler.abi import Argument, ExtentExpr, Signature
from vdla.compiler.target import GridLimits
from vdla.support.errors import Error

if TYPE_CHECKING:
    from vdla.compiler import ir


class GridDeviceError(Error, RuntimeError):
    """No device, or a kernel that the device cannot build or run."""


Array = NDArray[Any]
LoadedKernel = Any
"""A kernel as `GridDevice.load` returns it; only the streams of that device look inside."""


class GridLaunch(Protocol):
    """How to start a kernel: its name, what it takes, and its grid."""

    @property
    def kernel(self) -> str:
        """The name in the source."""

    @property
    def buffers(self) -> tuple[str, ...]:
        """The arguments and temporaries that it takes, first."""

    @property
    def scalars(self) -> tuple[str, ...]:
        """The symbolic extents that it takes after them, as int32."""

    @property
    def groups(self) -> tuple[ExtentExpr, ...]:
        """The groups of the grid along x, y, z."""

    @property
    def threads(self) -> tuple[int, ...]:
        """The threads of a group along x, y, z."""


class GridSource(Protocol):
    """A function as text for a device: kernels that run in the order of `launches`."""

    @property
    def signature(self) -> Signature:
        """The arguments of the function."""

    @property
    def text(self) -> str:
        """The code."""

    @property
    def launches(self) -> Sequence[GridLaunch]:
        """The kernels."""

    @property
    def temporaries(self) -> tuple[Argument, ...]:
        """The arrays in device memory between kernels."""


class DeviceArray(Protocol):
    """Contiguous row-major elements in the memory of a device, released with the last reference."""

    @property
    def handle(self) -> Any:  # noqa: ANN401  the driver's
        """The memory, as the driver of the device names it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""

    @property
    def dtype(self) -> str:
        """The element type by name; elements of "int2" and "int4" take a byte each."""

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""

    def view(self, offset: int, shape: tuple[int, ...], dtype: str) -> DeviceArray:
        """An array in this one's memory, `offset` bytes from its start.

        The offset is a multiple of the alignment of the device.
        """


class Event(Protocol):
    """A point in the work of a stream."""

    def seconds_since(self, earlier: Event) -> float:
        """The time between two events of one stream, as the device measured it; waits for both."""


class DeviceStream(Protocol):
    """Work for a device, done in order."""

    def upload(self, array: Array, into: DeviceArray | None = None) -> DeviceArray:
        """Copy a contiguous NumPy array to the device, into an array of that size or a new one.

        The NumPy array may be changed as soon as this returns.
        """

    def download(self, array: DeviceArray, into: Array | None = None) -> Array:
        """Copy to a contiguous NumPy array of the size, or a new one; waits for the work before."""

    def launch(self, kernel: LoadedKernel, groups: Sequence[int], arguments: Sequence[DeviceArray | int]) -> None:
        """Start a kernel on that many groups along x, y, z; arrays come before extents."""

    def record(self) -> Event:
        """The point behind all work so far."""

    def wait(self, event: Event) -> None:
        """Have the work that follows begin after an event of another stream."""

    def synchronize(self) -> None:
        """Wait for all work so far."""


class GridDevice(Protocol):
    """A device; all errors of its methods are GridDeviceErrors."""

    @property
    def name(self) -> str:
        """Its name, for people."""

    @property
    def limits(self) -> GridLimits:
        """The threads and the shared memory of a group."""

    @property
    def alignment(self) -> int:
        """Views of arrays begin at multiples of this many bytes."""

    @property
    def default_stream(self) -> DeviceStream:
        """The stream in which kernels run that are called with NumPy arrays."""

    def stream(self) -> DeviceStream:
        """A new stream."""

    def empty(self, shape: tuple[int, ...], dtype: str) -> DeviceArray:
        """An array of arbitrary content."""

    def supports(self, dtype: str) -> bool:
        """Whether kernels can have elements of a type, as float64 on some devices."""

    def compile(self, fn: ir.Function) -> GridSource:
        """A scheduled function as text for this device.

        Raises:
            Error: the function asks for more than the device has.
        """

    def load(self, source: Any) -> Sequence[LoadedKernel]:  # noqa: ANN401  the source of this kind of device
        """The kernels of a `GridSource` in the order of its launches, ready to start."""
