"""The figures of GPU kernels that need an OpenCL device; none on a machine without."""

from __future__ import annotations

from vdla.benchmarks.gpu.exact import compare_cases, exact_cases
from vdla.benchmarks.gpu.product_ratio import product_ratio
from vdla.benchmarks.harness import Progress
from vdla.runtime.compile import compile
from vdla.runtime.grid.opencl_context import OpenClDeviceError
from vdla.runtime.grid.opencl_devices import open_opencl

_POCL = "Portable Computing Language"  # which runs kernels on CPUs


def device_figures(progress: Progress, seed: int) -> tuple[dict[str, float], str]:
    """`all_exact` and `pocl_ratio`, and the device that they are of, or why there is none."""
    try:
        device = open_opencl()
    except OpenClDeviceError as error:
        return {}, str(error)
    exact = compare_cases(progress, seed, exact_cases(), lambda fn: compile(fn, "opencl"))
    ratio = "pocl_ratio" if device.platform == _POCL else "device_ratio"
    figures: dict[str, float] = {
        "exact_cases": len(exact),
        "all_exact": int(all(exact.values())),
        ratio: round(product_ratio(progress, seed), 2),
    }
    return figures, f"{device.name} of {device.platform}"
