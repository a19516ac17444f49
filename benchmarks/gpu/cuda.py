# SPDX-License-Identifier: Apache-2.0
"""Kernels on a CUDA device against the CPU, and against the vendor's libraries; none without one.

Both sides of a ratio are timed by events of the device, in turns in one run, on arrays that are
there already.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from vdla.benchmarks.gpu.exact import compare_cases, exact_cases
from vdla.benchmarks.harness import Figures
from vdla.compiler import ir, te
from vdla.compiler.operators import conv2d, matmul
from vdla.compiler.operators.gpu import grid_schedule
from vdla.runtime.grid.cuda_devices import CudaDevice, build_cuda, open_cuda
from vdla.runtime.grid.cuda_driver import CudaDeviceError
from vdla.runtime.grid.device_kernel import DeviceKernel
from vdla.support.arrays import Array
from vdla.support.progress import Progress

SIZE = 4096
CHANNELS, IMAGE = 256, 56
_TIMES = 20  # of a kernel between two events
_ROUNDS = 5  # of both, in turns; the best counts
Shape = tuple[int, ...]


def cuda_figures(progress: Progress, seed: int) -> tuple[Figures, str]:
    """`cuda_all_exact`, and the vendor's time over ours of a float16 product and convolution.

    Also returns the name of the device, or why no device can be used.
    """
    try:
        device = open_cuda()
    except CudaDeviceError as error:
        return {}, f"no device: {error}"
    exact = compare_cases(progress, seed, exact_cases(), lambda fn: _compiled(fn, device, contract=False))
    figures: Figures = {"cuda_exact_cases": len(exact), "cuda_all_exact": int(all(exact.values()))}
    libraries = set()
    for operator, shapes in operands().items():
        progress(f"{operator} on the CUDA device", 0, 1)
        ratio = vendor_ratio(device, operator, shapes, seed)
        if ratio is not None:
            libraries.add(ratio[0])
            figures[f"cuda_{operator}_ratio"] = round(ratio[1], 2)
    return figures, f"{device.name}, compared with {', '.join(sorted(libraries)) or 'no library'}"


def operands(size: int = SIZE, channels: int = CHANNELS, image: int = IMAGE) -> dict[str, tuple[Shape, Shape]]:
    """The shapes of a square product and of a convolution of 3 x 3 with padding 1."""
    return {
        "product": ((size, size), (size, size)),
        "conv2d": ((8, channels, image, image), (channels, channels, 3, 3)),
    }


def float16_function(operator: str, shapes: tuple[Shape, Shape]) -> ir.Function:
    """The product or the convolution."""
    x, y = (te.placeholder(shape, "float16", name) for name, shape in zip("xy", shapes, strict=True))
    result = matmul(x, y) if operator == "product" else conv2d(x, y, None, 1, 1)
    return te.create_function([x, y], [result], operator)


def vendor_ratio(device: CudaDevice, operator: str, shapes: tuple[Shape, Shape], seed: int) -> tuple[str, float] | None:
    """The library, and its time over ours; None where no library is installed."""
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(-1, 1, shape).astype(np.float16) for shape in shapes]
    library = vendor_kernels(arrays, operator)
    if library is None:
        return None
    ours = _timed(_compiled(float16_function(operator, shapes), device, contract=True), device, arrays)
    name, vendor = library
    pairs = [(vendor(_TIMES), ours(_TIMES)) for _ in range(_ROUNDS + 1)][1:]  # the first warms up
    return name, min(pair[0] for pair in pairs) / min(pair[1] for pair in pairs)


def _compiled(fn: ir.Function, device: CudaDevice, *, contract: bool) -> DeviceKernel:
    """A function with the default schedule."""
    return build_cuda(grid_schedule(fn, device.limits).fn, device.name, contract=contract)


def _timed(kernel: DeviceKernel, device: CudaDevice, arrays: Sequence[Array]) -> Timed:
    """Runs of a kernel on arrays of the device."""
    stream, (output,) = device.default_stream, kernel.signature.outputs
    shape = tuple(int(extent) for extent in output.shape if isinstance(extent, int))
    call = kernel.bind(stream, [*(stream.upload(array) for array in arrays), device.empty(shape, output.dtype)])

    def run(times: int) -> float:
        start = stream.record()
        for _ in range(times):
            call()
        return stream.record().seconds_since(start)

    return run


# --- the vendor's libraries -----------------------------------------------------------------------
# cuBLAS and cuDNN by way of PyTorch, or cuBLAS by way of CuPy, whichever is installed.


Timed = Callable[[int], float]
"""Runs a kernel the given number of times; returns the seconds that the device took."""
_MILLISECOND = 1e-3


def vendor_kernels(arrays: Sequence[Array], operator: str) -> tuple[str, Timed] | None:
    """The library and its "product" or "conv2d" of arrays, or None.

    A convolution has strides of 1 and a padding of 1.
    """
    for name, make in (("torch", _torch), ("cupy", _cupy)):
        try:
            library = import_module(name)
        except ImportError:
            continue
        run = make(library, arrays, operator)
        if run is not None:
            return f"{name} {library.__version__}", run
    return None


def _torch(torch: Any, arrays: Sequence[Array], operator: str) -> Timed | None:  # noqa: ANN401  a module
    """By PyTorch, if it has CUDA."""
    if not torch.cuda.is_available():
        return None
    x, y = (torch.from_numpy(np.ascontiguousarray(array)).cuda() for array in arrays)

    def run(times: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(times):
            torch.matmul(x, y) if operator == "product" else torch.nn.functional.conv2d(x, y, padding=1)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * _MILLISECOND

    return run


def _cupy(cupy: Any, arrays: Sequence[Array], operator: str) -> Timed | None:  # noqa: ANN401  a module
    """By CuPy, which has products only."""
    if operator != "product":
        return None
    x, y = (cupy.asarray(array) for array in arrays)

    def run(times: int) -> float:
        start, end = (cupy.cuda.Event() for _ in range(2))
        start.record()
        for _ in range(times):
            cupy.matmul(x, y)
        end.record()
        end.synchronize()
        return float(cupy.cuda.get_elapsed_time(start, end)) * _MILLISECOND

    return run
