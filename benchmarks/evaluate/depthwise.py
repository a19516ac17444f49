"""The depthwise example on the layers of MobileNet: what it is worth, and what it could be at most.

No program of any instruction takes fewer cycles than to read the operands of a layer once, or to
write its results; the speed-up of such a program is the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from pathlib import Path

from vdla.benchmarks.harness import Progress
from vdla.hardware.config import Config
from vdla.runtime.studies.layers import layers_named
from vdla.runtime.studies.verdict import LayerVerdict, evaluate

LAYERS = ("D1-D9",)
PRESETS = ("pynq_z1", "ultra96")


def speedups(source: Path, progress: Progress, names: Sequence[str] = LAYERS) -> dict[str, float]:
    """For each preset the geometric means over layers of cycles before over after, and of their
    bounds.
    """
    figures = {}
    for number, preset in enumerate(PRESETS):
        progress(f"depthwise on {preset}", number, len(PRESETS))
        layers = evaluate(str(source), layers_named(names), Config.preset(preset)).layers
        figures[f"depthwise_speedup_{preset}"] = _mean([layer.speedup or 1.0 for layer in layers])
        figures[f"depthwise_bound_{preset}"] = _mean([_bound(layer) for layer in layers])
    return figures


def _bound(layer: LayerVerdict) -> float:
    assert layer.before.cost is not None, "every machine has a vector unit"
    return layer.before.cost.cycles / layer.least_cycles


def _mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return round(float(prod(values) ** (1 / len(values))), 3)
