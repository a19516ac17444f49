"""VDLA: compile tensor expressions to an accelerator program, simulate it exactly, verify it."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("vdla")
except PackageNotFoundError:  # the sources on a path, without an installation
    __version__ = "0+uninstalled"
