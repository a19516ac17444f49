# SPDX-License-Identifier: Apache-2.0
"""How often the registers of the RTL switch on real data, from a file in SAIF, the Switching
Activity Interchange Format, which power tools of vendors read as well.

A device writes the file: `open_device("rtl", config, waves="run.saif")`. Memories are not in it.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from vdla.runtime.devices.device import DeviceError

SUFFIX = ".saif"
_CLOCK = "clk_i"
_INSTANCE = re.compile(r"\(INSTANCE (\S+)")
_SIGNAL = re.compile(r"\((\S+) \(T0 .*\(TC (\d+)\)")
_BIT = re.compile(r"(\\?\[\d+\\?\])+$")


@dataclass(frozen=True, slots=True)
class Switching:
    """Changes of bits between 0 and 1 while a device was open, resets included, by register: the
    names of its instances and its own, joined by dots. The bits of a register are summed.
    """

    cycles: int
    registers: Counter[str]

    @property
    def total(self) -> int:
        """Of all registers."""
        return self.registers.total()

    def by_unit(self, depth: int) -> Counter[str]:
        """Of the registers of each unit, down to a depth of instances."""
        units: Counter[str] = Counter()
        for name, count in self.registers.items():
            units[".".join(name.split(".")[:-1][:depth])] += count
        return units

    def __str__(self) -> str:
        return f"{self.total:,} toggles of registers in {self.cycles:,} cycles, resets included"


def read_switching(path: str | Path) -> Switching:
    """The switching in a file that a device has written and closed; DeviceError for another one."""
    registers: Counter[str] = Counter()
    instances: list[str] = []
    cycles, nets = 0, False
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DeviceError(f"switching {path}: file must be SAIF, got {error}") from None
    if not any(line.startswith("(SAIFILE") for line in lines[:4]):
        raise DeviceError(f"switching {path}: file must be SAIF, got {lines[0] if lines else 'nothing'}")
    for line in map(str.strip, lines):
        if entry := _INSTANCE.match(line):
            instances.append(entry[1])
        elif line == "(NET":
            nets = True
        elif line == ")" and nets:
            nets = False
        elif line == ")" and instances:
            instances.pop()
        elif entry := _SIGNAL.match(line):
            name, count = _BIT.sub("", entry[1]), int(entry[2])
            if name.endswith("_q"):
                registers[".".join([*instances[1:], name])] += count
            elif name == _CLOCK and len(instances) == 1:
                cycles = count // 2
    return Switching(cycles, registers)
