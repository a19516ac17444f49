# SPDX-License-Identifier: Apache-2.0
"""The figures of GPU kernels that need an OpenCL device; none on a machine without."""

from __future__ import annotations

import numpy as np

from vdla.benchmarks.gpu.exact import compare_cases, exact_cases
from vdla.benchmarks.harness import Figures
from vdla.compiler import te
from vdla.compiler.operators import matmul
from vdla.runtime.compile import compile
from vdla.runtime.grid.opencl_context import OpenClDeviceError, build_program, pyopencl
from vdla.runtime.grid.opencl_devices import OpenClDevice, open_opencl
from vdla.support.arrays import Array
from vdla.support.errors import Error
from vdla.support.progress import Progress

_POCL = "Portable Computing Language"  # which runs kernels on CPUs


def device_figures(progress: Progress, seed: int) -> tuple[Figures, str]:
    """`all_exact` and `pocl_ratio`, and the device that they are of, or why none can be used."""
    try:
        device = open_opencl()
    except OpenClDeviceError as error:
        return {}, str(error)
    exact = compare_cases(progress, seed, exact_cases(), lambda fn: compile(fn, "opencl"))
    ratio = "pocl_ratio" if device.platform == _POCL else "device_ratio"
    figures: Figures = {
        "exact_cases": len(exact),
        "all_exact": int(all(exact.values())),
        ratio: round(product_ratio(progress, seed), 2),
    }
    return figures, f"{device.name} of {device.platform}"


# --- a product ------------------------------------------------------------------------------------
# The default schedule of a matrix product on an OpenCL device against a plain tiled kernel.
#
# The plain kernel is the one that tutorials end with: a tile of both operands in shared memory, one
# element of the result for each thread. Both are timed by the device, in turns in one run.


SIZE = 1024
_RUNS = 5  # of each kernel, in turns; the best counts
_NANOSECOND = 1e-9
_TILE = 16
_PLAIN = """\
#define TILE {tile}

__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void plain(__global const float *a, __global const float *b, __global float *c) {{
    __local float tile_a[TILE][TILE];
    __local float tile_b[TILE][TILE];
    const int n = {size};
    const int row = get_global_id(1), column = get_global_id(0);
    const int y = get_local_id(1), x = get_local_id(0);
    float sum = 0.0f;
    for (int k = 0; k < n; k += TILE) {{
        tile_a[y][x] = a[row * n + k + x];
        tile_b[y][x] = b[(k + y) * n + column];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int i = 0; i < TILE; ++i)
            sum += tile_a[y][i] * tile_b[i][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }}
    c[row * n + column] = sum;
}}
"""


class ProductError(Error, RuntimeError):
    """A kernel that computes another product."""


def product_ratio(progress: Progress, seed: int, size: int = SIZE) -> float:
    """The time of the plain kernel over that of ours, of a float32 product of `size` cubed.

    Raises:
        ProductError: the results differ by more than rounding.
    """
    rng = np.random.default_rng(seed)
    a, b = (rng.uniform(-1, 1, (size, size)).astype(np.float32) for _ in range(2))
    left, right = (te.placeholder((size, size), "float32", name) for name in ("a", "b"))
    ours = compile(te.create_function([left, right], [matmul(left, right)], "product"), "opencl")
    plain = _PlainProduct(ours.device, a, b)
    result = ours(a, b)
    if np.abs(plain.result() - result).max() > size * np.finfo(np.float32).eps:
        raise ProductError(f"gpu: the products of both kernels must agree, got other ones for {size} cubed")
    pairs = []
    for number in range(_RUNS):
        progress(f"product of {size} cubed on the device", number, _RUNS)
        ours(a, b)
        pairs.append((plain.seconds(), ours.seconds))
    return float(min(plain_s for plain_s, _ in pairs) / min(ours_s for _, ours_s in pairs))


class _PlainProduct:
    """The plain kernel with its operands on the device."""

    def __init__(self, device: OpenClDevice, a: Array, b: Array) -> None:
        cl = pyopencl()
        flags = cl.mem_flags
        self._queue, self._shape = device.queue, a.shape
        self._kernel = cl.Kernel(build_program(device, _PLAIN.format(tile=_TILE, size=len(a))), "plain")
        self._memory = [
            *(cl.Buffer(device.context, flags.READ_ONLY | flags.COPY_HOST_PTR, hostbuf=x) for x in (a, b)),
            cl.Buffer(device.context, flags.WRITE_ONLY, size=a.nbytes),
        ]
        self._kernel.set_args(*self._memory)

    def seconds(self) -> float:
        """The time of one run."""
        grid = self._shape[::-1]
        event = pyopencl().enqueue_nd_range_kernel(self._queue, self._kernel, grid, (_TILE, _TILE))
        event.wait()
        return float(event.profile.end - event.profile.start) * _NANOSECOND

    def result(self) -> Array:
        """The product."""
        self.seconds()
        results = np.empty(self._shape, np.float32)
        pyopencl().enqueue_copy(self._queue, results, self._memory[-1])
        return results
