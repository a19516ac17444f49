# SPDX-License-Identifier: Apache-2.0
"""Figures 10, 12 and 21: the accelerator's roofline, searches of its schedules, offloading."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from vdla.benchmarks import layers
from vdla.benchmarks.harness import Row, total
from vdla.benchmarks.network import measure as measure_network
from vdla.benchmarks.paper.figure import PaperClaim, PaperMeasurement, bars
from vdla.benchmarks.tune.pool import PoolTask, measured_pool, median_trials, replay
from vdla.charts.plots import Roof, roofline
from vdla.compiler.graph.accelerator import board_cpu, seconds_of
from vdla.compiler.operators.workloads import resnet18_layers, workload
from vdla.compiler.tune import layer_task
from vdla.compiler.tune.searches import DEFAULT_SEARCH
from vdla.hardware.config import Config
from vdla.networks.registry import network
from vdla.runtime.diagnosis.layers import layer_operator, measure
from vdla.simulator.stats import attained_gops, intensity
from vdla.support.progress import Progress, steps

PRESET = "pynq_z1"
_CONVOLUTION = "vdla.QConv"
_POINTS, _FEW_POINTS, _SEEDS = 500, 60, 5
_SEARCHES = {DEFAULT_SEARCH: "learned", "genetic": "genetic", "random": "random"}


def latency_hiding(progress: Progress, seed: int, small: bool) -> PaperMeasurement:
    """ResNet-18's layers on the roofline, with one and with two virtual threads."""
    config, chosen = Config.preset(PRESET), resnet18_layers()
    rows, points, links = [], [], []
    roof = Roof.of(config, config.macs_per_cycle)
    for layer in steps(progress, chosen[-2:] if small else chosen):
        two, one = (measure(layer, layer_operator(layer, config, threads), seed) for threads in (2, 1))
        rows.append(layers.row(layer, config, two, one) | {"utilisation_one_thread": round(one.stats.utilisation, 4)})
        pair = [
            roof.point(f"{layer.name}, {name}", intensity(run.stats), attained_gops(run.stats), class_, shown)
            for name, run, class_, shown in (("one thread", one, "before", ""), ("two", two, "after", layer.name))
        ]
        points += pair
        links.append((pair[0], pair[1]))
    claims = (
        PaperClaim("peak utilisation with latency hiding", "0.88", max(row["utilisation"] for row in rows), 0.88),
        PaperClaim("gain of the peak utilisation by it", "0.18", _gain(rows), 0.18),
        PaperClaim("latency hiding helps every layer (least speedup)", "> 1", _least_speedup(rows), 1.0),
    )
    title = f"ResNet-18 on {PRESET}: one virtual thread (blue), and two (orange)"
    return PaperMeasurement(rows, claims, roofline([roof], points, links, title), {"config": PRESET})


def _gain(rows: list[Row]) -> float:
    two, one = (max(row[column] for row in rows) for column in ("utilisation", "utilisation_one_thread"))
    return float(two - one)


def _least_speedup(rows: list[Row]) -> float:
    return float(min(row["cycles_one_thread"] / row["cycles"] for row in rows))


def searches(progress: Progress, seed: int, small: bool) -> PaperMeasurement:
    """Trials until a search comes within one percent of the best known schedule."""
    names, points = (("C5",), _FEW_POINTS) if small else (("C5", "C8", "C10"), _POINTS)
    rows = []
    for name in steps(progress, names):
        pool = measured_pool(layer_task(workload(name), Config.preset(PRESET), raw=True), points, seed)
        trials = {
            label: median_trials([replay(search, PoolTask(pool), seed + n) for n in range(_SEEDS)])
            for search, label in _SEARCHES.items()
        }
        rows.append({"layer": name, **trials})
    learned = total(rows, "learned")
    claims = [
        PaperClaim(
            f"trials of {label} search over those of the learned model", "> 1", total(rows, label) / learned, 1.0
        )
        for label in ("genetic", "random")
    ]
    title = f"trials until within 1 % of the best, {PRESET}"
    picture = bars(title, "trials", rows, "layer", {label: label for label in _SEARCHES.values()})
    return PaperMeasurement(rows, claims, picture, {"config": PRESET, "points": points, "runs": _SEEDS})


def offloading(progress: Progress, seed: int, small: bool) -> PaperMeasurement:
    """ResNet-18's products on the board's CPU, by its model, and on the accelerator."""
    config, subject = Config.preset(PRESET), network("resnet18")
    if small:
        subject = replace(subject, build=partial(subject.build, **subject.small))
    progress("ResNet-18", 0, 1)
    _, operators, _ = measure_network(subject, config, seed)
    cpu = board_cpu(config)
    parts: dict[str, Row] = {}
    for n, row in enumerate(row for row in operators if row["macs"]):
        part = (
            "first convolution" if n == 0 else "other convolutions" if row["op"] == "vdla.QConv" else "other products"
        )
        entry = parts.setdefault(part, {"part": part, "cpu_ms": 0.0, "accelerator_ms": 0.0})
        entry["cpu_ms"] += 1e3 * cpu.seconds(row["macs"], 0)
        entry["accelerator_ms"] += 1e3 * seconds_of(row["cycles"], config)
    rows = list(parts.values())
    offloaded = parts["other convolutions"]
    claims = (
        PaperClaim(
            "speedup of the offloaded convolutions", "40", offloaded["cpu_ms"] / offloaded["accelerator_ms"], 40.0
        ),
    )
    title = f"ResNet-18: time on the board's CPU, estimated, and on {PRESET}"
    picture = bars(title, "ms", rows, "part", {"accelerator_ms": PRESET, "cpu_ms": "CPU"})
    return PaperMeasurement(rows, claims, picture, {"config": PRESET, "cpu_model": repr(cpu)})
