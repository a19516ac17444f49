# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver without a device, built from C, and kernels that it runs by the interpreter."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint64
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vdla.compiler import ir
from vdla.compiler.arith import specialise
from vdla.compiler.interpret import interpret_kernels
from vdla.compiler.ir import GridKernel, storage_dtype
from vdla.compiler.lowering.grid_pipeline import lower_kernels
from vdla.compiler.target import GridLimits
from vdla.runtime.grid.cuda_driver import CudaDriver

SOURCE = Path(__file__).parent.parent / "runtime" / "grid" / "stub_libcuda.c"
RUNNER = CFUNCTYPE(c_int, c_char_p, POINTER(c_uint), POINTER(c_uint64), c_int)
FAILED = 719  # a kernel
FLAGS = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC")


def build_stub(folder: Path) -> Path:
    """The library, built with the system's compiler; the test is skipped if there is none."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("the stub of the CUDA driver needs a C compiler (cc), and there is none")
    library = folder / "libcuda.so"
    subprocess.run([compiler, *FLAGS, str(SOURCE), "-o", str(library)], check=True, timeout=60)
    return library


class StubCuda:
    """The stub, as it is after its reset."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._library = ctypes.CDLL(str(path))
        self._library.stub_log.restype = self._library.stub_kind.restype = c_char_p
        self.reset()
        self._runner = None
        self.error = ""
        """Why a kernel failed."""

    def reset(self) -> None:
        """Make it as new."""
        self._library.stub_reset()
        self._first = 0

    def driver(self) -> CudaDriver:
        """A driver that calls it."""
        return CudaDriver(str(self.path))

    def fail(self, call: int, code: int) -> None:
        """Have a call fail, counted from 1 from now on; none for 0."""
        self._library.stub_fail(call, code)
        self._first = len(self._lines)

    @property
    def calls(self) -> int:
        """The calls since `fail`."""
        return self._library.stub_calls()

    @property
    def log(self) -> list[str]:
        """All calls with some of their arguments, contexts and properties of devices apart."""
        return [line for line in self._lines if not line.startswith(("cuCtxPu", "cuCtxPo", "cuDeviceGet"))]

    @property
    def _lines(self) -> list[str]:
        return self._library.stub_log().decode().splitlines()

    def call(self, number: int) -> str:
        """A call, counted as in `fail`."""
        return self._lines[self._first + number - 1]

    @property
    def live(self) -> Counter[str]:
        """What was made and not released."""
        library = self._library
        kinds = range(library.stub_kinds() + 1)
        return +Counter({library.stub_kind(kind).decode(): library.stub_live(kind) for kind in kinds})

    def set_attribute(self, attribute: int, value: int) -> None:
        """What a device tells of itself; attribute 0 is the most threads of every kernel."""
        self._library.stub_set_attribute(attribute, value)

    def set_devices(self, count: int) -> None:
        """The number of devices."""
        self._library.stub_set_devices(count)

    def set_memory(self, nbytes: int) -> None:
        """The memory that is left."""
        self._library.stub_set_memory(c_size_t(nbytes))

    def run(self, run: Callable[[str, tuple[int, ...], list[int]], None]) -> None:
        """Run kernels by a function of name, grid and block, and the values of parameters."""

        def runner(name: bytes, dims: Sequence[int], values: Sequence[int], count: int) -> int:
            try:
                run(name.decode(), tuple(dims[:6]), list(values[:count]))
            except Exception as error:
                print(f"{name.decode()}: {error!r}")  # which pytest shows if the test fails
                self.error = repr(error)
                return FAILED
            return 0

        self._runner = RUNNER(runner)  # which must live as long as it is called
        self._library.stub_set_runner(self._runner)

    def interpret(self, *fns: ir.Function, limits: GridLimits) -> None:
        """Run the kernels of functions by the interpreter, on the memory that they are given."""
        kernels = {f"{kernel.name}_kernel": kernel for fn in fns for kernel in lower_kernels(fn, limits)}

        def run(name: str, dims: tuple[int, ...], values: list[int]) -> None:
            params = kernels[name].params
            kernel = of_extents(kernels[name], values[len(params) :], dims[:3])
            assert dims == (*kernel.grid, *kernel.block)
            arrays = {
                buffer: in_memory(address, kernel.buffers[buffer])
                for buffer, address in zip(params, values, strict=False)
            }
            for buffer, array in interpret_kernels([kernel], arrays).items():
                arrays[buffer][...] = array

        self.run(run)


def of_extents(kernel: GridKernel, extents: Sequence[int], grid: tuple[int, ...]) -> GridKernel:
    """A kernel with its symbolic extents as numbers, on a grid; one without them as it is."""
    if not kernel.scalars:
        return kernel
    thread = ir.Function(kernel.name, kernel.params, kernel.buffers, kernel.body, kernel.scalars)
    known = specialise(thread, dict(zip(kernel.scalars, extents, strict=True)))
    return replace(kernel, grid=grid, buffers=known.buffers, body=known.body, scalars=())


def in_memory(address: int, buffer: ir.Buffer) -> np.ndarray:
    """The array of a buffer at an address."""
    dtype = storage_dtype(buffer.dtype)
    nbytes = int(np.prod(buffer.dims, dtype=np.int64)) * dtype.itemsize
    return np.frombuffer((ctypes.c_char * nbytes).from_address(address), np.uint8).view(dtype).reshape(buffer.dims)
