# SPDX-License-Identifier: Apache-2.0
"""Values concatenated from parts, and the parts that a common scale would lose.

A concatenation of boxes in pixels and scores up to 1 gets a scale for the boxes, which rounds all
scores to 0 without affecting the signal-to-noise ratio of the whole. So each part is judged alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vdla.compiler.graph.graph import Graph, Node
from vdla.compiler.graph.integer.pools import is_spatial_mean
from vdla.compiler.graph.operators import Trait, has_trait
from vdla.compiler.graph.passes import is_movement
from vdla.compiler.graph.quantise.parameters import ActivationParameters, activation_parameters
from vdla.compiler.graph.quantise.plan import QuantisationPlan
from vdla.compiler.graph.quantise.ranges import METHODS
from vdla.compiler.graph.quantise.statistics import ValueStatistics

LEAST_DB = 20.0
"""A part below this ratio is lost: errors are a tenth of its values."""
_ONE_BIT_DB = 6.0


def parts_of(graph: Graph, name: str) -> tuple[str, ...]:
    """The values that are concatenated to a value; the value itself if none are."""
    parts: dict[str, None] = {}
    seen, pending = set(), [name]
    while pending:
        value = pending.pop()
        operands = _joined(graph, value)
        if not operands:
            parts[value] = None
        elif value not in seen:
            seen.add(value)
            pending.extend(reversed(operands))
    return tuple(parts)


def _joined(graph: Graph, name: str) -> tuple[str, ...]:
    """The operands of the concatenation of a value, through nodes that move, bound or average."""
    node = graph.producers.get(name)
    while node is not None and _is_transparent(graph, node):
        node = graph.producers.get(node.inputs[0])
    if node is None:
        return ()
    match node.op:
        case "Concat":
            return node.inputs
        case "Where":
            return node.inputs[1:]
        case "ScatterElements" | "ScatterND":
            return node.inputs[0], node.inputs[2]
        case "Pad":
            return node.inputs[0], *filter(None, node.inputs[2:3])
        case _:
            return ()


def _is_transparent(graph: Graph, node: Node) -> bool:
    """Whether a result has the same parts as the first input."""
    if has_trait(node.op, Trait.KEEPS_MAGNITUDE):
        return True
    return is_movement(graph, node) or is_spatial_mean(graph, node)


def mixed_values(
    graph: Graph, plan: QuantisationPlan, statistics: Mapping[str, ValueStatistics], method: str
) -> dict[str, str]:
    """The quantised values with a part that their scale would lose, and that part."""
    mixed: dict[str, str] = {}
    for value in plan.layer_values:
        parts, owner = parts_of(graph, value), plan.values[value]
        if len(parts) == 1 or owner in mixed or set(parts) != set(parts_of(graph, owner)):
            continue  # its scale belongs to a value that is judged itself
        scale = activation_parameters(METHODS[method](statistics[owner]))
        for part in parts:
            if _is_lost(statistics[part], statistics[value], scale, method) and not _is_scalar(graph, part):
                mixed.setdefault(value, part)
    return mixed


def _is_scalar(graph: Graph, name: str) -> bool:
    value = graph.constant(name)
    return value is not None and value.size == 1


def _is_lost(part: ValueStatistics, whole: ValueStatistics, shared: ActivationParameters, method: str) -> bool:
    """Whether a part keeps less than LEAST_DB, and a separate scale would gain a bit."""
    if not part.elements or part.low == part.high == 0:
        return False
    kept = _kept_db(part, whole, shared)
    separate = activation_parameters(METHODS[method](part))
    return kept < LEAST_DB and kept < _kept_db(part, whole, separate) - _ONE_BIT_DB


def _kept_db(part: ValueStatistics, whole: ValueStatistics, given: ActivationParameters) -> float:
    """The signal-to-noise ratio of a part, clipped to the range of the whole."""
    values = np.clip(part.centres, whole.low, whole.high)
    signal, noise = ((part.counts * samples**2).sum() for samples in (values, given.rounded(values) - values))
    return 10 * float(np.log10(max(signal, 1e-300) / max(noise, 1e-300)))
