# SPDX-License-Identifier: Apache-2.0
"""The choice of the method of calibration by what two quantised networks lose on the same data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.compiler.graph import Array, Graph
from vdla.runtime.network.batches import Batch
from vdla.runtime.network.part_reports import Ratio
from vdla.runtime.network.quantisation_report import quantised_runs

AUTO = "auto"
"""The default method: minmax, or mse if that is better by MARGIN_DB."""
CANDIDATES = ("minmax", "mse")
MARGIN_DB = 0.5
"""Less is what methods differ by on few samples by chance; clipped ranges can lose other data."""
_MOST_DB = 60.0  # beyond it, errors are those of float32 for all purposes

Outputs = Sequence[Mapping[str, object]]


def gain_db(before: Graph, after: Graph, samples: Sequence[Batch], exact: Outputs) -> float:
    """By how many dB the outputs of one QDQ network are nearer to exact ones than those of another.

    The mean over all outputs; 0 without any that can be compared.
    """
    names = before.outputs
    runs = [quantised_runs(graph, samples, names) for graph in (before, after)]
    gains = [ratio_db(name, exact, runs[1]) - ratio_db(name, exact, runs[0]) for name in names]
    return float(np.mean(gains)) if gains else 0.0


def ratio_db(name: str, exact: Outputs, runs: Outputs) -> float:
    """The signal-to-noise ratio of an output, from 0 to 60 dB; of integers, by how many are equal.

    An output of another shape than the exact one has 0 dB.
    """
    ratio = Ratio()
    for one, other in zip(exact, runs, strict=True):
        value, result = one[name], other[name]
        if not isinstance(value, np.ndarray) or not isinstance(result, np.ndarray):
            continue  # sequences
        if value.shape != result.shape:
            ratio.add(np.ones(1), np.zeros(1))
        else:
            ratio.add(*_compared(value, result))
    return min(max(ratio.db, 0.0), _MOST_DB)


def _compared(value: Array, result: Array) -> tuple[Array, Array]:
    if value.dtype.kind != "f":
        return np.ones(value.shape), np.equal(value, result).astype(np.float64)
    finite = np.isfinite(value) & np.isfinite(result)
    return value[finite], result[finite]
