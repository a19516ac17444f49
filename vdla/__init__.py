"""VDLA: compile tensor expressions to an accelerator program, simulate it exactly, verify it.

The names of `__all__` are the public interface; each is imported at its first use, so that `import vdla` needs nothing
and a board never loads the compiler.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vdla.compiler import te
    from vdla.compiler.codegen.vdla.compile import compile_function
    from vdla.compiler.schedule import Schedule
    from vdla.hardware.config import Buffer, Config, Dram
    from vdla.hardware.program import Program
    from vdla.runtime.native.kernel import build
    from vdla.runtime.run import open_device, run
    from vdla.simulator.simulator import simulate
    from vdla.simulator.verify.verifier import verify

__all__ = [
    "Buffer",
    "Config",
    "Dram",
    "Program",
    "Schedule",
    "build",
    "compile_function",
    "open_device",
    "run",
    "simulate",
    "te",
    "verify",
]

_HOMES = {
    "Buffer": "vdla.hardware.config",
    "Config": "vdla.hardware.config",
    "Dram": "vdla.hardware.config",
    "Program": "vdla.hardware.program",
    "Schedule": "vdla.compiler.schedule",
    "build": "vdla.runtime.native.kernel",
    "compile_function": "vdla.compiler.codegen.vdla.compile",
    "open_device": "vdla.runtime.run",
    "run": "vdla.runtime.run",
    "simulate": "vdla.simulator.simulator",
    "te": "vdla.compiler",
    "verify": "vdla.simulator.verify.verifier",
}

try:
    __version__ = version("vdla")
except PackageNotFoundError:  # the sources on a path, without an installation
    __version__ = "0+uninstalled"


def __getattr__(name: str) -> Any:  # noqa: ANN401  any public object
    if name not in _HOMES:
        raise AttributeError(f"module 'vdla' has no attribute {name!r}; it has {', '.join(__all__)}")
    home = import_module(_HOMES[name])
    return getattr(home, name) if hasattr(home, name) else import_module(f"{home.__name__}.{name}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
