# SPDX-License-Identifier: Apache-2.0
"""The description of a board: its part, its ports to the accelerator, its addresses.

The invariant: a description is one JSON file, `boards/NAME/board.json`, and every field of it is
checked. The Vivado flow, the hardware handoff file and the driver take their facts from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any

from vdla.boards.family import FAMILIES, Family
from vdla.hardware.config import PRESETS, Config, ConfigError
from vdla.hardware.fpga.area_model import LUT_ERROR, estimated_usage
from vdla.hardware.fpga.parts import PARTS
from vdla.support.errors import Error
from vdla.support.integers import is_int
from vdla.support.json_file import read_table
from vdla.support.suggest import did_you_mean

FOLDER = Path(__file__).resolve().parent
FILE = "board.json"

LOW_DRAM_BYTES = 0x8000_0000
HIGH_DRAM_BASE = 0x8_0000_0000
"""Where a Zynq UltraScale+ has the DRAM beyond the first 2 GiB."""

_TEXTS = (
    "name", "title", "part", "board_part", "board_files", "fpga", "processor", "control_port", "interrupt", "cpu",
)  # fmt: skip
_LISTS = ("presets", "memory_ports")
_OPTIONAL = ("configurations", "board_connections")
_ADDRESSES = ("control_base", "control_bytes", "interrupt_controller_base", "dram_bytes")
_PAGE_BYTES = 4096
_BOARD_PART = r"[\w.-]+(:[\w.-]+){3}"


class BoardError(Error, ValueError):
    """A board that is unknown, or a description that cannot be used."""


@dataclass(frozen=True, slots=True)
class Board:
    """A board; addresses and sizes are in bytes.

    `part` and `board_part` are Vivado's names, `board_files` says where the latter comes from.
    `machines` are what the board offers, the first is the default: presets, and configurations of
    the description, all at the board's clock. `memory_ports` are used from the first on, as many as
    the machine has; `memory_port_bits` is their greatest width. `board_connections` are
    a module's carriers, in pairs of connectors. `fpga` is a part of `vdla.hardware.fpga.parts`.
    """

    name: str
    title: str
    part: str
    board_part: str
    board_files: str
    fpga: str
    processor: str
    presets: tuple[str, ...]
    clock_mhz: float
    memory_ports: tuple[str, ...]
    memory_port_bits: int
    coherent: bool
    address_bits: int
    control_port: str
    control_base: int
    control_bytes: int
    interrupt: str
    interrupt_controller_base: int
    dram_bytes: int
    cpu: str
    configurations: tuple[Config, ...] = ()
    board_connections: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_types(self)
        family = _check_processor(self)
        _check_ports(self, family)
        _check_addresses(self, family)
        for name in self.machines:
            self.config(name)

    @property
    def machines(self) -> tuple[str, ...]:
        """The names of the machines that the board offers, the default first."""
        return (*self.presets, *(config.name for config in self.configurations))

    @property
    def preset(self) -> str:
        """The name of the default machine."""
        return self.machines[0]

    @property
    def memory_regions(self) -> tuple[tuple[int, int], ...]:
        """Base and bytes of each part of the DRAM that the accelerator reaches."""
        low = min(self.dram_bytes, LOW_DRAM_BYTES)
        high = self.dram_bytes - low
        return ((0, low), (HIGH_DRAM_BASE, high)) if high else ((0, low),)

    def config(self, name: str | None = None) -> Config:
        """A machine of this board by name, by default the first, at the board's clock; BoardError
        if the board does not offer it or cannot run it.
        """
        name = self.preset if name is None else name
        if name not in self.machines:
            got = f"{name}{did_you_mean(name, self.machines)}"
            raise BoardError(f"board {self.name}: preset must be one of {', '.join(self.machines)}, got {got}")
        known = {**PRESETS, **{config.name: config for config in self.configurations}}
        if name not in known:
            got = f"{name}{did_you_mean(name, known)}"
            raise BoardError(f"board {self.name}: presets must be known to vdla config, got {got}")
        config = known[name]
        return self.check_config(
            config if config.clock_mhz == self.clock_mhz else replace(config, clock_mhz=self.clock_mhz)
        )

    def check_config(self, config: Config) -> Config:
        """`config`; BoardError if its clock or its memory ports are not the board's, or if it does
        not fit the FPGA.
        """
        where = f"board {self.name}"
        if config.clock_mhz != self.clock_mhz:
            raise BoardError(
                f"{where}: clock of {config.name} must be {self.clock_mhz:g} MHz, got {config.clock_mhz:g} MHz"
            )
        if config.axi_ports > len(self.memory_ports):
            raise BoardError(
                f"{where}: {config.name} must have at most {len(self.memory_ports)} memory ports, "
                f"got {config.axi_ports}"
            )
        if config.port_bits > self.memory_port_bits:
            raise BoardError(
                f"{where}: a memory port of {config.name} must have at most {self.memory_port_bits} bits, "
                f"got {config.port_bits}"
            )
        self._check_fit(config)
        return config

    def _check_fit(self, config: Config) -> None:
        """By the estimate of the area, less its error; Vivado has the last word."""
        usage, part = estimated_usage(config, PARTS[self.fpga]), PARTS[self.fpga]
        for field, what in (("lut", "LUTs"), ("dsp", "DSP slices"), ("bram36", "block RAMs"), ("uram", "UltraRAMs")):
            needed, available = getattr(usage, field), getattr(part, field)
            if needed * (1 - LUT_ERROR) > available:
                raise BoardError(
                    f"board {self.name}: {config.name} must fit a {part.name}, which has {available:,} {what}, "
                    f"got an estimated need of {needed:,g}; vdla area has the details"
                )

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON-compatible values, as a description has them."""
        return {**asdict(self), "configurations": [config.to_dict() for config in self.configurations]}


