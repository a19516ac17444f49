# SPDX-License-Identifier: Apache-2.0
"""The public functions of the importer; each loads `onnx` when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.compiler.graph.check import check_graph
from vdla.compiler.graph.graph import Array, Extent, Graph, Node, TensorType, ValueType
from vdla.compiler.graph.onnx.errors import OnnxError
from vdla.support.symbolic_shapes import Declared, Shape, numbers_of, with_names

if TYPE_CHECKING:
    import onnx

_ROUNDS = 16  # of expansions of functions in functions


def import_model(
    source: onnx.ModelProto | bytes | str | Path,
    *,
    extents: Mapping[str, int] | None = None,
    shapes: Mapping[str, Shape] | None = None,
    name: str | None = None,
) -> Graph:
    """The graph of a model, its operators at opset `OPSET`.

    `source` is a file, its content, or a model in memory. `extents` gives numbers to symbols in the
    shapes of the inputs, such as {"batch": 1}, `shapes` has shapes of inputs, such as
    {"x": (1, 3, 48, 192)}; other symbols stay. Initialisers become constants,
    also those that the model lists as inputs with defaults. Functions of the model are inlined, and
    operators without an implementation of their own are replaced by ONNX's definition where there
    is one.

    Raises:
        OnnxError: the model is corrupt or contradicts itself, or `onnx` is not installed.
        UnsupportedError: the model has unsupported nodes; the error lists all of them. OSError: the
        file cannot be read.
    """
    _require_onnx("import_model")
    from vdla.compiler.graph.onnx.build import build_graph
    from vdla.compiler.graph.onnx.functions import expand_functions
    from vdla.compiler.graph.onnx.infer import infer_types
    from vdla.compiler.graph.onnx.load import load_model
    from vdla.compiler.graph.onnx.operand_rules import check_operands
    from vdla.compiler.graph.onnx.support import check_supported
    from vdla.compiler.graph.onnx.upgrade import upgrade_model

    loaded = load_model(source, name=name, extents=extents or {}, shapes=shapes or {})
    loaded = upgrade_model(loaded)
    check_supported(loaded)
    loaded = infer_types(loaded)
    for _ in range(_ROUNDS):
        expanded = expand_functions(loaded)
        if expanded is loaded:
            break
        check_supported(expanded)
        loaded = infer_types(expanded)
    graph = check_graph(build_graph(loaded), "import of")
    check_operands(graph)
    return graph


def infer_graph_types(graph: Graph) -> Graph:
    """The graph with the types that follow from those of its inputs and constants.

    Types that cannot be inferred lose their extents, as these may have changed.

    Raises:
        OnnxError: shapes or element types contradict each other, or `onnx` is not installed.
    """
    _require_onnx("infer_graph_types")
    from vdla.compiler.graph.onnx.infer import inferred

    return inferred(graph)


def infer_node_types(
    node: Node, types: Mapping[str, ValueType], constants: Mapping[str, Array]
) -> Mapping[str, ValueType]:
    """The types of a node's results, inferred from the types and constants of its inputs.

    None where ONNX has no such operator, or where the inputs contradict each other: a run says so.

    Raises:
        OnnxError: `onnx` is not installed.
    """
    _require_onnx("infer_node_types")
    from vdla.compiler.graph.onnx.infer import inferred_of_node

    return inferred_of_node(node, types, constants)


def specialise(graph: Graph, extents: Mapping[str, int], shapes: Mapping[str, Shape] | None = None) -> Graph:
    """The graph with numbers in place of symbols, such as {"batch": 4}, in all types.

    `shapes` has shapes of inputs, such as {"x": (4, 3, 8, 8)}.

    Raises:
        OnnxError: a symbol or an input that the graph has not, or numbers that contradict it.
    """
    given = {symbol for name in graph.inputs for symbol in _symbols(graph, name)}
    unknown = sorted(set(extents) - given)
    if unknown:
        known = ", ".join(sorted(given)) or "none"
        raise OnnxError(f"{graph.name}: extents must name symbols of the inputs ({known}), got {', '.join(unknown)}")
    named = with_names(graph.name, shapes or {}, graph.inputs, OnnxError)
    numbers = numbers_of(graph.name, input_shapes(graph), named, OnnxError, extents)
    types = {**graph.types}
    for name in graph.inputs:
        kind = types[name]
        if isinstance(kind, TensorType):
            types[name] = replace(kind, shape=_numbered(kind.shape, numbers, named.get(name)))
    return infer_graph_types(replace(graph, types=types))


def input_shapes(graph: Graph) -> dict[str, Declared]:
    """The extents of the inputs of a graph; None for any rank, or what is no tensor."""
    kinds = {name: graph.types[name] for name in graph.inputs}
    return {name: kind.shape if isinstance(kind, TensorType) else None for name, kind in kinds.items()}


def _numbered(
    shape: tuple[Extent, ...] | None, numbers: Mapping[str, int], given: Shape | None
) -> tuple[Extent, ...] | None:
    """A shape with numbers in place of symbols; that which is `given` for an input."""
    if given is not None or shape is None:
        return given
    return tuple(numbers.get(extent, extent) if isinstance(extent, str) else extent for extent in shape)


def _symbols(graph: Graph, name: str) -> tuple[str, ...]:
    kind = graph.types[name]
    return kind.symbols if isinstance(kind, TensorType) else ()


def _require_onnx(where: str) -> None:
    if find_spec("onnx") is None:
        raise OnnxError(f"{where}: onnx must be installed (pip install onnx), got no such package")
