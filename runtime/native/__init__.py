# SPDX-License-Identifier: Apache-2.0
"""Native kernels: compiled, loaded and called in this process, or called from a shared library.

`NativeLibrary` is on-board code: with it, kernels run where only NumPy is installed.
"""

from __future__ import annotations

from vdla.runtime.native.arguments import NativeError
from vdla.runtime.native.kernel import BoundCall, Kernel, build, load, set_threads, threads
from vdla.runtime.native.library import NativeLibrary

__all__ = ["BoundCall", "Kernel", "NativeError", "NativeLibrary", "build", "load", "set_threads", "threads"]
