# SPDX-License-Identifier: Apache-2.0
"""Loads kernels' object files into this process with the standard library alone.

Memory is written first, then made executable or read-only, never both writable and executable.
Thread-pool functions, which every object with parallel loops contains, are shared: those of the
first object serve all.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache

from vdla.runtime.native.arguments import NativeError
from vdla.runtime.native.elf_image import MACHINES, ElfLayout, Rights
from vdla.runtime.native.elf_object import ElfObject

_LIBRARIES = ("libm.so.6", "libpthread.so.0", "libgcc_s.so.1")
"""Beside those of the process: libgcc divides integers of 64 bits on 32-bit Arm."""
_FLUSH = "__clear_cache"  # of libgcc
_ALLOCATE = "aligned_alloc"
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # options of glibc's mallopt
_KEPT_BYTES = 1 << 26  # that stay with the process at most
_MAPPED_BYTES = 1 << 25  # glibc's greatest: larger temporaries are mapped for each call


@dataclass(frozen=True, eq=False)
class LoadedElf:
    """An object in memory: addresses of its global symbols. It is freed with this value."""

    addresses: Mapping[str, int]
    memory: mmap.mmap


@dataclass(eq=False)
class ElfLoader:
    """Loads objects; `shared` names symbols whose first definition serves all objects.

    `definitions` has addresses of those that exist already.
    """

    shared: frozenset[str] = frozenset()
    definitions: dict[str, int] = field(default_factory=dict)

    def load(self, content: bytes, where: str) -> LoadedElf:
        """The object in the content of a file; `where` names it in errors.

        Raises:
            NativeError: it is for another machine, damaged, or calls what does not exist.
        """
        elf = ElfObject.parse(content, where)
        _check_machine(elf.machine, where)
        layout = ElfLayout.of(elf, where, self.definitions, mmap.PAGESIZE)
        if _ALLOCATE in layout.externals:
            _keep_freed_memory()
        addresses = {name: self.definitions.get(name) or _external(name, where) for name in layout.externals}
        memory = _mapped(layout, addresses)
        base = _address(memory)
        loaded = LoadedElf({name: base + offset for name, offset in layout.definitions.items()}, memory)
        new = (self.shared & loaded.addresses.keys()) - self.definitions.keys()
        if new:
            self.definitions.update({name: loaded.addresses[name] for name in new})
            _keep_for_ever(loaded.memory)  # its threads never end
        return loaded


def machine_of_process(name: str, pointer_bytes: int) -> str:
    """The machine whose code a process runs; `name` is that of `platform.machine()`.

    A process of 32 bits may run on a kernel of 64 bits.
    """
    if name.startswith("arm") or (name == "aarch64" and pointer_bytes == 4):
        return "arm"
    return name


def _check_machine(number: int, where: str) -> None:
    ours = machine_of_process(platform.machine(), ctypes.sizeof(ctypes.c_void_p))
    theirs = MACHINES[number].name if number in MACHINES else f"ELF machine {number}"
    if theirs != ours:
        raise NativeError(f"{where}: object must be for {ours}, the machine of this process, got {theirs}")


def _mapped(layout: ElfLayout, addresses: Mapping[str, int]) -> mmap.mmap:
    """The image in memory of its own, protected and ready to run."""
    try:
        memory = mmap.mmap(-1, max(layout.nbytes, mmap.PAGESIZE))
    except (OSError, MemoryError) as error:
        raise NativeError(f"{layout.where}: cannot allocate {layout.nbytes} bytes for code: {error}") from None
    base = _address(memory)
    memory[: layout.nbytes] = bytes(layout.image(base, addresses))
    protect: Callable[..., int] = ctypes.CDLL(None, use_errno=True).mprotect
    for segment in layout.segments:
        size = segment.end - segment.start
        if size and protect(ctypes.c_void_p(base + segment.start), ctypes.c_size_t(size), int(segment.rights)):
            raise NativeError(f"{layout.where}: memory must become executable, got error {ctypes.get_errno()}")
        if size and segment.rights & Rights.EXECUTE:
            _flush_instructions(base + segment.start, base + segment.end, layout.where)
    return memory


def _flush_instructions(start: int, end: int, where: str) -> None:
    """Makes written code visible to instruction fetch, which is not part of x86's caches' work."""
    if platform.machine() == "x86_64":
        return
    flush = _function(_FLUSH)
    if flush is None:
        raise NativeError(f"{where}: the library libgcc_s.so.1 must have {_FLUSH}, got none")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(flush)(start, end)


def _address(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _keep_for_ever(memory: mmap.mmap) -> None:
    """One reference more than are ever given back."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))


@cache
def _keep_freed_memory() -> None:
    """Let glibc keep temporaries of kernels for their next call, unless its environment sets this.

    New pages for each call, which the system clears, cost as much as some kernels.
    """
    is_set = any(name.startswith("MALLOC_") for name in os.environ) or "malloc" in os.environ.get("GLIBC_TUNABLES", "")
    address = None if is_set else _function("mallopt")
    if address is not None:
        set_option = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int)(address)
        set_option(_MMAP_THRESHOLD, _MAPPED_BYTES)
        set_option(_TRIM_THRESHOLD, _KEPT_BYTES)


def _external(name: str, where: str) -> int:
    """The address of a function of the C library."""
    address = _function(name)
    if address is None:
        raise NativeError(f"{where}: functions that its code calls must exist, got {name}")
    return address


def _function(name: str) -> int | None:
    for library in _libraries():
        try:
            return ctypes.cast(library[name], ctypes.c_void_p).value
        except AttributeError:
            continue
    return None


def _libraries() -> Iterable[ctypes.CDLL]:
    yield ctypes.CDLL(None)
    for name in _LIBRARIES:
        try:
            yield ctypes.CDLL(name)
        except OSError:
            continue
