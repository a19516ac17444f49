"""Loads object files into this process, through LLVM's linker; one thread pool serves all of them.

An object stays loaded while its `Loaded` lives. The pool stays for ever, since its threads run in it.
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
class Loaded:
    """An object in memory: where its symbols are, and what keeps them there."""

    addresses: Mapping[str, int]
    keeper: Any


def load(built: bytes, symbol: str) -> Loaded:
    """Load an object file of this machine; `symbol` is found in it.

    Raises:
        NativeError: it calls what is nowhere, as the lowering of an intrinsic can; LLVM names that on standard error.
    """
    from llvmlite.binding import JITLibraryBuilder

    with _LOCK:
        builder = JITLibraryBuilder().add_object_img(built).export_symbol(symbol).add_current_process()
        for name, address in pool().addresses.items():
            builder.import_symbol(name, address)
        try:
            tracker = builder.link(_linker(), f"kernel{next(_NUMBERS)}")
        except RuntimeError as error:
            rule = "whatever its code calls must be LLVM's or in this process"
            raise NativeError(f"{symbol}: {rule}, got a name that is neither (LLVM has printed it)") from error
    return Loaded({symbol: tracker[symbol]}, tracker)


@cache
def pool() -> Loaded:
    """The thread pool of this process; it is never unloaded."""
    from llvmlite.binding import JITLibraryBuilder

    from vdla.compiler.codegen.llvm.objects import object_code
    from vdla.compiler.codegen.llvm.pool import PUBLIC_SYMBOLS, pool_text
    from vdla.compiler.target import target_named

    host = target_named("host")
    builder = JITLibraryBuilder().add_object_img(object_code(pool_text(host.triple), host)).add_current_process()
    for name in PUBLIC_SYMBOLS:
        builder.export_symbol(name)
    tracker = builder.link(_linker(), "pool")
    return Loaded({name: tracker[name] for name in PUBLIC_SYMBOLS}, tracker)


@cache
def _linker() -> Any:  # noqa: ANN401  llvmlite has no types
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.create_lljit_compiler(use_jit_link=True)
