# SPDX-License-Identifier: Apache-2.0
"""The CUDA devices of this machine, by way of NVIDIA's driver; no toolkit is needed.

A device is named by a part of its name; without a name it is the driver's first, the fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_int
from functools import cache
from weakref import WeakValueDictionary

from vdla.compiler import ir
from vdla.compiler.codegen.ptx import PTX_ARCHITECTURES, PtxSource, emit_ptx
from vdla.compiler.target import GridLimits
from vdla.runtime.grid.cuda_context import CudaArray, CudaContext, allocate
from vdla.runtime.grid.cuda_driver import CudaDeviceError, CudaDriver, CudaProperties, cuda_driver
from vdla.runtime.grid.cuda_module import CudaKernel, CudaModule
from vdla.runtime.grid.cuda_stream import CudaStream
from vdla.runtime.grid.device_kernel import DeviceKernel
from vdla.runtime.grid.protocol import DeviceStream


class CudaDevice:
    """A device in its primary context, with a stream for kernels that are called with NumPy arrays.

    A text is loaded once, as long as a kernel of it exists.
    """

    alignment = 256
    """Views of arrays begin at multiples of this many bytes."""

    def __init__(self, driver: CudaDriver, properties: CudaProperties) -> None:
        self.properties = properties
        self.context = CudaContext(driver, properties)
        self.default_stream: DeviceStream = CudaStream(self.context)
        """The stream in which kernels run that are called with NumPy arrays."""
        self._modules: WeakValueDictionary[str, CudaModule] = WeakValueDictionary()

    @property
    def name(self) -> str:
        """Its name, for people."""
        return self.properties.name

    @property
    def limits(self) -> GridLimits:
        """The threads and the shared memory of a group."""
        return self.properties.limits

    @property
    def arch(self) -> str:
        """The newest architecture of PTX that runs on it.

        Raises:
            CudaDeviceError: it is older than all.
        """
        capability = self.properties.capability
        older = [arch for arch in PTX_ARCHITECTURES if divmod(int(arch.removeprefix("sm_")), 10) <= capability]
        if not older:
            first, has = PTX_ARCHITECTURES[0], "sm_{}{}".format(*capability)
            raise CudaDeviceError(f"cuda: a device must be {first} or newer, got {self.name}, which is {has}")
        return older[-1]

    def stream(self) -> DeviceStream:
        """A new stream."""
        return CudaStream(self.context)

    def empty(self, shape: tuple[int, ...], dtype: str) -> CudaArray:
        """An array of arbitrary content."""
        return allocate(self.context, shape, dtype)

    def supports(self, dtype: str) -> bool:
        """Whether kernels can have elements of a type: of all that there are."""
        return True

    def compile(self, fn: ir.Function) -> PtxSource:
        """A scheduled function in PTX.

        Raises:
            SignatureError, PassError, PtxError: as `emit_ptx`.
        """
        return emit_ptx(fn, self.limits, self.arch)

    def load(self, source: PtxSource) -> Sequence[CudaKernel]:
        """The kernels of a source in the order of its launches, ready to start.

        Raises:
            CudaDeviceError: the driver refuses the text, or a block needs more than there is.
        """
        module = self._modules.get(source.text)
        if module is None:
            module = self._modules[source.text] = CudaModule(self.context, source.text)
        return [module.kernel(launch) for launch in source.launches]

    def __repr__(self) -> str:
        return f"<CudaDevice {self.name}>"


def cuda_devices() -> list[str]:
    """The devices of this machine, each as "name, compute capability 9.0".

    Raises:
        CudaDeviceError: NVIDIA's driver or a device is missing.
    """
    return [f"{device.name}, compute capability {'{}.{}'.format(*device.capability)}" for device in _all_devices()]


def cuda_version() -> str:
    """The newest version of CUDA that the driver runs, such as "12.4".

    Raises:
        CudaDeviceError: NVIDIA's driver is missing.
    """
    number = c_int()
    cuda_driver().call("cuda: the driver must tell its version", "cuDriverGetVersion", number)
    return f"{number.value // 1000}.{number.value % 1000 // 10}"


def open_cuda(name: str = "") -> CudaDevice:
    """The device whose name contains `name`; each is opened once.

    Raises:
        CudaDeviceError: NVIDIA's driver or such a device is missing.
    """
    devices = _all_devices()
    chosen = next((device for device in devices if name.lower() in device.name.lower()), None)
    if chosen is None:
        known = "; ".join(device.name for device in devices)
        raise CudaDeviceError(f"cuda: the device must be one of {known}, got {name!r}")
    return opened(chosen)


@cache
def opened(properties: CudaProperties) -> CudaDevice:
    """A device, whose context and stream are kept."""
    return CudaDevice(cuda_driver(), properties)


def _all_devices() -> list[CudaProperties]:
    """All devices."""
    driver, count = cuda_driver(), c_int()
    driver.call("cuda: the driver must list its devices", "cuDeviceGetCount", count)
    if count.value == 0:
        raise CudaDeviceError("cuda: the machine must have a device, got none")
    return [CudaProperties.of(driver, ordinal) for ordinal in range(count.value)]


def build_cuda(fn: ir.Function, device: str = "", *, contract: bool = True) -> DeviceKernel:
    """Compile a function, scheduled by `bind` or not, for a device, named as in `open_cuda`.

    `contract` allows a product and a sum to be fused.

    Raises:
        CudaDeviceError: no such device, or its driver refuses the text.
        SignatureError, PassError, PtxError: as `emit_ptx`.
    """
    opened = open_cuda(device)
    return DeviceKernel(emit_ptx(fn, opened.limits, opened.arch, contract=contract), opened)
