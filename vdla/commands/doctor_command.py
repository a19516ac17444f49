# SPDX-License-Identifier: Apache-2.0
"""`vdla doctor`: the installation, the capabilities of the machine, and a self-test."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import shutil
import sys
import sysconfig
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import FINDING, OK
from vdla.commands.console import output, table

if TYPE_CHECKING:
    from packaging.requirements import Requirement


PRESETS = ("pynq_z1", "tiny", "int4", "batch4")


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One line of the report: the subject, its state, and advice where it is not healthy."""

    what: str
    state: str
    healthy: bool = True
    advice: str = ""


def self_test() -> list[DoctorFinding]:
    """One finding a machine."""
    return [_convolution(preset) for preset in PRESETS]


def _convolution(preset: str) -> DoctorFinding:
    from vdla.compiler.operators.workloads import SELF_TEST
    from vdla.hardware.config import Config
    from vdla.runtime.diagnosis.layers import layer_operator, measure

    start_s = time.perf_counter()
    measured = measure(SELF_TEST, layer_operator(SELF_TEST, Config.preset(preset), 2), seed=0)
    took = f"{measured.stats.total_cycles:,} cycles, {time.perf_counter() - start_s:.1f} s"
    state = f"exact, {took}" if measured.exact else f"results differ from numpy, {took}"
    advice = "" if measured.exact else "please report it with the output of vdla doctor"
    return DoctorFinding(f"convolution on {preset}", state, measured.exact, advice)


EXAMPLES = """\
  vdla doctor        exit code 1 when a requirement is missing or a test fails
"""

_VECTOR_FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "asimd", "asimddp")  # as /proc/cpuinfo spells them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; exit code 1 when one is not healthy."""
    sections: tuple[tuple[str, Callable[[], list[DoctorFinding]]], ...] = (
        ("installed", _installed),
        ("extras", _extras),
        ("machine", _machine),
        ("self-test", self_test),
    )
    findings = []
    for title, look in sections:
        all_findings = look()
        _show(title, all_findings)
        findings += all_findings
    return OK if all(finding.healthy for finding in findings) else FINDING


def _show(title: str, findings: list[DoctorFinding]) -> None:
    listing = table(title, "what", "state", "")
    listing.show_header = False
    for column in listing.columns[1:]:
        column.justify = "left"
        column.no_wrap, column.overflow = False, "fold"
    for finding in findings:
        listing.add_row(f"  {finding.what}", finding.state, finding.advice, style=None if finding.healthy else "red")
    output().print(listing)


# --- installed ------------------------------------------------------------------------------------


def _installed() -> list[DoctorFinding]:
    from vdla.support.version import version_text

    python = DoctorFinding("python", platform.python_version(), sys.version_info >= (3, 10))
    packages = [python, DoctorFinding("vdla", version_text()), _command()]
    return [*packages, *(_needed(requirement) for requirement in _requirements(""))]


def _command() -> DoctorFinding:
    """The script of this installation, and whether `vdla` alone runs it."""
    script, command = Path(sysconfig.get_path("scripts")) / "vdla", shutil.which("vdla")
    if not script.exists():
        return DoctorFinding("command", "python -m vdla", advice="not installed as vdla: pip install -e .")
    if command is None:
        activate = script.with_name("activate")
        how = f"source {_from_here(activate)}" if activate.exists() else f"add {script.parent}"
        return DoctorFinding("command", str(script), advice=f"not on PATH: {how}")
    if not script.samefile(command):
        return DoctorFinding("command", str(script), advice=f"PATH has another one first: {command}")
    return DoctorFinding("command", str(script))


