# SPDX-License-Identifier: Apache-2.0
"""Networks of today on pynq_z1, with and without a look-up stage: programs, times, handovers.

Networks have random weights and are quantised on random images. Times are those of the models of
the machine and of the CPU on its board, which `vdla compile` prints; results are compared bit for
bit with the NumPy definitions of the integer operators. The stage is that of
docs/extension-lut.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vdla.benchmarks.harness import BenchmarkResult, Figures, Row, receipt
from vdla.compiler.extensions import extend
from vdla.compiler.graph import Graph
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.networks.registry import Network, network
from vdla.runtime.executor.run_times import run_times
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import Evaluator
from vdla.runtime.network.quantise import quantise
from vdla.support.errors import Error
from vdla.support.progress import Progress, silent

PRESET = "pynq_z1"
MEASURED = ("yolo_v8n", "mobilenet_v3")
STAGE = Path(__file__).resolve().parent.parent / "examples" / "look_up_table" / "lut.py"


class StageError(Error, RuntimeError):
    """The file of the stage is missing."""


def run(progress: Progress = silent, seed: int = 0, subjects: Sequence[str] = ()) -> BenchmarkResult:
    """The networks `subjects`, or those of MEASURED, each on both machines.

    Raises:
        StageError: the file of the stage is missing.
        NetworkError: a name is unknown.
    """
    if not STAGE.is_file():
        raise StageError(f"bench modern: the stage must be in {STAGE}, got no such file; run it in the repository")
    networks = [network(name) for name in tuple(subjects) or MEASURED]
    plain = Config.preset(PRESET)
    machines = {"plain": plain, "stage": extend(plain, str(STAGE))}
    figures: Figures = {}
    rows, programs = list[Row](), list[Program]()
    for number, subject in enumerate(networks):
        progress(subject.name, number, len(networks))
        for name, row, used in _measured(subject, machines, seed):
            figures |= {f"{subject.name}_{name}_{figure}": value for figure, value in row.items()}
            rows.append({"network": subject.name, "machine": name, **row})
            programs += used
    progress("done", len(networks), len(networks))
    figures["all_exact"] = int(all(row["exact"] for row in rows))
    command = " ".join(["vdla bench modern", *subjects, f"--seed {seed}"])
    return BenchmarkResult("modern", figures, rows, receipt(plain, programs, seed, command))


def _measured(subject: Network, machines: dict[str, Config], seed: int) -> list[tuple[str, Row, list[Program]]]:
    """A row and the programs of each machine."""
    model = subject.build(seed=seed)
    data = [subject.inputs(model, seed=seed + i) for i in range(3)]
    quantised = quantise(model, calibration=data[1:], method="minmax").graph
    networks = []
    for name, config in machines.items():
        graphs: dict[str, Graph] = {}

        def observe(name: str, _: Graph, after: Graph, graphs: dict[str, Graph] = graphs) -> None:
            graphs[name] = after

        with compile_network(quantised, config, observe=observe) as compiled:
            results = compiled.run(data[0]).outputs
        wanted = Evaluator(graphs["simplify_integers"], prefer="definition").run(data[0])
        times = run_times(compiled.artifact)
        assert times is not None, "every operator has an estimate"
        row: Row = {
            "programs": len(compiled.artifact.programs),
            "cpu_over_accelerator": round(times.cpu / times.accelerator, 3),
            "accelerator_ms": round(1e3 * times.accelerator, 3),
            "cpu_ms": round(1e3 * times.cpu, 3),
            "handovers": times.handovers,
            "handover_ms": round(1e3 * times.handover, 3),
            "exact": int(all(np.array_equal(results[name], array) for name, array in wanted.items())),
        }
        networks.append((name, row, list(compiled.artifact.programs)))
    return networks
