"""Relocatable object files (ELF, 64 bits, little-endian) as sections, symbols and relocations.

Only what kernels consist of is read; anything else is refused by name. Offsets and sizes are
checked against the file before they are used.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from vdla.runtime.native.arguments import NativeError

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_IDENT = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, version 1
_RELOCATABLE = 1
_PROGBITS, _SYMTAB, _STRTAB, _RELA, _NOBITS = 1, 2, 3, 4, 8
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
_UNDEFINED, _ABSOLUTE = 0, 0xFFF1


@dataclass(frozen=True, slots=True)
class ElfSection:
    """A section that is in memory at run time; `content` is empty for zeros."""

    index: int
    name: str
    size: int
    alignment: int
    content: bytes
    writable: bool
    executable: bool


@dataclass(frozen=True, slots=True)
class ElfSymbol:
    """A symbol; `section` is None for one that another library defines."""

    name: str
    section: int | None
    value: int
    local: bool


@dataclass(frozen=True, slots=True)
class ElfRelocation:
    """A place in `section` that depends on the address of a symbol."""

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int


@dataclass(frozen=True, slots=True)
class ElfObject:
    """An object file for `machine`, a number of the ELF specification."""

    machine: int
    sections: dict[int, ElfSection]
    symbols: tuple[ElfSymbol, ...]
    relocations: tuple[ElfRelocation, ...]

    @staticmethod
    def parse(content: bytes, where: str) -> ElfObject:
        """The object in a file's content; NativeError names `where` and what is wrong."""
        return _Parsing(content, where).object()


class _Parsing:
    def __init__(self, content: bytes, where: str) -> None:
        self.content, self.where = content, where
        if content[: len(_IDENT)] != _IDENT:
            raise NativeError(f"{where}: object must be ELF of 64 bits, got {content[:7]!r}")
        fields = self._fields(_HEADER, 0, "header")
        kind, self.machine, table = fields[1], fields[2], fields[6]
        entry, count, names = fields[11:14]
        if kind != _RELOCATABLE or entry != _SECTION.size:
            raise NativeError(f"{where}: object must be relocatable, got type {kind}")
        self.headers = [self._fields(_SECTION, table + i * entry, "section") for i in range(count)]
        self.names = self._content(self._header(names, "names"))

    def object(self) -> ElfObject:
        """All that is in memory at run time."""
        sections = {i: self._section(i, h) for i, h in enumerate(self.headers) if h[2] & _ALLOC}
        symbols: tuple[ElfSymbol, ...] = ()
        relocations: list[ElfRelocation] = []
        for header in self.headers:
            if header[1] == _SYMTAB:
                symbols = tuple(self._symbols(header))
        for header in self.headers:
            if header[1] == _RELA and header[7] in sections:
                relocations += self._relocations(header, sections[header[7]], len(symbols))
        return ElfObject(self.machine, sections, symbols, tuple(relocations))

    def _header(self, index: int, what: str) -> tuple[int, ...]:
        if not 0 <= index < len(self.headers):
            raise NativeError(f"{self.where}: {what} must be one of {len(self.headers)} sections, got {index}")
        return self.headers[index]

    def _fields(self, form: struct.Struct, offset: int, what: str) -> tuple[int, ...]:
        if not 0 <= offset <= len(self.content) - form.size:
            raise NativeError(f"{self.where}: {what} must lie in the object's {len(self.content)} bytes, got {offset}")
        return form.unpack_from(self.content, offset)

    def _content(self, header: tuple[int, ...]) -> bytes:
        offset, size = header[4], header[5]
        if offset + size > len(self.content):
            end = offset + size
            raise NativeError(f"{self.where}: section must lie in the object's {len(self.content)} bytes, got {end}")
        return self.content[offset : offset + size]

    def _section(self, index: int, header: tuple[int, ...]) -> ElfSection:
        name, kind, flags, size, alignment = header[0], header[1], header[2], header[5], header[8]
        if size > 1 << 30 or alignment > 4096:
            raise NativeError(f"{self.where}: section must have at most 2**30 bytes, got {size} aligned to {alignment}")
        return ElfSection(
            index=index,
            name=_text(self.names, name),
            size=size,
            alignment=max(1, alignment),
            content=b"" if kind == _NOBITS else self._content(header),
            writable=bool(flags & _WRITE),
            executable=bool(flags & _EXECUTE),
        )

    def _symbols(self, header: tuple[int, ...]) -> list[ElfSymbol]:
        names = self._content(self._header(header[6], "names of symbols"))
        content = self._content(header)
        whole = len(content) // _SYMBOL.size * _SYMBOL.size
        found = []
        for name, info, _, section, value, _ in _SYMBOL.iter_unpack(content[:whole]):
            place = None if section in (_UNDEFINED, _ABSOLUTE) else section
            found.append(ElfSymbol(_text(names, name), place, value, info >> 4 == 0))
        return found

    def _relocations(self, header: tuple[int, ...], section: ElfSection, symbols: int) -> list[ElfRelocation]:
        content = self._content(header)
        whole = len(content) // _RELOCATION.size * _RELOCATION.size
        found = []
        for offset, info, addend in _RELOCATION.iter_unpack(content[:whole]):
            if offset + 4 > section.size or info >> 32 >= symbols:
                raise NativeError(f"{self.where}: relocation must lie in {section.name}, got offset {offset}")
            found.append(ElfRelocation(section.index, offset, info & 0xFFFFFFFF, info >> 32, addend))
        return found


def _text(table: bytes, start: int) -> str:
    end = table.find(b"\0", start)
    return table[start : max(end, start)].decode(errors="replace")
