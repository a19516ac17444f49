"""What an operator and a copy cost on a GPU, in seconds: the basis of the choice between devices.

A GPU is described by a few rates from data sheets: no operator is run to compile a network.
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.compiler.graph.accelerator import CpuModel


@dataclass(frozen=True, slots=True)
class GpuModel:
    """Rates of a GPU: products, bytes of its memory, one kernel; bytes between memories, one copy.

    `source` says where the numbers come from.
    """

    name: str
    macs_per_second: float
    bytes_per_second: float
    call_seconds: float
    copied_bytes_per_second: float
    copy_seconds: float
    source: str

    def seconds(self, macs: int, nbytes: int) -> float:
        """The time of one operator."""
        return self.call_seconds + max(macs / self.macs_per_second, nbytes / self.bytes_per_second)

    def seconds_to_copy(self, nbytes: int) -> float:
        """The time of a copy from one memory to the other."""
        return self.copy_seconds + nbytes / self.copied_bytes_per_second


GPU_MODEL = GpuModel(
    "the GPU",
    macs_per_second=2.0e12,
    bytes_per_second=2.0e11,
    call_seconds=8e-6,
    copied_bytes_per_second=8.0e9,
    copy_seconds=15e-6,
    source="data sheets of cards of 10 TFLOPS with 16 lanes of PCIe 3, 40 % of their peak",
)
"""The rates of any GPU; no figure of it was measured."""

HOST_MODEL = CpuModel("the CPU", 1.0e11, 1.0e10, 1e-6, "data sheet of 4 cores of 3 GHz with AVX2, 25 % of their peak")
"""The rates of a workstation's CPU beside a GPU."""
