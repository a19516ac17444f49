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

__all__ = ["ROLES", "ROLES_WITH_DATA", "STREAM", "UOPS", "Program", "ProgramError", "Tensor", "load", "place"]
