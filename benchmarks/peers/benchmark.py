# SPDX-License-Identifier: Apache-2.0
"""Networks on pynq_z1 and kv260 beside published figures of DPU, FINN, hls4ml, VTA, Gemmini.

Networks have random weights and are quantised on random images; results are compared bit for bit
with the NumPy definitions of the integer operators. Cycles are exact; the frames a second of the
whole include the times of the CPU on the board and of handovers by their models. Resources are
estimates from synthesis with Yosys, whose first run takes minutes. `docs/peers.md` explains the
columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from vdla.benchmarks.harness import BenchmarkResult, Figures, Row, host_receipt, subjects_of
from vdla.benchmarks.network import offloaded_cycles, operator_rows
from vdla.benchmarks.peers.published import MACHINES, RUNS, SOURCES, PublishedRun
from vdla.boards.board import boards_by_preset
from vdla.compiler.graph import Graph
from vdla.hardware.config import Config
from vdla.hardware.fpga.area import area
from vdla.hardware.fpga.parts import part_of_preset
from vdla.networks.counts import macs
from vdla.networks.registry import Network, network
from vdla.runtime.executor.run_times import run_times
from vdla.runtime.network.compile_network import compile_network
from vdla.runtime.network.evaluator import Evaluator
from vdla.runtime.network.quantise import quantise
from vdla.support.progress import Progress, silent, steps

PRESETS = ("pynq_z1", "kv260")
MEASURED = ("resnet18", "mobilenet_v2", "yolo_v8n", "ds_cnn", "mobilenet_vww", "resnet8", "autoencoder")
EMPTY = ""
ON_CPU = "left to the CPU, which takes less time"


def run(progress: Progress = silent, seed: int = 0, subjects: Sequence[str] = ()) -> BenchmarkResult:
    """The networks `subjects`, or those of MEASURED, on both machines, beside their peers.

    Raises:
        SubjectError: a network is not one of MEASURED.
    """
    names = subjects_of("peers", "network", subjects, MEASURED)
    configs = [Config.preset(name) for name in PRESETS]
    resources = [_resources(config, progress) for config in configs]
    rows, programs = list[Row](), dict[str, str]()
    for name in steps(progress, names):
        ours, used = _measured(network(name), configs, seed)
        rows += [*ours, *(_published(run) for run in RUNS if run.network == name)]
        programs |= used
    figures: Figures = {}
    for row in rows:
        if row["exact"] != EMPTY:
            stem = f"{row['network']}_{row['machine'].removeprefix('VDLA ')}"
            columns = ("cycles", "frames_per_s", "whole_frames_per_s")
            figures |= {f"{stem}_{column}": row[column] for column in columns if row[column] != EMPTY}
    figures["all_exact"] = int(all(row["exact"] for row in rows if row["exact"] != EMPTY))
    peers = [{**asdict(machine), "uram": EMPTY, "fingerprint": EMPTY} for machine in MACHINES]
    receipt = host_receipt(
        seed,
        " ".join(["vdla bench peers", *subjects, f"--seed {seed}"]),
        configs={config.name: config.fingerprint for config in configs},
        programs=programs,
        sources=dict(SOURCES),
    )
    return BenchmarkResult("peers", figures, [*resources, *peers, *rows], receipt)


def _resources(config: Config, progress: Progress) -> Row:
    """The row of a machine of ours."""
    total = area(config, part_of_preset(config.name), progress).total
    return {
        "machine": f"VDLA {config.name}",
        "board": boards_by_preset()[config.name].name,
        "macs_per_cycle": config.batch * config.block_in * config.block_out,
        "lut": total.lut,
        "dsp": total.dsp,
        "bram36": total.bram36,
        "uram": total.uram,
        "source": EMPTY,
        "fingerprint": config.fingerprint,
    }


def _measured(subject: Network, configs: Sequence[Config], seed: int) -> tuple[list[Row], dict[str, str]]:
    """A row for each machine, and the hashes of the programs."""
    model = subject.build(seed=seed)
    gop = 2e-9 * macs(model)
    data = [subject.inputs(model, seed=seed + i) for i in range(3)]
    quantised = quantise(model, calibration=data[1:], method="minmax").graph
    rows, programs = [], dict[str, str]()
    for config in configs:
        graphs: dict[str, Graph] = {}

        def observe(name: str, _: Graph, after: Graph, graphs: dict[str, Graph] = graphs) -> None:
            graphs[name] = after

        with compile_network(quantised, config, observe=observe) as compiled:
            result = compiled.run(data[0])
        wanted = Evaluator(graphs["simplify_integers"], prefer="definition").run(data[0])
        times = run_times(compiled.artifact)
        whole = EMPTY if times is None else _digits(1 / times.total)
        rows.append(
            _row(subject.name, f"VDLA {config.name}", "int8")
            | {
                "clock_mhz": _digits(config.clock_mhz),
                "gop": _digits(gop),
                "cycles": result.cycles or EMPTY,
                "offloaded_cycles": offloaded_cycles(operator_rows(graphs["fuse"], result, config)) or EMPTY,
                "frames_per_s": _digits(1e6 * config.clock_mhz / result.cycles) if result.cycles else EMPTY,
                "whole_frames_per_s": whole,
                "gop_per_s": EMPTY if times is None else _digits(gop / times.total),
                "exact": int(all(np.array_equal(array, wanted[name]) for name, array in result.outputs.items())),
                "differs": EMPTY if result.cycles else ON_CPU,
            }
        )
        hashes = {program.name: program.hash for program in compiled.artifact.programs}
        programs |= {f"{subject.name} on {config.name}: {name}": value for name, value in hashes.items()}
    return rows, programs


def _row(name: str, machine: str, numbers: str) -> Row:
    """A row without figures; all rows have the same columns."""
    row: Row = {"network": name, "machine": machine, "numbers": numbers}
    columns = ("clock_mhz", "gop", "cycles", "offloaded_cycles", "frames_per_s", "whole_frames_per_s", "gop_per_s")
    return row | dict.fromkeys((*columns, "exact", "differs", "source"), EMPTY)


def _published(run: PublishedRun) -> Row:
    """The row of a peer, whose frames a second are of the whole."""
    figures = {
        "clock_mhz": run.clock_mhz,
        "gop": run.gop,
        "cycles": run.cycles,
        "offloaded_cycles": run.offloaded_cycles,
        "whole_frames_per_s": run.frames_per_s,
    }
    row = _row(run.network, run.machine, run.numbers)
    row |= {name: value for name, value in figures.items() if value is not None}
    if run.gop is not None and run.frames_per_s is not None:
        row["gop_per_s"] = _digits(run.gop * run.frames_per_s)
    return row | {"differs": run.differs, "source": run.source}


def _digits(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")
