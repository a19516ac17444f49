"""Kernels in a shared library, called without the compiler and without LLVM, as on a board.

    cc -shared conv2d.o -o libconv2d.so -lm -lpthread      # the object of `vdla native conv2d --target cortex-a9`

    library = NativeLibrary("libconv2d.so")
    output = library.kernel("conv2d")(data, weight)

The library itself says what a kernel's arguments are. It stays loaded until the process ends: its threads run in it.
"""

from __future__ import annotations

import ctypes
from functools import cached_property
from pathlib import Path

from vdla.compiler.abi import Signature, signature_symbol
from vdla.runtime.native.arguments import NativeError, checked_threads
from vdla.runtime.native.kernel import Kernel


class NativeLibrary:
    """A shared library of kernels."""

    def __init__(self, path: str | Path) -> None:
        if not isinstance(path, str | Path):
            raise NativeError(f"NativeLibrary: path must be a file's, got {type(path).__name__}")
        self.path = Path(path)
        try:
            self._library = ctypes.CDLL(str(self.path.resolve()))
        except (OSError, ValueError) as error:  # a path with a zero in it is a ValueError
            raise NativeError(f"{self.path}: library must load, got {error}") from None

    def kernel(self, name: str) -> Kernel:
        """The kernel called `name` in C; it is called as those of `build`."""
        signature = self.signature(name)
        try:
            address = ctypes.cast(self._library[name], ctypes.c_void_p).value
        except AttributeError:
            raise NativeError(f"{self.path}: library must have {name} beside its signature, got none") from None
        assert address is not None
        return Kernel(signature, address, self._library)

    def signature(self, name: str) -> Signature:
        """What a kernel wants to be called with."""
        try:
            text = ctypes.c_char.in_dll(self._library, signature_symbol(name))
        except ValueError:
            raise NativeError(f"{self.path}: kernel must be one of the library, got {name}") from None
        try:
            return Signature.from_json(ctypes.string_at(ctypes.addressof(text)).decode())
        except (ValueError, KeyError, TypeError):
            rule = f"{name}_signature must be the text of a signature"
            raise NativeError(f"{self.path}: {rule}, got something else (is the kernel of another version?)") from None

    # --- the thread pool

    def set_threads(self, count: int) -> None:
        """Let parallel loops use up to `count` threads, as `kernel.set_threads` does for built kernels."""
        limit = checked_threads(f"{self.path}: count of threads", count)
        self._pool.vdla_set_threads(ctypes.c_int32(limit))

    @property
    def threads(self) -> int:
        """How many threads parallel loops may use."""
        return int(self._pool.vdla_threads())

    @cached_property
    def _pool(self) -> ctypes.CDLL:
        if not hasattr(self._library, "vdla_threads"):
            raise NativeError(f"{self.path}: library must have a kernel with parallel loops, got none")
        return self._library

    def __repr__(self) -> str:
        return f"<NativeLibrary {self.path}>"
