# SPDX-License-Identifier: Apache-2.0
"""Relocatable object files (ELF, little-endian, 32 or 64 bits) as sections, symbols, relocations.

Only what kernels consist of is read; anything else is refused by name. Offsets and sizes are
checked against the file before they are used.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from vdla.runtime.native.arguments import NativeError

_RELOCATABLE = 1
_SYMTAB, _RELA, _NOBITS, _REL = 2, 4, 8, 9
_WRITE, _ALLOC, _EXECUTE = 1, 2, 4
_UNDEFINED = 0
_FUNCTION = 2
_MAX_BYTES, _MAX_ALIGNMENT = 1 << 30, 4096
ABSOLUTE = 0xFFF1
"""The section of a symbol whose value is its address."""


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
    function: bool


@dataclass(frozen=True, slots=True)
class ElfRelocation:
    """A place in `section` that depends on the address of a symbol.

    `addend` is None if it is in the section's content at that place.
    """

    section: int
    offset: int
    kind: int
    symbol: int
    addend: int | None


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


@dataclass(frozen=True, slots=True)
class _Class:
    """The records of a class of ELF files; fields of symbols are in a different order in each."""

    header: struct.Struct
    section: struct.Struct
    symbol: struct.Struct
    symbol_fields: tuple[int, int, int, int]  # name, info, section, value
    relocations: dict[int, struct.Struct]
    kind_bits: int  # of a relocation's info, below its symbol


_CLASSES = {
    b"\x7fELF\x01\x01\x01": _Class(
        header=struct.Struct("<16sHHIIIIIHHHHHH"),
        section=struct.Struct("<10I"),
        symbol=struct.Struct("<IIIBBH"),
        symbol_fields=(0, 3, 5, 1),
        relocations={_REL: struct.Struct("<II"), _RELA: struct.Struct("<IIi")},
        kind_bits=8,
    ),
    b"\x7fELF\x02\x01\x01": _Class(
        header=struct.Struct("<16sHHIQQQIHHHHHH"),
        section=struct.Struct("<IIQQQQIIQQ"),
        symbol=struct.Struct("<IBBHQQ"),
        symbol_fields=(0, 1, 3, 4),
        relocations={_REL: struct.Struct("<QQ"), _RELA: struct.Struct("<QQq")},
        kind_bits=32,
    ),
}
"""By the first bytes: 32 or 64 bits, little-endian, version 1."""
_IDENT_BYTES = 7


class _Parsing:
    def __init__(self, content: bytes, where: str) -> None:
        self.content, self.where = content, where
        ident = content[:_IDENT_BYTES]
        if ident not in _CLASSES:
            raise NativeError(f"{where}: object must be a little-endian ELF file, got {ident!r}")
        self.form = _CLASSES[ident]
        fields = self._fields(self.form.header, 0, "header")
        kind, self.machine, table = fields[1], fields[2], fields[6]
        entry, count, names = fields[11:14]
        if kind != _RELOCATABLE or entry != self.form.section.size:
            raise NativeError(f"{where}: object must be relocatable, got type {kind}")
        self.headers = [self._fields(self.form.section, table + i * entry, "section") for i in range(count)]
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
            if header[1] in self.form.relocations and header[7] in sections:
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
        if size > _MAX_BYTES or alignment > _MAX_ALIGNMENT:
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
        whole = len(content) // self.form.symbol.size * self.form.symbol.size
        result = []
        for record in self.form.symbol.iter_unpack(content[:whole]):
            name, info, section, value = (record[position] for position in self.form.symbol_fields)
            place = None if section == _UNDEFINED else section
            result.append(ElfSymbol(_text(names, name), place, value, info >> 4 == 0, info & 0xF == _FUNCTION))
        return result

    def _relocations(self, header: tuple[int, ...], section: ElfSection, symbols: int) -> list[ElfRelocation]:
        content, form, bits = self._content(header), self.form.relocations[header[1]], self.form.kind_bits
        whole = len(content) // form.size * form.size
        result = []
        for offset, info, *addend in form.iter_unpack(content[:whole]):
            kind, symbol = info & (1 << bits) - 1, info >> bits
            if offset >= section.size or symbol >= symbols:
                raise NativeError(f"{self.where}: relocation must lie in {section.name}, got offset {offset}")
            result.append(ElfRelocation(section.index, offset, kind, symbol, addend[0] if addend else None))
        return result


def _text(table: bytes, start: int) -> str:
    end = table.find(b"\0", start)
    return table[start : max(end, start)].decode(errors="replace")
