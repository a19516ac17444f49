# SPDX-License-Identifier: Apache-2.0
"""The error of parts of values: inputs of concatenations, channels of outputs.

A part of small values can be lost while the ratio of the whole, which great values make, is good.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from vdla.compiler.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.quantise import LEAST_DB, QuantisationPlan, QuantisedParameters


@dataclass(slots=True)
class Ratio:
    """Sums of signal and noise: 10 log10(sum x^2 / sum (x' - x)^2) dB of x' for x."""

    signal: float = 0.0
    noise: float = 0.0

    def add(self, exact: Array, values: Array) -> None:
        """Adds a batch."""
        wide = exact.astype(np.float64)
        self.signal += float((wide**2).sum())
        self.noise += float(((values.astype(np.float64) - wide) ** 2).sum())

    @property
    def db(self) -> float:
        """The ratio; infinite without noise."""
        if not self.noise:
            return float("inf")
        return 10 * float(np.log10(max(self.signal, 1e-300) / self.noise))


Runs = Sequence[Mapping[str, Array]]
_HIDDEN_DB = 10.0  # below the whole: less is what channels differ by anyway
_LEAST_ELEMENTS = 16  # of a channel: fewer can be small by chance
_MOST_RANGES = 4  # of indices in a sentence


@dataclass(frozen=True, slots=True)
class PartReport:
    """`snr_db` of a part of a value, and `whole_db` of all of it."""

    value: str
    part: str
    snr_db: float
    whole_db: float

    @property
    def is_lost(self) -> bool:
        """Whether the part has an error of a tenth or more that the ratio of the whole hides."""
        return self.snr_db < min(LEAST_DB, self.whole_db - _HIDDEN_DB)

    def __str__(self) -> str:
        ratios = f"{self.snr_db:.1f} dB in {self.part}, where the whole has {self.whole_db:.1f} dB"
        return f"{self.value}: {ratios}; keep the layers that make it float"


def concatenations(graph: Graph, plan: QuantisationPlan) -> dict[str, Node]:
    """The concatenations of a float graph, by the value that shows their error."""
    results = {id(layer.node): layer.result for layer in plan.layers}
    return {
        results.get(id(node), node.outputs[0]): node
        for node in graph.nodes
        if node.op == "Concat"
        and isinstance(kind := graph.types.get(node.outputs[0]), TensorType)
        and kind.dtype == "float32"
    }


def parts_of_concatenations(joined: Mapping[str, Node], exact: Runs, runs: Runs) -> Iterator[PartReport]:
    """Every input of every concatenation that is not 0."""
    for value, node in joined.items():
        parts = {name: Ratio() for name in node.inputs}
        whole = Ratio()
        for one, other in zip(exact, runs, strict=True):
            whole.add(one[value], other[value])
            axis = int(node.attributes["axis"])
            ends = np.cumsum([one[name].shape[axis] for name in node.inputs])[:-1]
            pairs = (np.split(array, ends, axis) for array in (one[value], other[value]))
            for name, before, after in zip(node.inputs, *pairs, strict=True):
                parts[name].add(before, after)
        yield from (PartReport(value, f"input {name}", r.db, whole.db) for name, r in parts.items() if r.signal)


@dataclass(slots=True)
class _Channels:
    """Signal and noise for each index of one axis, each over `elements` elements."""

    signal: Array = field(default_factory=lambda: np.zeros(1))
    noise: Array = field(default_factory=lambda: np.zeros(1))
    elements: int = 0

    def add(self, exact: Array, values: Array, axis: int) -> None:
        """Adds a batch."""
        wide, others = exact.astype(np.float64), tuple(d for d in range(exact.ndim) if d != axis)
        self.signal = self.signal + (wide**2).sum(axis=others)
        self.noise = self.noise + ((values.astype(np.float64) - wide) ** 2).sum(axis=others)
        self.elements += wide.size // max(1, wide.shape[axis])


def lost_channels(outputs: Sequence[str], exact: Runs, runs: Runs) -> Iterator[PartReport]:
    """For each output the channels that are lost, along dimension 1 or the last one."""
    for name in outputs:
        shapes = {one[name].shape[1:] for one in exact}
        shape = shapes.pop()
        if shapes or not np.issubdtype(exact[0][name].dtype, np.floating):
            continue
        for axis in dict.fromkeys(axis for axis in (1, len(shape)) if shape):
            channels = _Channels()
            for one, other in zip(exact, runs, strict=True):
                channels.add(one[name], other[name], axis)
            if channels.elements >= _LEAST_ELEMENTS:
                yield from _lost(name, axis, channels)


def channels_lost_to_scales(plan: QuantisationPlan, parameters: QuantisedParameters, exact: Runs) -> list[PartReport]:
    """The channels of quantised outputs that the scale of the whole loses, whatever else does."""
    scales = {name: parameters.activations[plan.values[name]] for name in exact[0] if name in plan.values}
    rounded_runs = [{name: scale.rounded(run[name]) for name, scale in scales.items()} for run in exact]
    return [part for part in lost_channels(list(scales), exact, rounded_runs) if part.is_lost]


def _lost(name: str, axis: int, channels: _Channels) -> Iterator[PartReport]:
    """The lost channels of one axis as one part."""
    whole = Ratio(float(channels.signal.sum()), float(channels.noise.sum())).db
    channel_reports = [
        PartReport(name, "", Ratio(float(signal), float(noise)).db, whole)
        for signal, noise in zip(channels.signal, channels.noise, strict=True)
    ]
    lost = [i for i, part in enumerate(channel_reports) if part.is_lost and channels.signal[i]]
    if lost:
        ratio = Ratio(float(channels.signal[lost].sum()), float(channels.noise[lost].sum()))
        noun = "channels" if len(lost) > 1 else "channel"
        yield PartReport(name, f"{noun} {indices(lost)} of dimension {axis}", ratio.db, whole)


def indices(values: Sequence[int]) -> str:
    """Indices in order as ranges: 0, 4 to 83."""
    ends = [i for i, value in enumerate(values) if i + 1 == len(values) or values[i + 1] != value + 1]
    ranges, start = [], 0
    for end in ends:
        first, last = values[start], values[end]
        ranges.append(f"{first}" if first == last else f"{first} to {last}")
        start = end + 1
    return ", ".join(ranges) if len(ranges) <= _MOST_RANGES else f"{', '.join(ranges[:_MOST_RANGES])} and others"
