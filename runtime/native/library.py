# SPDX-License-Identifier: Apache-2.0
"""Kernels in a shared library, called with NumPy alone: neither the compiler nor LLVM is needed.

    vdla native conv2d --shape ... --target cortex-a9      # writes conv2d.o
    cc -shared conv2d.o -o libconv2d.so -lm -lpthread

    library = NativeLibrary("libconv2d.so")
    output = library.kernel("conv2d")(data, weight)

The library holds the signatures of its kernels. It stays loaded until the process ends, since the
threads of its pool run in it.
"""

from __future__ import annotations

import ctypes
from functools import cached_property
from pathlib import Path

from vdla.compiler.abi import Signature, signature_symbol
from vdla.runtime.native.arguments import NativeError, thread_limit
from vdla.runtime.native.kernel import Kernel


class NativeLibrary:
    """A shared library of kernels."""

    def __init__(self, path: str | Path) -> None:
        if not isinstance(path, str | Path):
            raise NativeError(f"NativeLibrary: path must be a string or a Path, got {type(path).__name__}")
        self.path = Path(path)
        try:
            self._library = ctypes.CDLL(str(self.path.resolve()))
        except (OSError, ValueError) as error:  # ValueError: a path with a null character
            raise NativeError(f"{self.path}: cannot load the library: {error}") from None

    def kernel(self, name: str) -> Kernel:
        """The kernel with the C symbol `name`."""
        signature = self.signature(name)
        try:
            address = ctypes.cast(self._library[name], ctypes.c_void_p).value
        except AttributeError:
            raise NativeError(
                f"{self.path}: library must have the function {name} beside its signature, got none"
            ) from None
        assert address is not None
        return Kernel(signature, address, self._library)

    def signature(self, name: str) -> Signature:
        """The signature of the kernel with the C symbol `name`."""
        symbol = signature_symbol(name)
        try:
            text = ctypes.c_char.in_dll(self._library, symbol)
        except ValueError:
            raise NativeError(f"{self.path}: kernel must be one of the library's, got {name}") from None
        try:
            return Signature.from_json(ctypes.string_at(ctypes.addressof(text)).decode())
        except (ValueError, KeyError, TypeError):
            hint = "was the kernel compiled by another version?"
            raise NativeError(f"{self.path}: {symbol} must be a signature, got other text ({hint})") from None

    # --- the thread pool

    def set_threads(self, count: int) -> None:
        """Limit the library's parallel loops to `count` threads, as `native.set_threads` does."""
        limit = thread_limit(f"{self.path}: count of threads", count)
        self._pool.vdla_set_threads(ctypes.c_int32(limit))

    @property
    def threads(self) -> int:
        """The limit of threads of parallel loops."""
        return int(self._pool.vdla_threads())

    @cached_property
    def _pool(self) -> ctypes.CDLL:
        if not hasattr(self._library, "vdla_threads"):
            raise NativeError(f"{self.path}: library must have a kernel with parallel loops, got none")
        return self._library

    def __repr__(self) -> str:
        return f"<NativeLibrary {self.path}>"
