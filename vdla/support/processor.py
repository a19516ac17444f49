# SPDX-License-Identifier: Apache-2.0
"""The processor of this machine, as /proc/cpuinfo describes it; what external tools run in."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path


def tool_environment(**variables: str) -> dict[str, str]:
    """This process's environment with `variables` set and the interpreter's folder first on PATH.

    Scripts of tools call `python`, which a virtual environment has and a stock Debian has not.
    """
    environment = {**os.environ, **variables}
    folders = [str(Path(sys.executable).parent), environment.get("PATH", "")]
    return {**environment, "PATH": os.pathsep.join(filter(None, folders))}


CPUINFO = Path("/proc/cpuinfo")


def cpu_model() -> str:
    """The processor's name from /proc/cpuinfo, else from the platform module."""
    names = _values("model name")
    return names[0] if names else platform.processor() or platform.machine()


def cpu_flags() -> frozenset[str]:
    """The feature flags of the first processor; empty where the kernel does not list them."""
    flags = _values("flags", "features")
    return frozenset(flags[0].split()) if flags else frozenset()


def _values(*keys: str) -> list[str]:
    """The values of the lines that begin with one of `keys`, in any case."""
    lines = CPUINFO.read_text(encoding="utf-8").splitlines() if CPUINFO.exists() else []
    return [line.split(":", 1)[1].strip() for line in lines if line.lower().startswith(keys)]
