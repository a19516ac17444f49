# SPDX-License-Identifier: Apache-2.0
"""The instruction set of a configuration: its formats, and the columns of their fields.

Columns of plug-ins follow those of the plain machine, whose indices `COL` are the same on every
machine: compiled kernels may hold them as constants.
"""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass
from functools import cached_property, lru_cache
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.isa.formats import FORMATS, Field, Slot, layout, plug_in_fields, plug_in_layouts
from vdla.hardware.isa.instructions import CLASSES, EXTENSION, Extended, Instruction, Opcode
from vdla.hardware.isa.plug_in import PlugIn
from vdla.hardware.isa.sizes import Sizes
from vdla.support.arrays import Ints

Values = Ints

COLUMNS: tuple[str, ...] = tuple(dict.fromkeys(["opcode", "unit", *(f.name for fs in FORMATS.values() for f in fs)]))
COL: dict[str, int] = {name: index for index, name in enumerate(COLUMNS)}
EXTENSION_COLUMN = len(COLUMNS)
"""The column of the field `extension`, where a machine has plug-ins."""

_OPCODES = 8
_EXTENSION_SLOT = 1 + 4  # behind the opcode and the four bits of tokens


@dataclass(frozen=True, eq=False)
class Format:
    """One kind of instruction: `code` is its opcode, plus 8 times its number for a plug-in.

    `slots[i]` is in column `columns[i]`.
    """

    code: int
    name: str
    cls: type[Instruction]
    slots: tuple[Slot, ...]
    columns: tuple[int, ...]
    plug_in: PlugIn | None = None

    @cached_property
    def values(self) -> tuple[Slot, ...]:
        """The slots that are fields of the class: all but those that name the format."""
        return tuple(slot for slot in self.slots if slot.field.name not in ("opcode", "extension"))

    @cached_property
    def value_columns(self) -> tuple[int, ...]:
        """The columns of `values`."""
        named = zip(self.slots, self.columns, strict=True)
        return tuple(column for slot, column in named if slot.field.name not in ("opcode", "extension"))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of `values`, as this machine has them."""
        return tuple(slot.field for slot in self.values)

    def column(self, field: str) -> int:
        """The column of a field."""
        return next(c for s, c in zip(self.slots, self.columns, strict=True) if s.field.name == field)


class InstructionSet:
    """The formats of a configuration by code, and the names of its columns."""

    def __init__(self, config: Sizes) -> None:
        self.plug_ins = tuple(config.extensions)
        names = [f"{plug_in.name}.{field.name}" for plug_in in self.plug_ins for field in plug_in.fields]
        self.columns = (*COLUMNS, "extension", *names) if self.plug_ins else COLUMNS
        self.col = {name: index for index, name in enumerate(self.columns)}
        self.formats = {int(opcode): _plain_format(opcode, slots) for opcode, slots in layout(config).items()}
        for number, slots in enumerate(plug_in_layouts(config)):
            encoding = self._plug_in_format(number, slots)
            self.formats[encoding.code] = encoding
        self._by_class = {encoding.cls: encoding for encoding in self.formats.values()}

    def _plug_in_format(self, number: int, slots: tuple[Slot, ...]) -> Format:
        plug_in = self.plug_ins[number]
        field_names = {field.name for field in plug_in.fields}
        names = [
            f"{plug_in.name}.{slot.field.name}" if slot.field.name in field_names else slot.field.name for slot in slots
        ]
        columns = tuple(self.col[name] for name in names)
        cls = instruction_class(plug_in)
        return Format(EXTENSION + _OPCODES * number, plug_in.name.upper(), cls, slots, columns, plug_in)

    @property
    def classes(self) -> tuple[type[Instruction], ...]:
        """The classes of instructions, in the order of their codes."""
        return tuple(self._by_class)

    @property
    def codes(self) -> int:
        """One more than the greatest code of a word, valid or not."""
        return _OPCODES << self.formats[EXTENSION].slots[_EXTENSION_SLOT].width if self.plug_ins else _OPCODES

    def format_of(self, instruction: Instruction) -> Format:
        """The format of an instruction, whose class must be one of `classes`."""
        return self._by_class[type(instruction)]

    def format_named(self, mnemonic: str) -> Format | None:
        """The format of a mnemonic, such as gemm, or None."""
        return next((value for value in self.formats.values() if value.name.lower() == mnemonic), None)

    def format_at(self, row: Any) -> Format:  # noqa: ANN401  a row of columns, an array or a list
        """The format of a row of valid columns."""
        number = int(row[EXTENSION_COLUMN]) if self.plug_ins else 0
        return self.formats[int(row[COL["opcode"]]) + _OPCODES * number]

    def codes_of_words(self, lanes: NDArray[np.uint64]) -> Values:
        """The codes of words, given as lanes of 64 bits; invalid words have codes of no format."""
        opcode = (lanes[:, 0] & np.uint64(_OPCODES - 1)).astype(np.int64)
        if not self.plug_ins:
            return opcode
        slot = self.formats[EXTENSION].slots[_EXTENSION_SLOT]
        number = (lanes[:, 0] >> np.uint64(slot.offset) & np.uint64((1 << slot.width) - 1)).astype(np.int64)
        return np.where(opcode == EXTENSION, EXTENSION + _OPCODES * number, opcode)

    def set_codes(self, table: Values, codes: Values) -> None:
        """Set the columns that name the formats of rows."""
        table[:, COL["opcode"]] = codes % _OPCODES
        if self.plug_ins:
            table[:, EXTENSION_COLUMN] = codes // _OPCODES

    def codes_of_columns(self, table: Values) -> Values:
        """The codes of rows of columns."""
        opcode = table[:, COL["opcode"]]
        return opcode + _OPCODES * table[:, EXTENSION_COLUMN] if self.plug_ins else opcode


def plug_in_of(config: Sizes, row: Any) -> PlugIn | None:  # noqa: ANN401  a row of columns, an array or a list
    """The plug-in whose instruction a row of valid columns is, or None."""
    return config.extensions[row[EXTENSION_COLUMN]] if row[COL["opcode"]] == EXTENSION else None


@lru_cache(maxsize=64)
def isa_of(config: Sizes) -> InstructionSet:
    """The instruction set of a configuration."""
    return InstructionSet(config)


def _plain_format(opcode: Opcode, slots: tuple[Slot, ...]) -> Format:
    return Format(int(opcode), opcode.name, CLASSES[opcode], slots, tuple(COL[slot.field.name] for slot in slots))


_made_classes: WeakValueDictionary[PlugIn, type[Extended]] = WeakValueDictionary()
"""The classes that are in use: an instruction belongs to its plug-in by its class."""


def instruction_class(plug_in: PlugIn) -> type[Extended]:
    """The class of a plug-in's instructions, a frozen dataclass with the defaults of GEMM."""
    known = _made_classes.get(plug_in)
    return _made_classes.setdefault(plug_in, _new_class(plug_in)) if known is None else known


def _new_class(plug_in: PlugIn) -> type[Extended]:
    fields = plug_in_fields(plug_in)
    plain = {name: default.default for name, default in CLASSES[Opcode.GEMM].__dataclass_fields__.items()}
    members: list[Any] = [(field.name, int, plain.get(field.name, 0)) for field in fields]
    shared = {"mnemonic": plug_in.name, "plug_in": plug_in, "table": fields, "__doc__": plug_in.doc}
    name = plug_in.name.title().replace("_", "")
    made: type[Extended] = make_dataclass(name, members, bases=(Extended,), namespace=shared, frozen=True, slots=True)
    return made


def table_of(cls: type[Instruction]) -> tuple[Field, ...]:
    """The fields of a class of instructions, except for those that name the format."""
    if issubclass(cls, Extended):
        return cls.table
    return next(FORMATS[opcode][1:] for opcode, known in CLASSES.items() if known is cls)


def mnemonic_of(cls: type[Instruction]) -> str:
    """How text names a class of instructions."""
    return cls.mnemonic if issubclass(cls, Extended) else cls.__name__.lower()
