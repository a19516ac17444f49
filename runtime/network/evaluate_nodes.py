# SPDX-License-Identifier: Apache-2.0
"""The passes that every network goes through first, with our kernels and functions to fold with."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cache

import numpy as np

from vdla.compiler.graph import Array, Graph, GraphError, Node, TensorType, ValueType
from vdla.compiler.graph.onnx import infer_node_types
from vdla.compiler.graph.operators import Trait, has_expression, has_trait
from vdla.compiler.graph.passes import (
    GraphPass,
    expand_tabular,
    fold_batch_norm,
    fold_constants,
    map_scans,
    merge_common_subexpressions,
    settle_empties,
    simplify,
)
from vdla.compiler.graph.passes.fuse_qdq import fuse_qdq, prepared
from vdla.compiler.graph.passes.plain_layers import plain_layers
from vdla.compiler.graph.rules import DeclinedError
from vdla.runtime.network.node_kernels import KernelCache, node_kernel
from vdla.runtime.numpy_operators import FUNCTIONS, Value
from vdla.runtime.numpy_operators.blocked import ChannelBlocks, call_in_layouts


class EvaluationError(GraphError):
    """Inputs that a graph refuses, or a node that cannot be evaluated on them."""


_SMALL_ELEMENTS = 4096
_PARAMETER_ELEMENTS = 64


class Prefer(Enum):
    """What runs a node that has both a rule and a NumPy function."""

    KERNEL = "kernel"
    NUMPY = "numpy"
    SIZE = "size"  # a kernel if the node has more than 4,096 elements
    DEFINITION = "definition"  # the definitions of integer operators, which are NumPy's; a kernel of others


@cache
def shared_cache() -> KernelCache:
    """The kernels of this process."""
    return KernelCache()


def evaluate_node(
    node: Node,
    inputs: Sequence[Value],
    constant: Sequence[bool] | None = None,
    types: Sequence[ValueType | None] | None = None,
    input_types: Sequence[ValueType | None] | None = None,
    *,
    prefer: Prefer | str = Prefer.KERNEL,
    kernels: KernelCache | None = None,
) -> tuple[Value, ...]:
    """The results of a node without bodies; `constant` says which inputs never change.

    `types` are those of the results, and `input_types` those of the inputs, where known; they say
    which images are in blocks of channels.

    Raises:
        EvaluationError: nothing evaluates the node on these inputs.
    """
    kinds = tuple(types) if types is not None else (None,) * len(node.outputs)
    given = tuple(input_types) if input_types is not None else (None,) * len(inputs)
    layouts = layouts_of(given), layouts_of(kinds)
    fixed = tuple(constant) if constant is not None else (True,) * len(inputs)
    store = kernels if kernels is not None else shared_cache()
    function = FUNCTIONS.get(node.op)
    by_kernel = has_expression(node.op) and _by_kernel(Prefer(prefer), node, inputs)
    if function is not None and not by_kernel:
        return _by_function(node, inputs, *layouts)
    try:
        return _by_expression(node, inputs, fixed, (given, kinds), store, interpreted=not by_kernel)
    except DeclinedError as error:
        if function is None:
            raise EvaluationError(str(error)) from error
        return _by_function(node, inputs, *layouts)


def _by_kernel(prefer: Prefer, node: Node, inputs: Sequence[Value]) -> bool:
    if prefer is Prefer.DEFINITION:
        return not node.op.startswith("vdla.")
    if prefer is Prefer.SIZE:
        return sum(value.size for value in inputs if isinstance(value, np.ndarray)) > _SMALL_ELEMENTS
    return prefer is Prefer.KERNEL


def layouts_of(types: Sequence[ValueType | None]) -> list[ChannelBlocks | None]:
    """The layouts of values in blocks of channels; None for others."""
    return [
        ChannelBlocks(kind.extents[1], kind.lanes, kind.dtype) if isinstance(kind, TensorType) and kind.lanes else None
        for kind in types
    ]


def _by_function(
    node: Node, inputs: Sequence[Value], given: Sequence[ChannelBlocks | None], made: Sequence[ChannelBlocks | None]
) -> tuple[Value, ...]:
    try:
        with np.errstate(all="ignore"):
            results = call_in_layouts(FUNCTIONS[node.op], node.attributes, inputs, given, made)
    except (ValueError, IndexError, KeyError, TypeError, ArithmeticError, MemoryError) as error:
        raise EvaluationError(f"{node.label}: {error}") from error
    return tuple(np.asarray(value) if isinstance(value, np.generic) else value for value in results)


def _by_expression(
    node: Node,
    inputs: Sequence[Value],
    constant: Sequence[bool],
    types: tuple[Sequence[ValueType | None], Sequence[ValueType | None]],
    kernels: KernelCache,
    *,
    interpreted: bool,
) -> tuple[Value, ...]:
    """The results of the node's expression; parameters, such as axes, may be values of the call.

    `types` are those of the inputs and of the results.
    """
    arrays: list[Array | None] = []
    for value in inputs:
        if value is not None and not isinstance(value, np.ndarray):
            raise DeclinedError(f"{node.label}: inputs must be tensors, got a {type(value).__name__}")
        arrays.append(value)
    given, kinds = ([kind if isinstance(kind, TensorType) else None for kind in row] for row in types)
    if not any(kinds) and has_trait(node.op, Trait.FUNCTION):
        kinds = [_function_type(arrays)]
    if not any(kinds) and node.outputs:
        raise DeclinedError(f"{node.label}: results must be tensors, got other values")
    try:
        kernel = node_kernel(node, arrays, constant, given, kinds, kernels, interpreted=interpreted)
    except DeclinedError:
        widened = [fixed or _is_parameter(array) for fixed, array in zip(constant, arrays, strict=True)]
        if widened == list(constant):
            raise
        kernel = node_kernel(node, arrays, widened, given, kinds, kernels, interpreted=interpreted)
    results = iter(kernel(arrays))
    return tuple(next(results) if name else None for name in node.outputs)


def _function_type(arrays: Sequence[Array | None]) -> TensorType:
    """The type of the result of an element-wise function of floats."""
    present = [array for array in arrays if array is not None]
    return TensorType(present[0].dtype.name, np.broadcast_shapes(*(array.shape for array in present)))


def _is_parameter(array: Array | None) -> bool:
    return array is not None and array.size <= _PARAMETER_ELEMENTS and array.ndim <= 1 and array.dtype.kind in "iufb"


def _evaluate(node: Node, inputs: Sequence[Array | None]) -> Sequence[Array]:
    return evaluate_node(node, inputs, prefer="numpy")


def _fold(graph: Graph) -> Graph:
    """The graph with constants folded; shapes that these decide may show values without elements,
    which are further constants.
    """
    while True:
        folded = fold_constants(graph, _evaluate, infer=infer_node_types)
        graph = settle_empties(folded)
        if graph is folded:
            return folded


def _fold_all(graph: Graph) -> Graph:
    return fold_constants(graph, _evaluate, keep=(), infer=infer_node_types)


PREPARATION = (
    GraphPass("settle_empties", settle_empties),
    GraphPass("fold_constants", _fold),
    GraphPass("simplify", simplify),
    GraphPass("plain_layers", plain_layers),
    GraphPass("fold_batch_norm", fold_batch_norm),
    GraphPass("merge_common_subexpressions", merge_common_subexpressions),
)
"""The passes that keep a float network as it is, in order."""

INTEGER = (
    GraphPass("map_scans", lambda graph: map_scans(graph, infer_node_types)),
    GraphPass("expand_tabular", lambda graph: expand_tabular(graph, infer_node_types)),
    GraphPass("move_quantisation", prepared),
    GraphPass("fuse_qdq", lambda graph: fuse_qdq(graph, _evaluate)),
    GraphPass("fold_quantised_constants", _fold_all),
    GraphPass("simplify_integers", simplify),
)
"""The passes that make integer operators of a quantised network."""

REGIONS = (
    GraphPass("simplify_regions", simplify),
    GraphPass("fold_packed_constants", _fold_all),
)
"""The passes after nodes are placed on the accelerator."""
