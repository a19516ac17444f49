# SPDX-License-Identifier: Apache-2.0
"""Calibration data as batches of inputs by name, in the sizes that the graph takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.graph import Array, Graph
from vdla.compiler.graph.onnx.import_model import input_shapes
from vdla.compiler.graph.quantise import QuantiseError
from vdla.runtime.network.targets import ShapeSet
from vdla.support.symbolic_shapes import Shape, numbers_of

Batch = dict[str, npt.NDArray[Any]]
Calibration = Any  # an array, arrays by name, or an iterable of these


def kept_data(calibration: Calibration) -> Calibration:
    """The data, in a list if they can be read only once."""
    return list(calibration) if isinstance(calibration, Iterator) else calibration


def sets_of_data(graph: Graph, calibration: Calibration) -> list[ShapeSet]:
    """The shapes of calibration data, for one sample: an open extent of a first axis is 1.

    None where the graph has known shapes, or the data have others.
    """
    shapes, declared = dict[str, Shape](), input_shapes(graph)
    if all(shape is not None and all(isinstance(extent, int) for extent in shape) for shape in declared.values()):
        return []
    for name, value in next(batches(graph, calibration), {}).items():
        given, axes = tuple(map(int, value.shape)), declared[name] or (None,)
        shapes[name] = (1, *given[1:]) if given and axes and not isinstance(axes[0], int) else given
    try:
        numbers_of(graph.name, declared, shapes, QuantiseError)
    except QuantiseError:  # a symbol of a first axis is one of another axis, too
        return []
    return [ShapeSet(shapes=shapes)] if shapes else []


def batches(graph: Graph, calibration: Calibration) -> Iterator[Batch]:
    """The batches; one with a multiple of the graph's batch size is several.

    Raises:
        QuantiseError: data of another kind, or inputs that are missing or unknown.
    """
    if isinstance(calibration, str | bytes) or not isinstance(calibration, Iterable):
        rule = "calibration must be an array, arrays by name, or an iterable of these"
        raise QuantiseError(f"quantise: {rule}, got {type(calibration).__name__}")
    parts = [calibration] if isinstance(calibration, Mapping | np.ndarray) else calibration
    for part in parts:
        yield from _in_size(graph, _named(graph, part))


def _named(graph: Graph, part: object) -> dict[str, Array]:
    if isinstance(part, Mapping):
        given = {str(name): np.asarray(value) for name, value in part.items()}
    elif isinstance(part, tuple | list):
        given = dict(zip(graph.inputs, map(np.asarray, part), strict=False))
    else:
        given = {graph.inputs[0]: np.asarray(part)} if graph.inputs else {}
    if set(given) != set(graph.inputs):
        wanted, got = ", ".join(graph.inputs), ", ".join(given)
        raise QuantiseError(f"quantise: every batch of calibration must have the inputs {wanted}, got {got}")
    return given


def _in_size(graph: Graph, given: dict[str, Array]) -> Iterator[Batch]:
    """The batch, or as many as fit into it."""
    counts = {_times(graph, name, value) for name, value in given.items()}
    [count] = counts if len(counts) == 1 else {1}
    for i in range(count):
        yield {name: value if count == 1 else np.split(value, count)[i] for name, value in given.items()}


def _times(graph: Graph, name: str, value: Array) -> int:
    """How many inputs of the graph's shape an array holds along dimension 0."""
    shape = graph.tensor(name).shape
    if not shape or not value.ndim or not isinstance(shape[0], int) or not shape[0] or len(value) % shape[0]:
        return 1
    return max(len(value) // shape[0], 1)