def _from_here(path: Path) -> Path:
    """The path relative to the working folder, where it lies inside."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _needed(distribution: str) -> DoctorFinding:
    version = _version(distribution)
    advice = "" if version else f"pip install {distribution}"
    return DoctorFinding(distribution, version or "missing", version is not None, advice)


def _extras() -> list[DoctorFinding]:
    try:
        extras = importlib.metadata.metadata("vdla").get_all("Provides-Extra") or []
    except importlib.metadata.PackageNotFoundError:
        return [DoctorFinding("vdla", "not installed", False, "pip install -e . in the folder of the sources")]
    return [_extra(str(extra)) for extra in extras]


def _extra(extra: str) -> DoctorFinding:
    versions = {name: _version(name) for name in _requirements(extra)}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return DoctorFinding(extra, f"missing {', '.join(missing)}", advice=f'pip install "vdla[{extra}]"')
    return DoctorFinding(extra, f"complete: {', '.join(versions)}" if versions else "needs nothing here")


def _requirements(extra: str) -> list[str]:
    """The distributions that an extra needs here; of an empty name, those that vdla needs."""
    try:
        lines = importlib.metadata.requires("vdla") or []
        from packaging.requirements import Requirement
    except importlib.metadata.PackageNotFoundError:
        return []  # reported by `_extras`
    except ImportError:
        return ["packaging"]  # what is known without it
    needed = [Requirement(line) for line in lines]
    return [item.name for item in needed if _applies(item, extra) and not (extra and _applies(item, ""))]


def _applies(requirement: Requirement, extra: str) -> bool:
    """Whether a requirement holds for this Python, on this machine, with an extra."""
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


# --- machine --------------------------------------------------------------------------------------


def _machine() -> list[DoctorFinding]:
    from vdla.support.processor import cpu_flags, cpu_model

    features = [name for name in _VECTOR_FEATURES if name in cpu_flags()]
    return [
        DoctorFinding("processor", f"{cpu_model()}, {os.cpu_count()} cores"),
        DoctorFinding("vector features", ", ".join(features) or "none known"),
        _kernel(),
        *_opencl(),
        *_cuda(),
        *_tools(),
    ]


def _kernel() -> DoctorFinding:
    """Which kernel the simulator uses for matrix products on pynq_z1."""
    from vdla.hardware.config import Config
    from vdla.simulator.function import dot_unit, kernels_tiled

    start_s, config = time.perf_counter(), Config.preset("pynq_z1")
    fast = dot_unit.available() and kernels_tiled.supports(config.block_in, config.block_out)
    name = dot_unit.UNIT if fast else "scalar, since VDLA_PORTABLE is set"
    return DoctorFinding("simulator kernel", f"{name} (ready in {time.perf_counter() - start_s:.1f} s)")


def _opencl() -> list[DoctorFinding]:
    """The OpenCL devices, or why there are none; they are optional."""
    from vdla.runtime.grid.opencl_context import OpenClDeviceError
    from vdla.runtime.grid.opencl_devices import opencl_devices

    try:
        return [DoctorFinding("opencl device", device) for device in opencl_devices()]
    except OpenClDeviceError as error:
        return [DoctorFinding("opencl device", "none", advice=str(error).removeprefix("opencl: "))]


def _cuda() -> list[DoctorFinding]:
    """The CUDA devices, or why there are none; they are optional."""
    from vdla.runtime.grid.cuda_devices import cuda_devices, cuda_version
    from vdla.runtime.grid.cuda_driver import CudaDeviceError

    try:
        driver = f"driver for CUDA {cuda_version()}"
        return [DoctorFinding("cuda device", f"{device}, {driver}") for device in cuda_devices()]
    except CudaDeviceError as error:
        return [DoctorFinding("cuda device", "none", advice=str(error).removeprefix("cuda: "))]


def _tools() -> list[DoctorFinding]:
    tools = {name: shutil.which(name) for name in ("g++", "make", "perl")}
    missing = [name for name, path in tools.items() if path is None]
    state = f"missing {', '.join(missing)}" if missing else "g++, make and perl found"
    advice = "apt-get install g++ make perl" if missing else ""
    return [DoctorFinding("tools of the rtl extra", state, advice=advice), _rtl(), _waveforms()]


def _rtl() -> DoctorFinding:
    """Whether the device rtl can be built; it is optional."""
    from vdla.runtime.devices import DeviceError
    from vdla.runtime.devices.rtl_build import find_tools, rtl_cache

    try:
        tools, folder = find_tools(), rtl_cache()
    except DeviceError as error:
        return DoctorFinding("device rtl", "cannot be built", advice=str(error).removeprefix("device rtl: "))
    return DoctorFinding("device rtl", f"can be built with {tools.versions}", advice=f"kept in {folder}")


def _waveforms() -> DoctorFinding:
    """Whether runs on the device rtl can write waveforms."""
    from vdla.runtime.devices import DeviceError
    from vdla.runtime.devices.rtl_build import find_tools

    try:
        find_tools(waves=True)
    except DeviceError as error:
        return DoctorFinding("waveforms", "cannot be written", advice=str(error).removeprefix("device rtl: "))
    return DoctorFinding("waveforms", "can be written")
