"""Programs: the instruction stream with its tensors, the file it is kept in, arrays as bytes in DRAM."""

from vdla.hardware.program.program import (
    ROLES,
    ROLES_WITH_DATA,
    STREAM,
    UOPS,
    Program,
    ProgramError,
    Tensor,
    load,
    place,
)
from vdla.hardware.program.tensors import (
    array_dtype,
    from_bytes,
    initial_contents,
    input_tensors,
    output_arrays,
    to_bytes,
)

__all__ = [
    "ROLES",
    "ROLES_WITH_DATA",
    "STREAM",
    "UOPS",
    "Program",
    "ProgramError",
    "Tensor",
    "array_dtype",
    "from_bytes",
    "initial_contents",
    "input_tensors",
    "load",
    "output_arrays",
    "place",
    "to_bytes",
]
