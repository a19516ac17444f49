"""Loads object files into this process with LLVM's JIT linker; all of them share one thread pool.

An object stays loaded while its `LoadedObject` lives. The pool stays until the process ends, since
its threads run in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

from vdla.runtime.native.arguments import NativeError

_NUMBERS = itertools.count()
_LOCK = Lock()


@dataclass(frozen=True, slots=True)
class LoadedObject:
    """A loaded object: the addresses of its symbols, and LLVM's handle, which keeps it loaded."""

    addresses: Mapping[str, int]
    handle: Any


def load_object(content: bytes, symbol: str) -> LoadedObject:
    """Load an object file of this machine, to call its function `symbol`.

    Raises:
        NativeError: it calls a function that does not exist, which the lowering of an intrinsic can
            cause; LLVM prints the name on standard error.
    """
    from llvmlite.binding import JITLibraryBuilder

    with _LOCK:
        builder = JITLibraryBuilder().add_object_img(content).export_symbol(symbol).add_current_process()
        for name, address in thread_pool().addresses.items():
            builder.import_symbol(name, address)
        try:
            handle = builder.link(_linker(), f"kernel{next(_NUMBERS)}")
        except RuntimeError as error:
            rule = "functions that its code calls must be LLVM intrinsics or symbols of this process"
            raise NativeError(f"{symbol}: {rule}, got an unknown name (printed above by LLVM)") from error
    return LoadedObject({symbol: handle[symbol]}, handle)


@cache
def thread_pool() -> LoadedObject:
    """The thread pool of this process, which is never unloaded."""
    from llvmlite.binding import JITLibraryBuilder

    from vdla.compiler.codegen.llvm import POOL_SYMBOLS, pool_object
    from vdla.compiler.target import host

    builder = JITLibraryBuilder().add_object_img(pool_object(host())).add_current_process()
    for name in POOL_SYMBOLS:
        builder.export_symbol(name)
    handle = builder.link(_linker(), "pool")
    return LoadedObject({name: handle[name] for name in POOL_SYMBOLS}, handle)


@cache
def _linker() -> Any:  # noqa: ANN401  llvmlite is untyped
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.create_lljit_compiler(use_jit_link=True)
