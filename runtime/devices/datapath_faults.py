"""What Verilator warns of in a user's datapath that is wrong hardware, whatever a simulation shows.

A finding that is meant is waived in the source, with `// verilator lint_off LATCH` and its like.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from vdla.hardware.generate.datapath_header import datapath_place
from vdla.hardware.generate.datapath_ports import module_name
from vdla.hardware.isa import PlugInUnit
from vdla.runtime.devices.device import DeviceError

FAULTS = (
    "BLKANDNBLK", "CASEINCOMPLETE", "COMBDLY", "IMPLICIT", "LATCH", "MULTIDRIVEN", "PINMISSING", "SELRANGE", "UNDRIVEN",
    "UNOPTFLAT", "WIDTHTRUNC",
)  # fmt: skip
"""Verilator's names: latches, loops (UNOPTFLAT), second drivers, missing cases, cut values, ..."""

WARN = tuple(f"-Wwarn-{name}" for name in FAULTS)
"""Options with which Verilator warns of all of them; some need -Wall otherwise."""

LINT = ("--lint-only", "--no-timing", "-Wno-fatal", *WARN, "--top-module")
"""Options, before the module and the files: within another module, outputs hide their faults."""

_LINE = re.compile(r"^%(?:Warning|Error)-(\w+): (?:.*/)?(ext_\w+)\.sv:(\d+):\d+: (.*)$")
_MOST = 5  # lines of a message


def require_sound(where: str, units: Iterable[PlugInUnit], said: str) -> None:
    """DeviceError with Verilator's lines where it warns of a fault in the datapath of a unit."""
    modules = {module_name(unit): unit for unit in units}
    found = dict.fromkeys(
        f"%Warning-{match[1]}: {datapath_place(modules[match[2]], int(match[3]))}: {match[4]}"
        for match in map(_LINE.match, said.splitlines())
        if match is not None and match[1] in FAULTS and match[2] in modules
    )
    if found:
        rule = "a datapath must have no latch, no loop and one driver of each bit, and must cut no value"
        raise DeviceError("\n".join([f"{where}: {rule}, got", *list(found)[:_MOST]]))
