# SPDX-License-Identifier: Apache-2.0
"""Verilator warnings that indicate wrong hardware in a user's datapath, even if it simulates.

Intended ones are waived in the source, with `// verilator lint_off LATCH` and the like.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from vdla.hardware.generate.datapath_header import datapath_place
from vdla.hardware.generate.datapath_ports import module_name
from vdla.hardware.isa import PlugInUnit
from vdla.runtime.devices.device import DeviceError

FAULTS = (
    "BLKANDNBLK", "CASEINCOMPLETE", "COMBDLY", "IMPLICIT", "LATCH", "MULTIDRIVEN", "PINMISSING", "SELRANGE", "UNDRIVEN",
    "WIDTHTRUNC",
)  # fmt: skip
"""Verilator's names: latches, second drivers, missing cases, cut values and so on."""

LOOP = "UNOPTFLAT"
"""A combinational loop, if variables are split: otherwise also one element that follows another."""

_LINT = ("--lint-only", "--no-timing", "-Wno-fatal", *(f"-Wwarn-{name}" for name in FAULTS), "--top-module")
_LINE = re.compile(r"^%(?:Warning|Error)-(\w+): (?:.*/)?(ext_\w+)\.sv:(\d+):\d+: (.*)$")
_MODULE = re.compile(r"^\s*module\s+(\w+)", re.MULTILINE)
_MOST = 5  # lines of a message
Run = Callable[[Sequence[str]], str]
"""Runs Verilator with arguments; returns what it says."""


def require_sound(where: str, unit: PlugInUnit, run: Run, files: Sequence[str], folder: Path) -> None:
    """DeviceError with Verilator's lines where it sees a fault in the datapath of a unit.

    The datapath is read alone, since within another module its outputs hide their faults. `files`
    are those of the machine or of the datapath; `folder` takes one with settings.
    """
    assert unit.datapath is not None, "called for a datapath"
    module, split = module_name(unit), folder / "split.vlt"
    splits = [f'split_var -module "{name}" -var "*"' for name in _MODULE.findall(unit.datapath.text)]
    split.write_text("\n".join(["`verilator_config", *splits, ""]), encoding="utf-8")
    require_no_fault(where, unit, run([*_LINT, module, *files]), FAULTS)
    require_no_fault(where, unit, run([*_LINT, module, str(split), *files]), (LOOP,))


def require_no_fault(where: str, unit: PlugInUnit, said: str, faults: Collection[str]) -> None:
    """DeviceError with the lines in which Verilator names one of these faults of a datapath."""
    findings = dict.fromkeys(
        f"%Warning-{match[1]}: {datapath_place(unit, int(match[3]))}: {match[4]}"
        for match in map(_LINE.match, said.splitlines())
        if match is not None and match[1] in faults and match[2] == module_name(unit)
    )
    if findings:
        rule = "a datapath must have no latch, no loop and one driver of each bit, and must cut no value"
        raise DeviceError("\n".join([f"{where}: {rule}, got", *list(findings)[:_MOST]]))
