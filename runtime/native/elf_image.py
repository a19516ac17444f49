# SPDX-License-Identifier: Apache-2.0
"""An object laid out in memory and relocated: bytes for an address, without touching memory.

    layout = ElfLayout.of(ElfObject.parse(content, where), where)
    image = layout.image(base, addresses_of(layout.externals))

Stubs and code come first, then constants, then variables, each from a page boundary on, so that no
page is writable and executable. What an object does not define is reached through a stub, since it
may be out of the reach of a branch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntFlag

from vdla.runtime.native.arguments import NativeError
from vdla.runtime.native.elf_aarch64 import AARCH64
from vdla.runtime.native.elf_arm import ARM
from vdla.runtime.native.elf_machine import X86_64, ElfMachine, ReachError, RelocationOperands, RelocationType, Route
from vdla.runtime.native.elf_object import ABSOLUTE, ElfObject, ElfRelocation, ElfSection, ElfSymbol

MACHINES = {machine.number: machine for machine in (X86_64, AARCH64, ARM)}
"""The machines whose objects can be loaded, by their number in ELF files."""
_MAX_BYTES = 1 << 30


class Rights(IntFlag):
    """What code may do with a segment; the values are those of `mprotect`."""

    READ = 1
    WRITE = 2
    EXECUTE = 4


@dataclass(frozen=True, slots=True)
class Segment:
    """Whole pages of an image, from offset `start` up to `end`."""

    start: int
    end: int
    rights: Rights


@dataclass(frozen=True, slots=True)
class _Stub:
    """A jump to a symbol; the word behind it has the address. `thumb` is the code that uses it."""

    symbol: int
    thumb: bool


@dataclass(frozen=True, eq=False, kw_only=True)
class ElfLayout:
    """Where everything of an object lies, as offsets in its image of `nbytes` bytes.

    `shared` are the symbols that the object defines but takes from another object. `externals` are
    the symbols whose addresses `image` needs.
    """

    elf: ElfObject
    where: str
    machine: ElfMachine
    shared: Collection[str]
    places: Mapping[int, int]
    stubs: Mapping[_Stub, int]
    segments: tuple[Segment, ...]
    nbytes: int
    externals: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        used = (
            self.elf.symbols[relocation.symbol] for relocation in self.elf.relocations if self._type(relocation).nbytes
        )
        names = dict.fromkeys(symbol.name for symbol in used if _is_elsewhere(symbol, self.shared))
        object.__setattr__(self, "externals", tuple(names))

    @staticmethod
    def of(elf: ElfObject, where: str, shared: Collection[str] = (), page_bytes: int = 4096) -> ElfLayout:
        """The layout of an object; `where` names it in errors.

        Raises:
            NativeError: its machine or a relocation is of an unknown type.
        """
        machine = MACHINES.get(elf.machine)
        if machine is None:
            known = ", ".join(f"{value.number} ({value.name})" for value in MACHINES.values())
            raise NativeError(f"{where}: ELF machine must be one of {known}, got {elf.machine}")
        stubs = dict.fromkeys(_stubs(elf, where, machine, shared))
        stub_bytes = len(machine.stub) + machine.pointer_bytes
        offsets = {stub: index * stub_bytes for index, stub in enumerate(stubs)}
        places, segments = _placed(elf.sections.values(), len(stubs) * stub_bytes, page_bytes)
        nbytes = segments[-1].end
        if nbytes > _MAX_BYTES:
            raise NativeError(f"{where}: object must have at most 2**30 bytes in memory, got {nbytes}")
        return ElfLayout(
            elf=elf,
            where=where,
            machine=machine,
            shared=shared,
            places=places,
            stubs=offsets,
            segments=segments,
            nbytes=nbytes,
        )

    @property
    def definitions(self) -> dict[str, int]:
        """The offsets of global symbols that the object defines."""
        places = self.places
        return {
            symbol.name: places[symbol.section] + symbol.value
            for symbol in self.elf.symbols
            if symbol.section is not None and symbol.section in places and symbol.name and not symbol.local
        }

    def image(self, base: int, addresses: Mapping[str, int]) -> bytearray:
        """The bytes for memory from the address `base` on; `addresses` has all `externals`.

        Raises:
            NativeError: a value does not fit into a relocation's field.
        """
        image = bytearray(self.nbytes)
        for section in self.elf.sections.values():
            place = self.places[section.index]
            image[place : place + len(section.content)] = section.content
        for stub, place in self.stubs.items():
            code = self.machine.thumb_stub if stub.thumb else self.machine.stub
            target = self._address(self.elf.symbols[stub.symbol], base, addresses)
            word = target.to_bytes(self.machine.pointer_bytes, "little")
            image[place : place + len(code) + len(word)] = code + word
        for relocation in self.elf.relocations:
            self._relocate(image, base, relocation, addresses)
        return image

    def _type(self, relocation: ElfRelocation) -> RelocationType:
        return _relocation_type(relocation, self.where, self.machine)

    def _address(self, symbol: ElfSymbol, base: int, addresses: Mapping[str, int]) -> int:
        if _is_elsewhere(symbol, self.shared):
            return addresses[symbol.name]
        if symbol.section is None or symbol.section == ABSOLUTE:
            return symbol.value
        if symbol.section not in self.places:
            rule = f"symbol {symbol.name} must lie in a section that is in memory"
            raise NativeError(f"{self.where}: {rule}, got section {symbol.section}")
        return base + self.places[symbol.section] + symbol.value

    def _relocate(self, image: bytearray, base: int, relocation: ElfRelocation, addresses: Mapping[str, int]) -> None:
        kind, symbol = self._type(relocation), self.elf.symbols[relocation.symbol]
        section = self.elf.sections[relocation.section]
        if relocation.offset + kind.nbytes > section.size:
            raise NativeError(f"{self.where}: {kind.name} must lie in {section.name}, got offset {relocation.offset}")
        if not kind.nbytes:
            return
        place = self.places[section.index] + relocation.offset
        bits = int.from_bytes(image[place : place + kind.nbytes], "little")
        address, thumb = self._reached(kind, relocation, base, addresses)
        addend = relocation.addend if relocation.addend is not None else _addend_in(bits, kind, self.where)
        try:
            bits = kind.apply(bits, RelocationOperands(address, addend, base + place, thumb))
        except ReachError as error:
            what = f"{kind.name} of {symbol.name or 'a section'} in {section.name} at {relocation.offset:#x}"
            raise NativeError(f"{self.where}: {what}: {error}") from None
        image[place : place + kind.nbytes] = bits.to_bytes(kind.nbytes, "little")

    def _reached(
        self, kind: RelocationType, relocation: ElfRelocation, base: int, addresses: Mapping[str, int]
    ) -> tuple[int, bool]:
        """The address that a relocation is about, and whether it is Thumb code."""
        symbol = self.elf.symbols[relocation.symbol]
        stub = self.stubs.get(_Stub(relocation.symbol, kind.thumb))
        if stub is not None and kind.route is Route.TABLE:
            return base + stub + len(self.machine.stub), False
        if stub is not None and _needs_stub(kind, symbol, self.shared, self.machine):
            return base + stub, kind.thumb
        address = self._address(symbol, base, addresses)
        if not self.machine.interworks or not (symbol.function or _is_elsewhere(symbol, self.shared)):
            return address, False
        return address & ~1, bool(address & 1)


def _stubs(elf: ElfObject, where: str, machine: ElfMachine, shared: Collection[str]) -> Iterator[_Stub]:
    for relocation in elf.relocations:
        kind, symbol = _relocation_type(relocation, where, machine), elf.symbols[relocation.symbol]
        if kind.route is Route.LOCAL and kind.nbytes and _is_elsewhere(symbol, shared):
            raise NativeError(f"{where}: {kind.name} must be of a symbol of the object, got {symbol.name}")
        if _needs_stub(kind, symbol, shared, machine):
            yield _Stub(relocation.symbol, kind.thumb)


def _needs_stub(kind: RelocationType, symbol: ElfSymbol, shared: Collection[str], machine: ElfMachine) -> bool:
    if kind.route is not Route.STUB:
        return kind.route is Route.TABLE
    thumb = machine.interworks and symbol.function and bool(symbol.value & 1)
    other_code = symbol.function and not kind.switches and thumb != kind.thumb
    return other_code or _is_elsewhere(symbol, shared)


def _relocation_type(relocation: ElfRelocation, where: str, machine: ElfMachine) -> RelocationType:
    kind = machine.relocations.get(relocation.kind)
    if kind is None:
        known = ", ".join(
            f"{number} ({relocation_kind.name})" for number, relocation_kind in machine.relocations.items()
        )
        raise NativeError(f"{where}: relocation of {machine.name} must be one of {known}, got {relocation.kind}")
    return kind


def _is_elsewhere(symbol: ElfSymbol, shared: Collection[str]) -> bool:
    """Whether another object or library defines a symbol; the nameless one is the address 0."""
    if symbol.section is None:
        return bool(symbol.name)
    return symbol.name in shared and not symbol.local


def _addend_in(bits: int, kind: RelocationType, where: str) -> int:
    if kind.addend is None:
        raise NativeError(f"{where}: {kind.name} must have an addend in its section, got one without")
    return kind.addend(bits)


def _placed(sections: Iterable[ElfSection], start: int, page_bytes: int) -> tuple[dict[int, int], tuple[Segment, ...]]:
    """The offsets of sections behind the stubs, which end at `start`, and the segments."""
    groups: dict[Rights, list[ElfSection]] = {
        Rights.READ | Rights.EXECUTE: [],
        Rights.READ: [],
        Rights.READ | Rights.WRITE: [],
    }
    for section in sections:
        groups[_rights(section)].append(section)
    places, segments, begin = {}, [], 0
    for rights, group in groups.items():
        for section in group:
            start = -(-start // section.alignment) * section.alignment
            places[section.index] = start
            start += section.size
        start = -(-start // page_bytes) * page_bytes
        segments.append(Segment(begin, start, rights))
        begin = start
    return places, tuple(segments)


def _rights(section: ElfSection) -> Rights:
    if section.executable:
        return Rights.READ | Rights.EXECUTE
    return Rights.READ | Rights.WRITE if section.writable else Rights.READ
