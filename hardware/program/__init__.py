# SPDX-License-Identifier: Apache-2.0
"""Programs: instruction stream and tensors, their file, and arrays as bytes in DRAM."""

from vdla.hardware.program.arrays import (
    array_dtype,
    from_bytes,
    initial_contents,
    input_tensors,
    output_arrays,
    to_bytes,
)
from vdla.hardware.program.blocked_layout import pack_blocked, unpack_blocked
from vdla.hardware.program.placement import (
    BEATS,
    STREAM,
    allocated_sizes,
    place,
    placed_sizes,
    require_apart,
    with_parts,
)
from vdla.hardware.program.program import (
    UOPS,
    Program,
    load,
)
from vdla.hardware.program.tensor import (
    ROLES,
    ROLES_WITH_DATA,
    WRITABLE_ROLES,
    NeedsExtensionError,
    ProgramError,
    ProgramTensor,
)

__all__ = [
    "BEATS",
    "ROLES",
    "ROLES_WITH_DATA",
    "STREAM",
    "UOPS",
    "WRITABLE_ROLES",
    "NeedsExtensionError",
    "Program",
    "ProgramError",
    "ProgramTensor",
    "allocated_sizes",
    "array_dtype",
    "from_bytes",
    "initial_contents",
    "input_tensors",
    "load",
    "output_arrays",
    "pack_blocked",
    "place",
    "placed_sizes",
    "require_apart",
    "to_bytes",
    "unpack_blocked",
    "with_parts",
]
