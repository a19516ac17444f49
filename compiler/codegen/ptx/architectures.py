# SPDX-License-Identifier: Apache-2.0
"""The architectures of NVIDIA's GPUs, by compute capability."""

from __future__ import annotations

from vdla.compiler.target import PTX_ARCHITECTURES, Target
from vdla.support.errors import Error


class PtxError(Error, ValueError):
    """A function that cannot be expressed in PTX, or a text that `ptxas` refuses."""


_VECTOR_BYTES = 16  # the longest load
_REGISTERS = 255 * 4 // _VECTOR_BYTES  # as vectors; a thread has 255 of 4 bytes


def target_of(arch: str) -> Target:
    """The threads of an architecture as a target of LLVM.

    Raises:
        PtxError: it is not one of PTX_ARCHITECTURES.
    """
    if arch not in PTX_ARCHITECTURES:
        raise PtxError(f"ptx: arch must be one of {', '.join(PTX_ARCHITECTURES)}, got {arch!r}")
    return Target(
        name=arch,
        triple="nvptx64-nvidia-cuda",
        cpu=arch,
        features=frozenset(),
        vector_bytes=_VECTOR_BYTES,
        vector_registers=_REGISTERS,
    )


def capability(arch: str) -> int:
    """The compute capability of an architecture as a number, 80 of sm_80."""
    return int(arch.removeprefix("sm_"))
