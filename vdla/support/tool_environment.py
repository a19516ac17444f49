"""The environment of external tools: compilers, Verilator, Yosys."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def tool_environment(**variables: str) -> dict[str, str]:
    """This process's environment with `variables` set and the interpreter's folder first on PATH.

    Scripts of tools call `python`, which a virtual environment has and a stock Debian has not.
    """
    environment = {**os.environ, **variables}
    folders = [str(Path(sys.executable).parent), environment.get("PATH", "")]
    return {**environment, "PATH": os.pathsep.join(filter(None, folders))}
