"""`vdla doctor`: what is installed, what the machine can do, and whether a small program runs."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable

from vdla import __version__
from vdla.commands import FINDING, OK
from vdla.commands.console import output, table
from vdla.commands.finding import Finding

NAME = "doctor"
HELP = "check the installation and run a small program"
EXAMPLES = """\
  vdla doctor        exit code 1 when something that vdla needs is missing
"""

VECTOR_FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", "asimd", "asimddp")  # as /proc/cpuinfo spells them


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; exit code 1 when one of them is not healthy."""
    from vdla.commands.self_test import self_test

    sections: tuple[tuple[str, Callable[[], list[Finding]]], ...] = (
        ("installed", _installed),
        ("extras", _extras),
        ("machine", _machine),
        ("self-test", self_test),
    )
    findings = []
    for title, look in sections:
        found = look()
        _show(title, found)
        findings += found
    return OK if all(finding.healthy for finding in findings) else FINDING


def _show(title: str, findings: list[Finding]) -> None:
    listing = table(title, "what", "state", "")
    listing.show_header = False
    for column in listing.columns[1:]:
        column.justify = "left"
        column.no_wrap = False
    for finding in findings:
        listing.add_row(f"  {finding.what}", finding.state, finding.advice, style=None if finding.healthy else "red")
    output().print(listing)


# --- what is installed -----------------------------------------------------------------------------------------------


def _installed() -> list[Finding]:
    python = Finding("python", platform.python_version(), sys.version_info >= (3, 10), _path_hint())
    return [python, Finding("vdla", __version__), *(_needed(requirement) for requirement in _requirements(""))]


def _path_hint() -> str:
    return "" if shutil.which("vdla") else "the command vdla is not on PATH; python -m vdla works too"


def _needed(distribution: str) -> Finding:
    version = _version(distribution)
    advice = "" if version else f"pip install {distribution}"
    return Finding(distribution, version or "missing", version is not None, advice)


def _extras() -> list[Finding]:
    try:
        extras = importlib.metadata.metadata("vdla").get_all("Provides-Extra") or []
    except importlib.metadata.PackageNotFoundError:
        return [Finding("vdla", "not installed", False, "pip install -e . in the folder of the sources")]
    return [_extra(str(extra)) for extra in extras]


def _extra(extra: str) -> Finding:
    versions = {name: _version(name) for name in _requirements(extra)}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return Finding(extra, f"missing {', '.join(missing)}", advice=f'pip install "vdla[{extra}]"')
    return Finding(extra, f"complete: {', '.join(versions)}")


def _requirements(extra: str) -> list[str]:
    """The distributions that the base (an empty name) or an extra asks for."""
    try:
        lines = importlib.metadata.requires("vdla") or []
    except importlib.metadata.PackageNotFoundError:
        return []  # which `_extras` says
    marks = {line: re.search(r"extra == ['\"]([^'\"]+)['\"]", line) for line in lines}
    chosen = [line for line, mark in marks.items() if (mark.group(1) if mark else "") == extra]
    return [re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in chosen]


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


# --- what the machine can do -----------------------------------------------------------------------------------------


def _machine() -> list[Finding]:
    from vdla.support.processor import cpu_flags, cpu_model

    features = [name for name in VECTOR_FEATURES if name in cpu_flags()]
    return [
        Finding("processor", f"{cpu_model()}, {os.cpu_count()} cores"),
        Finding("vector features", ", ".join(features) or "none known"),
        _kernel(),
        *_tools(),
    ]


def _kernel() -> Finding:
    from vdla.commands.self_test import kernel_name

    start_s = time.perf_counter()
    name = kernel_name()
    return Finding("simulator kernel", f"{name} (ready in {time.perf_counter() - start_s:.1f} s)")


def _tools() -> list[Finding]:
    found = {name: shutil.which(name) for name in ("g++", "make", "perl")}
    missing = [name for name, path in found.items() if path is None]
    state = f"missing {', '.join(missing)}" if missing else "g++, make and perl are here"
    advice = "apt-get install g++ make perl" if missing else ""
    return [Finding("tools of the rtl extra", state, advice=advice), _rtl(), _waveforms()]


def _rtl() -> Finding:
    """Whether the device rtl can be built here; the rest of vdla works without it."""
    from vdla.runtime.devices.device import DeviceError
    from vdla.runtime.devices.rtl_build import cache_folder, find_tools

    try:
        tools, folder = find_tools(), cache_folder()
    except DeviceError as error:
        return Finding("device rtl", "cannot be built", advice=str(error).removeprefix("device rtl: "))
    return Finding("device rtl", f"can be built with {tools.versions}", advice=f"kept in {folder}")


def _waveforms() -> Finding:
    """Whether runs on the device rtl can leave waveforms."""
    from vdla.runtime.devices.device import DeviceError
    from vdla.runtime.devices.rtl_build import find_tools

    try:
        find_tools(waves=True)
    except DeviceError as error:
        return Finding("waveforms", "cannot be written", advice=str(error).removeprefix("device rtl: "))
    return Finding("waveforms", "can be written")
