# SPDX-License-Identifier: Apache-2.0
"""The figures by name, and their result in the form of a benchmark."""

from __future__ import annotations

from vdla.benchmarks.harness import BenchmarkResult, host_receipt
from vdla.benchmarks.paper import accelerator, grids, processors
from vdla.benchmarks.paper.figure import PaperFigure, PaperMeasurement
from vdla.support.errors import Error
from vdla.support.progress import Progress, silent
from vdla.support.suggest import one_of

_GPU, _PHONE, _CORE = "NVIDIA Titan X", "Arm Cortex-A53", "one thread of this CPU"
_OPENCL = "the first OpenCL device"
_FPGA = "VDLA on a PYNQ board"
_SIM = "the simulator of pynq_z1, exact cycles"
FIGURES = {
    figure.name: figure
    for figure in (
        PaperFigure(4, "fused operators", _GPU, _CORE, processors.fused_kernels),
        PaperFigure(7, "cooperative fetching in products", _GPU, _OPENCL, grids.cooperative_fetching),
        PaperFigure(10, "roofline of ResNet-18 and latency hiding", _FPGA, _SIM, accelerator.latency_hiding),
        PaperFigure(12, "searches of schedules", _GPU, _SIM, accelerator.searches),
        PaperFigure(14, "networks on a server", _GPU, _CORE, processors.server_networks),
        PaperFigure(15, "layers on a server", _GPU, _CORE, processors.float_layers),
        PaperFigure(16, "networks on a phone's CPU", _PHONE, f"{_CORE}, int8", processors.phone_networks),
        PaperFigure(17, "layers on a phone's CPU", _PHONE, f"{_CORE}, int8", processors.integer_layers),
        PaperFigure(18, "narrow numbers on a phone's CPU", _PHONE, _CORE, processors.narrow_numbers),
        PaperFigure(19, "networks on a phone's GPU", "Mali-T860MP4", _OPENCL, grids.networks),
        PaperFigure(21, "ResNet-18 offloaded", _FPGA, f"{_SIM}, the CPU estimated", accelerator.offloading),
    )
}


class PaperError(Error, ValueError):
    """A figure that does not exist."""


def figure(name: str) -> PaperFigure:
    """A figure by name, such as "figure10".

    Raises:
        PaperError: the name is unknown.
    """
    if name not in FIGURES:
        raise PaperError(f"paper: figure must be {one_of(name, FIGURES)}")
    return FIGURES[name]


def run(name: str, progress: Progress = silent, seed: int = 0, *, small: bool = False) -> tuple[BenchmarkResult, str]:
    """Measure a figure: the result, and the picture as SVG.

    The result has the rows of the measurement, then a row a claim, and counts both kinds of claims.
    """
    chosen = figure(name)
    measured = chosen.measure(progress, seed, small)
    command = f"vdla paper {name}{' --small' * small} --seed {seed} --json -"
    made = host_receipt(seed, command, ["llvmlite", "onnxruntime"], paper=chosen.paper, here=chosen.here, small=small)
    rows = [*measured.rows, *(claim.row() for claim in measured.claims)]
    figures = _counted(measured)
    return BenchmarkResult(f"paper {name}", figures, rows, made | dict(measured.details)), measured.picture


def _counted(measured: PaperMeasurement) -> dict[str, float]:
    holding = sum(claim.holds for claim in measured.claims)
    return {"claims": len(measured.claims), "claims_that_hold": holding}
