# SPDX-License-Identifier: Apache-2.0
"""The nodes of a graph that run on a GPU: their choice, and their kernels."""

from __future__ import annotations

from vdla.compiler.graph.grid.place import (
    GPU_MODEL,
    GRID,
    HOST_MODEL,
    GpuModel,
    GridPlacement,
    group_for_grid,
    place_on_grid,
)

__all__ = ["GPU_MODEL", "GRID", "HOST_MODEL", "GpuModel", "GridPlacement", "group_for_grid", "place_on_grid"]
