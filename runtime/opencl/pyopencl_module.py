"""The module pyopencl, imported when first needed."""

from __future__ import annotations

from types import ModuleType

from vdla.runtime.opencl.errors import OpenClDeviceError

INSTALL = 'pip install "vdla[opencl]"'


def pyopencl() -> ModuleType:
    """The module pyopencl.

    Raises:
        OpenClDeviceError: it is not installed.
    """
    try:
        import pyopencl as module
    except ImportError as error:
        raise OpenClDeviceError(f"opencl: pyopencl must be installed, got {error}; {INSTALL}") from None
    return module


def first_line(error: Exception) -> str:
    """The first line of what an error says."""
    return str(error).strip().split("\n")[0]
