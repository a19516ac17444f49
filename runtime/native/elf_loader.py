"""Loads kernels' object files into this process with the standard library alone.

Sections are copied into fresh memory, relocated, and made executable or read-only. Calls of other
libraries go through stubs, since these may be out of the reach of a call. Thread-pool functions,
which every object with parallel loops contains, are shared: those of the first object serve all.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from vdla.runtime.native.arguments import NativeError
from vdla.runtime.native.elf_object import ElfObject, ElfRelocation, ElfSection, ElfSymbol

_PAGE = mmap.PAGESIZE
_MACHINES = {"x86_64": 62}
_PC32, _PLT32, _ABS64 = 2, 4, 1  # of x86-64: S + A - P in 32 bits, twice; S + A in 64 bits
_STUB = bytes.fromhex("ff2500000000")  # jmp [rip]; the address follows
_STUB_BYTES = 16
_READ, _WRITE, _EXECUTE = 1, 2, 4  # PROT_READ, PROT_WRITE, PROT_EXEC


@dataclass(frozen=True, eq=False)
class LoadedElf:
    """An object in memory: addresses of its global symbols. It is freed with this value."""

    addresses: Mapping[str, int]
    memory: mmap.mmap


@dataclass(eq=False)
class ElfLoader:
    """Loads objects; `shared` names symbols of which the first definition serves all objects.

    `definitions` has addresses of those that exist already.
    """

    shared: frozenset[str] = frozenset()
    definitions: dict[str, int] = field(default_factory=dict)

    def load(self, content: bytes, where: str) -> LoadedElf:
        """The object in the content of a file; `where` names it in errors.

        Raises:
            NativeError: it is for another machine, damaged, or calls what does not exist.
        """
        found = ElfObject.parse(content, where)
        if found.machine != _MACHINES.get(platform.machine()):
            raise NativeError(f"{where}: object must be for {platform.machine()}, got ELF machine {found.machine}")
        loading = _Loading(found, where, self.definitions)
        loaded = loading.run()
        new = (self.shared & loaded.addresses.keys()) - self.definitions.keys()
        if new:
            self.definitions.update({name: loaded.addresses[name] for name in new})
            _keep_for_ever(loaded.memory)  # its threads never end
        return loaded


def _keep_for_ever(memory: mmap.mmap) -> None:
    """One reference more than are ever given back."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))


class _Loading:
    """One object on its way into memory."""

    def __init__(self, found: ElfObject, where: str, definitions: Mapping[str, int]) -> None:
        self.found, self.where, self.definitions = found, where, definitions
        called = (found.symbols[each.symbol] for each in found.relocations)
        names = dict.fromkeys(s.name for s in called if self._is_elsewhere(s))
        self.stubs = {name: index * _STUB_BYTES for index, name in enumerate(names)}
        self.places: dict[int, int] = {}

    def _is_elsewhere(self, symbol: ElfSymbol) -> bool:
        """Whether a symbol is defined by another object or library."""
        return symbol.section is None or (symbol.name in self.definitions and not symbol.local)

    def run(self) -> LoadedElf:
        """The object, relocated and protected."""
        groups = [
            [s for s in self.found.sections.values() if s.executable],
            [s for s in self.found.sections.values() if not s.executable and not s.writable],
            [s for s in self.found.sections.values() if s.writable and not s.executable],
        ]
        ends, end = [], len(self.stubs) * _STUB_BYTES
        for group in groups:
            end = self._place(group, end)
            end = -(-end // _PAGE) * _PAGE
            ends.append(end)
        memory = mmap.mmap(-1, max(end, _PAGE))
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._fill(memory, base)
        self._protect(base, [0, *ends], (_READ | _EXECUTE, _READ, _READ | _WRITE))
        addresses = {
            s.name: base + self.places[s.section] + s.value
            for s in self.found.symbols
            if s.section in self.places and s.name and not s.local and s.section is not None
        }
        return LoadedElf(addresses, memory)

    def _place(self, sections: list[ElfSection], start: int) -> int:
        for section in sections:
            start = -(-start // section.alignment) * section.alignment
            self.places[section.index] = start
            start += section.size
        return start

    def _fill(self, memory: mmap.mmap, base: int) -> None:
        for section in self.found.sections.values():
            place = self.places[section.index]
            memory[place : place + len(section.content)] = section.content
        for name, place in self.stubs.items():
            target = self.definitions.get(name) or self._external(name)
            memory[place : place + _STUB_BYTES] = (_STUB + struct.pack("<Q", target)).ljust(_STUB_BYTES, b"\0")
        for relocation in self.found.relocations:
            self._relocate(memory, base, relocation)

    def _external(self, name: str) -> int:
        """The address of a function of the C library."""
        for library in _libraries():
            try:
                return ctypes.cast(library[name], ctypes.c_void_p).value or 0
            except AttributeError:
                continue
        raise NativeError(f"{self.where}: functions that its code calls must exist, got {name}")

    def _relocate(self, memory: mmap.mmap, base: int, relocation: ElfRelocation) -> None:
        symbol = self.found.symbols[relocation.symbol]
        place = self.places[relocation.section] + relocation.offset
        if symbol.section is None or self._is_elsewhere(symbol):
            target = base + self.stubs[symbol.name]
        else:
            target = base + self.places[symbol.section] + symbol.value
        apply = _RELOCATIONS.get(relocation.kind)
        if apply is None:
            known = ", ".join(map(str, _RELOCATIONS))
            raise NativeError(f"{self.where}: relocation must be of type {known}, got {relocation.kind}")
        content = apply(target + relocation.addend, base + place)
        memory[place : place + len(content)] = content

    def _protect(self, base: int, bounds: list[int], rights: tuple[int, ...]) -> None:
        protect: Callable[..., int] = ctypes.CDLL(None, use_errno=True).mprotect
        for begin, end, right in zip(bounds, bounds[1:], rights, strict=False):
            size = ctypes.c_size_t(end - begin)
            if end > begin and protect(ctypes.c_void_p(base + begin), size, right):
                raise NativeError(f"{self.where}: memory must become executable, got error {ctypes.get_errno()}")


def _libraries() -> list[ctypes.CDLL]:
    found = [ctypes.CDLL(None)]
    for name in ("libm.so.6", "libpthread.so.0"):
        try:
            found.append(ctypes.CDLL(name))
        except OSError:
            continue
    return found


def _relative(target: int, place: int) -> bytes:
    return struct.pack("<i", target - place)


_RELOCATIONS: Mapping[int, Callable[[int, int], bytes]] = {
    _PC32: _relative,
    _PLT32: _relative,
    _ABS64: lambda target, place: struct.pack("<Q", target & 0xFFFFFFFFFFFFFFFF),
}