# --- files ----------------------------------------------------------------------------------------


def board_names() -> list[str]:
    """The names of the boards that come with VDLA."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{FILE}"))


def boards_by_preset() -> dict[str, Board]:
    """The board that offers a machine, for the name of every machine of VDLA's boards."""
    return {name: board for board in map(load_board, board_names()) for name in board.machines}


def load_board(name_or_path: str | PathLike[str]) -> Board:
    """The board of a name, or of a description: a JSON file, or a folder with a `board.json`."""
    text = str(name_or_path)
    if text in board_names():
        return _read(FOLDER / text / FILE)
    path = Path(name_or_path)
    if path.is_dir():
        return _read(path / FILE)
    if path.is_file() or path.suffix == ".json":
        return _read(path)
    names = board_names()
    got = f"{text}{did_you_mean(text, names)}"
    raise BoardError(f"board: name must be one of {', '.join(names)}, or a description in JSON, got {got}")


def board_from_dict(document: Mapping[str, Any]) -> Board:
    """The board of a description in JSON: tuples are lists, addresses also texts such as 0x1000."""
    known = [field.name for field in fields(Board)]
    for name in document:
        if name not in known:
            got = f"{name}{did_you_mean(name, known)}"
            raise BoardError(f"board: field must be one of {', '.join(known)}, got {got}")
    missing = [name for name in known if name not in document and name not in _OPTIONAL]
    if missing:
        raise BoardError(f"board: description must have every field, got none for {', '.join(missing)}")
    values = dict(document)
    for name in (*_LISTS, "board_connections"):
        if isinstance(values.get(name), list):
            values[name] = tuple(values[name])
    values["configurations"] = _configurations(values.get("configurations", []))
    for name in _ADDRESSES:
        values[name] = _address(name, values[name])
    return Board(**values)


def _read(path: Path) -> Board:
    document = read_table(path, BoardError)
    try:
        return board_from_dict(document)
    except BoardError as error:
        raise BoardError(f"{path}: {error}") from None


def _configurations(tables: object) -> tuple[Config, ...]:
    if not isinstance(tables, list):
        raise BoardError(f"board: configurations must be a list of tables of fields, got {tables!r}")
    return tuple(_configuration(table) for table in tables)


def _configuration(table: object) -> Config:
    """A machine in a description: a name, the preset that it is based on, and what differs."""
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise BoardError(f"board: a configuration must be a table of fields with a name, got {table!r}")
    where = f"board: configuration {table['name']}"
    if table["name"] in PRESETS:
        raise BoardError(f"{where}: name must differ from the presets of vdla config, got that of one")
    if "clock_mhz" in table:
        raise BoardError(f"{where}: clock_mhz must be left out, since it is the board's, got {table['clock_mhz']!r}")
    changes = {name: value for name, value in table.items() if name != "preset"}
    try:
        base = Config.preset(table["preset"]).to_dict() if "preset" in table else {}
        if isinstance(changes.get("dram"), Mapping):
            changes["dram"] = {**base.get("dram", {}), **changes["dram"]}
        return Config.from_dict({**base, **changes})
    except ConfigError as error:
        raise BoardError(f"{where}: {error}") from None


