"""A compiled network in one file: its plan, how it is written, read and checked.

On-board code: NumPy and the standard library only.
"""

from vdla.runtime.artifact.arena_blocks import ArenaBlock, arena_blocks
from vdla.runtime.artifact.artifact import ARTIFACT_FILE, Artifact, Cpu, KernelCode, aligned_bytes, stored_array
from vdla.runtime.artifact.check_plan import check_plan
from vdla.runtime.artifact.dtypes import numpy_dtype, size_bytes
from vdla.runtime.artifact.errors import ArtifactError
from vdla.runtime.artifact.grid_code import GridCode, GridPart
from vdla.runtime.artifact.plan import (
    ARENA_ALIGNMENT,
    DEVICE_ALIGNMENT,
    ControlStep,
    CopyStep,
    DeviceValue,
    GridStep,
    KernelStep,
    NumpyStep,
    PlacedOperator,
    Placement,
    Plan,
    PlannedValue,
    ProgramStep,
    Step,
    shape_text,
)

__all__ = [
    "ARENA_ALIGNMENT",
    "ARTIFACT_FILE",
    "DEVICE_ALIGNMENT",
    "ArenaBlock",
    "Artifact",
    "ArtifactError",
    "ControlStep",
    "CopyStep",
    "Cpu",
    "DeviceValue",
    "GridCode",
    "GridPart",
    "GridStep",
    "KernelCode",
    "KernelStep",
    "NumpyStep",
    "PlacedOperator",
    "Placement",
    "Plan",
    "PlannedValue",
    "ProgramStep",
    "Step",
    "aligned_bytes",
    "arena_blocks",
    "check_plan",
    "numpy_dtype",
    "shape_text",
    "size_bytes",
    "stored_array",
]
