"""Sources built for a device, each once in a process; the driver keeps its own cache on disk."""

from __future__ import annotations

import re
import warnings
from functools import lru_cache
from typing import Any

from vdla.runtime.opencl.context import OpenClContext
from vdla.runtime.opencl.errors import OpenClDeviceError
from vdla.runtime.opencl.pyopencl_module import pyopencl

_PROGRAMS = 256
_OPTIONS = ("-cl-std=CL1.2",)
_AS_IT_STANDS = "-cl-opt-disable"
_EXACT_DIVISION = "-cl-fp32-correctly-rounded-divide-sqrt"


@lru_cache(maxsize=_PROGRAMS)
def build_program(device: OpenClContext, source: str) -> Any:  # noqa: ANN401  a pyopencl.Program
    """The program of a source.

    Raises:
        OpenClDeviceError: the device's compiler refuses it, or the device lacks a type.
    """
    cl = pyopencl()
    if re.search(r"\bdouble\d*\b", source) and not device.has("cl_khr_fp64"):
        raise OpenClDeviceError(f"opencl: the device must have cl_khr_fp64 for float64, got {device.name}")
    options = [*_OPTIONS, *(() if device.optimises else (_AS_IT_STANDS,))]
    if device.handle.single_fp_config & cl.device_fp_config.CORRECTLY_ROUNDED_DIVIDE_SQRT:
        options.append(_EXACT_DIVISION)
    program = cl.Program(device.context, source)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cl.CompilerWarning)
            return program.build(options)
    except cl.RuntimeError as error:
        raise OpenClDeviceError(f"opencl: {device.name} must build the source, got {_reason(str(error))}") from None


def _reason(log: str) -> str:
    """The first error in a build log, else its first line."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[0] if lines else "no log")
