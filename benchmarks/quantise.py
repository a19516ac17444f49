# SPDX-License-Identifier: Apache-2.0
"""Quantised networks against float ones: accuracy on the digits, signal to noise of all networks.

`top1_loss_points` compares integer and float results on held-out images; calibration sees training
images only. The other networks have random weights and are the small variants for tests.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vdla.benchmarks.harness import BenchmarkResult, Figures, Row, host_receipt
from vdla.compiler.graph import Graph
from vdla.compiler.graph.passes import fuse_qdq
from vdla.compiler.graph.quantise import METHODS
from vdla.networks.digits import digits
from vdla.networks.digits_images import LabelledImages, held_out_digits, training_digits
from vdla.networks.registry import NETWORKS, Network
from vdla.runtime.network.evaluate_nodes import evaluate_node
from vdla.runtime.network.evaluator import Evaluator
from vdla.runtime.network.method_choice import AUTO
from vdla.runtime.network.quantisation_report import snr_db
from vdla.runtime.network.quantise import quantise
from vdla.support.progress import Progress, numbered, silent

_BATCH = 100  # divides the 600 held-out images
_CALIBRATION = 1000  # training images
_SMALL_BATCH, _SMALL_BATCHES = 4, 32  # of the networks of random weights, whose values have long tails


def run(progress: Progress = silent, seed: int = 0) -> BenchmarkResult:
    """All methods on the digits, the default method on every other network."""
    others = [network for name, network in NETWORKS.items() if name != "digits"]
    losses: Figures = {}
    rows: list[Row] = []
    ratios: list[float] = []
    held, step = held_out_digits(), numbered(progress, len(METHODS) + 1 + len(others))

    def add_row(name: str, method: str, float_top1: float | str, int8_top1: float | str, ratio_db: float) -> None:
        row = {"network": name, "method": method, "float_top1": float_top1, "int8_top1": int8_top1}
        rows.append({**row, "snr_db": round(ratio_db, 2)})

    for method in (*METHODS, AUTO):
        step(f"digits {method}")
        float_top1, int8_top1, ratio_db = _digits(held, method)
        losses[method] = 100 * (float_top1 - int8_top1)
        add_row("digits", method, float_top1, int8_top1, ratio_db)
    for network in others:
        step(network.name)
        method, ratio_db = _ratio_db(network, seed)
        ratios.append(ratio_db)
        add_row(network.name, method, "", "", ratio_db)
    step("done")
    figures = {
        "top1_loss_points": round(losses[AUTO], 3),
        "worst_loss_points": round(max(losses.values()), 3),
        "mean_snr_db": round(float(np.mean(ratios)), 2),
    }
    return BenchmarkResult("quantise", figures, rows, host_receipt(seed, "vdla bench quantise --json -"))


def _digits(held: LabelledImages, method: str) -> tuple[float, float, float]:
    """The accuracy of the float network and of the integer one, and the ratio of their logits."""
    made = quantise(digits(batch=_BATCH), calibration=training_digits().images[:_CALIBRATION], method=method)
    exact, quantised = _logits(made.float_graph, held), _logits(_integer(made.graph), held)
    return held.top1(exact), held.top1(quantised), snr_db({"logits": exact}, {"logits": quantised})


def _logits(graph: Graph, held: LabelledImages) -> NDArray[np.float32]:
    evaluator = Evaluator(graph, prefer="numpy")
    parts = np.split(held.images, len(held.images) // _BATCH)
    return np.concatenate([evaluator.run({"image": part})["logits"] for part in parts])


def _ratio_db(network: Network, seed: int) -> tuple[str, float]:
    """The chosen method, and the signal-to-noise ratio of outputs on data that calibration has not
    seen.
    """
    model = network.build(batch=_SMALL_BATCH, seed=seed, **network.small)
    data = [network.inputs(model, _SMALL_BATCH, seed + i) for i in range(_SMALL_BATCHES + 1)]
    made = quantise(model, calibration=data[1:])
    exact, quantised = (Evaluator(g, prefer="numpy").run(data[0]) for g in (made.float_graph, _integer(made.graph)))
    return made.method, snr_db(exact, quantised)


def _integer(graph: Graph) -> Graph:
    return fuse_qdq(graph, lambda node, inputs: evaluate_node(node, inputs, prefer="numpy"))
