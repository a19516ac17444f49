# SPDX-License-Identifier: Apache-2.0
"""Grids of threads as `vdla.grid`: limits of a GPU, kernels as lowered and as PTX, device memory.

`open_grid_device` gives a device whose streams run kernels on arrays that stay there. Everything
loads at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vdla.compiler.codegen.ptx import assemble_ptx, emit_ptx
    from vdla.compiler.lowering.grid_pipeline import lower_kernels
    from vdla.compiler.target import GridLimits
    from vdla.runtime.grid.protocol import GridDevice, GridDeviceError
    from vdla.runtime.grid.registry import open_grid_device

_HOMES = {
    "GridDevice": "vdla.runtime.grid.protocol",
    "GridDeviceError": "vdla.runtime.grid.protocol",
    "GridLimits": "vdla.compiler.target",
    "assemble_ptx": "vdla.compiler.codegen.ptx",
    "emit_ptx": "vdla.compiler.codegen.ptx",
    "lower_kernels": "vdla.compiler.lowering.grid_pipeline",
    "open_grid_device": "vdla.runtime.grid.registry",
}

__all__ = [
    "GridDevice",
    "GridDeviceError",
    "GridLimits",
    "assemble_ptx",
    "emit_ptx",
    "lower_kernels",
    "open_grid_device",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401  a public object
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'vdla.grid' has no attribute {name!r}; it has {', '.join(__all__)}")