def _address(name: str, value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return int(value, 16 if value.lower().startswith("0x") else 10)
    except ValueError:
        raise BoardError(f"board: {name} must be an integer or text such as 0x1000, got {value!r}") from None


# --- rules ----------------------------------------------------------------------------------------


def _check_types(board: Board) -> None:
    for name in _TEXTS:
        value = getattr(board, name)
        if not isinstance(value, str) or not value or not value.isprintable():
            raise BoardError(f"board: {name} must be printable text, got {value!r}")
    where = f"board {board.name}"
    if not board.name.isidentifier():
        raise BoardError(f"board: name must be letters, digits and underscores, got {board.name!r}")
    if not re.fullmatch(_BOARD_PART, board.board_part):
        raise BoardError(f"{where}: board_part must look like vendor:board:part0:1.0, got {board.board_part}")
    for name in _LISTS:
        value = getattr(board, name)
        least = 0 if name == "presets" and board.configurations else 1
        _check_names(where, name, value, least)
    _check_names(where, "board_connections", board.board_connections, 0)
    if len(board.board_connections) % 2:
        got = ", ".join(board.board_connections)
        raise BoardError(f"{where}: board_connections must be pairs of connectors, got {got}")
    if len(set(board.machines)) < len(board.machines):
        raise BoardError(f"{where}: machines must have different names, got {', '.join(board.machines)}")
    for name in ("memory_port_bits", "address_bits", *_ADDRESSES):
        value = getattr(board, name)
        if not is_int(value) or value <= 0:
            raise BoardError(f"{where}: {name} must be an integer above 0, got {value!r}")
    clock = board.clock_mhz
    if isinstance(clock, bool) or not isinstance(clock, (int, float)) or not 0 < clock <= 1000:
        raise BoardError(f"{where}: clock_mhz must be a number above 0 and at most 1000, got {clock!r}")
    if not isinstance(board.coherent, bool):
        raise BoardError(f"{where}: coherent must be true or false, got {board.coherent!r}")


def _check_names(where: str, field: str, value: object, least: int) -> None:
    """A field that is a list of at least some names, which differ."""
    if not isinstance(value, tuple) or len(value) < least or not all(isinstance(one, str) and one for one in value):
        got = list(value) if isinstance(value, tuple) else value
        raise BoardError(f"{where}: {field} must be a list of {'at least one name' if least else 'names'}, got {got!r}")
    if len(set(value)) < len(value):
        raise BoardError(f"{where}: {field} must differ from each other, got {', '.join(value)}")


def _check_processor(board: Board) -> Family:
    """The family of the processor, with its CPU, addresses and FPGA."""
    where = f"board {board.name}"
    _check_choice(where, "processor", board.processor, FAMILIES)
    family, beside = FAMILIES[board.processor], f" with a processor {board.processor}"
    for name, rule in (("address_bits", family.address_bits), ("cpu", family.cpu)):
        got = getattr(board, name)
        if got != rule:
            raise BoardError(f"{where}: {name} must be {rule}{beside}, got {got}")
    _check_choice(where, "fpga", board.fpga, family.fpgas, beside)
    if not family.is_part(board.part, board.fpga):
        raise BoardError(
            f"{where}: part must be {family.packages(board.fpga)}, with a speed grade, for fpga {board.fpga}, "
            f"got {board.part}"
        )
    if board.clock_mhz > family.most_clock_mhz:
        raise BoardError(
            f"{where}: clock_mhz must be at most {family.most_clock_mhz:g}{beside}, got {board.clock_mhz:g}"
        )
    if board.dram_bytes % _PAGE_BYTES or board.dram_bytes > family.most_dram_bytes:
        raise BoardError(
            f"{where}: dram_bytes must be a multiple of {_PAGE_BYTES} of at most {family.most_dram_bytes:#x}{beside}, "
            f"got {board.dram_bytes:#x}"
        )
    return family


def _check_ports(board: Board, family: Family) -> None:
    where, beside = f"board {board.name}", f" with a processor {board.processor}"
    for port in board.memory_ports:
        _check_choice(where, "memory_ports", port, family.memory_ports, beside)
    bits = [str(width) for width in family.memory_port_bits]
    _check_choice(where, "memory_port_bits", str(board.memory_port_bits), bits, beside)
    _check_choice(where, "control_port", board.control_port, family.control_ports, beside)
    _check_choice(where, "interrupt", board.interrupt, family.interrupts, beside)
    if board.coherent:
        raise BoardError(
            f"{where}: coherent must be false with the memory_ports {', '.join(board.memory_ports)}, "
            "since HP ports do not see the processor's caches, got true"
        )


def _check_choice(where: str, field: str, value: str, choices: Iterable[str], beside: str = "") -> None:
    if value not in choices:
        got = f"{value}{did_you_mean(value, choices)}"
        raise BoardError(f"{where}: {field} must be one of {', '.join(choices)}{beside}, got {got}")


def _check_addresses(board: Board, family: Family) -> None:
    where = f"board {board.name}"
    if board.control_bytes % _PAGE_BYTES or board.control_bytes & (board.control_bytes - 1):
        raise BoardError(
            f"{where}: control_bytes must be a power of two of at least {_PAGE_BYTES}, got {board.control_bytes}"
        )
    ranges = family.control_ports[board.control_port]
    said = " or ".join(f"{low:#x} to {high - 1:#x}" for low, high in ranges)
    for name in ("control_base", "interrupt_controller_base"):
        base = getattr(board, name)
        reached = any(low <= base and base + board.control_bytes <= high for low, high in ranges)
        if base % board.control_bytes or not reached:
            raise BoardError(
                f"{where}: {name} must be a multiple of control_bytes in {said}, where {board.control_port} reaches, "
                f"got {base:#x}"
            )
    if board.control_base == board.interrupt_controller_base:
        raise BoardError(
            f"{where}: interrupt_controller_base must differ from control_base, got {board.control_base:#x}"
        )
