# SPDX-License-Identifier: Apache-2.0
"""Kernels of single nodes: a node's expression with the default schedule, compiled and loaded.

An expression can be interpreted with NumPy as well, without compiling it.

A kernel is made for the element types, shapes and constants of one call. Values of exotic storage
(4-bit integers) are converted on the way in, scalars to tensors of one element.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from vdla.compiler.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.operators import has_expression
from vdla.compiler.graph.operators.graph_function import graph_function
from vdla.compiler.graph.rules import DeclinedError
from vdla.compiler.interpret import interpret
from vdla.compiler.ir import DTYPES, Function, storage_dtype
from vdla.compiler.target import Target, host
from vdla.runtime.native import Kernel, load
from vdla.runtime.network.kernel_module import kernel_module
from vdla.support.errors import Error

_SMALL = 1024  # elements of a constant that is recognised by its content; larger ones by identity


@dataclass(frozen=True)
class NodeKernel:
    """A loaded kernel: the inputs of the node that it reads, constants that follow, results."""

    kernel: Callable[..., Array | tuple[Array, ...]]
    reads: tuple[int, ...]
    constants: tuple[Array, ...]
    results: tuple[TensorType, ...]

    def __call__(self, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
        """The results for the inputs of the node."""
        given = [_stored(arrays[index]) for index in self.reads]
        result = self.kernel(*given, *self.constants)
        made = result if isinstance(result, tuple) else (result,)
        return tuple(_typed(array, kind) for array, kind in zip(made, self.results, strict=True))


class KernelCache:
    """Kernels by everything that they depend on; refusals are remembered as well.

    Nodes that differ in their constants only share the compiled function.
    """

    def __init__(self) -> None:
        self._kernels: dict[object, NodeKernel | DeclinedError] = {}
        self._functions: dict[tuple[str, bytes], Kernel] = {}
        self._alive: list[Array] = []

    def compiled(self, function: Function, target: Target) -> Kernel:
        """The function with its default schedule, compiled once."""
        key = (target.name, pickle.dumps(function))
        if key not in self._functions:
            self._functions[key] = load(kernel_module(function, target).compile())
        return self._functions[key]

    def get(self, key: object, make: Callable[[], NodeKernel], alive: Sequence[Array]) -> NodeKernel:
        """The kernel of a key, made at the first call; `alive` are arrays known by identity."""
        if key not in self._kernels:
            self._alive.extend(alive)
            try:
                self._kernels[key] = make()
            except DeclinedError as error:
                self._kernels[key] = error
        result = self._kernels[key]
        if isinstance(result, DeclinedError):
            raise result
        return result


def node_kernel(
    node: Node,
    arrays: Sequence[Array | None],
    constant: Sequence[bool],
    input_types: Sequence[TensorType | None],
    types: Sequence[TensorType | None],
    cache: KernelCache,
    target: Target | None = None,
    *,
    interpreted: bool = False,
) -> NodeKernel:
    """The kernel of a node for its inputs; `constant` says which of them never change.

    `input_types` say which inputs are images in blocks of channels, `types` are those of the
    results, where known. If `interpreted`, NumPy computes the expression in place of machine code.

    Raises:
        DeclinedError: the node has no tensor expression for these inputs.
    """
    machine = target or host()
    known = tuple(array if fixed else None for array, fixed in zip(arrays, constant, strict=True))
    kinds = tuple(_type(array, kind) for array, kind in zip(arrays, input_types, strict=True))
    given = (node.op, _hashable(node.attributes), kinds, tuple(map(_content, known)))
    outputs = tuple(bool(name) for name in node.outputs)
    alive = [array for array in known if array is not None and array.size > _SMALL]
    key = (*given, outputs, tuple(types), machine.name, interpreted)
    return cache.get(key, lambda: _build(_alone(node, kinds, known, types), machine, cache, interpreted), alive)


def _build(graph: Graph, target: Target, cache: KernelCache, interpreted: bool) -> NodeKernel:
    (node,) = graph.nodes
    try:
        typed = _with_types(graph)
        made = graph_function(typed, target, "node")
        kernel = partial(_interpret, made.function) if interpreted else cache.compiled(made.function, target)
        results = tuple(typed.tensor(name) for name in graph.outputs)
    except DeclinedError:
        raise
    except Error as error:
        raise DeclinedError(f"{node.label}: {error}") from error
    constants = tuple(map(np.ascontiguousarray, made.constants.values()))
    return NodeKernel(kernel, tuple(int(name[1:]) for name in made.inputs), constants, results)


def _interpret(function: Function, *arrays: Array) -> tuple[Array, ...]:
    """The results of a function, computed by the reference interpreter."""
    return tuple(interpret(function, dict(zip(function.params, arrays, strict=False))).values())


def _alone(
    node: Node, given: Sequence[TensorType | None], known: Sequence[Array | None], types: Sequence[TensorType | None]
) -> Graph:
    """A graph of the node, its values named by their positions."""
    if not has_expression(node.op):
        raise DeclinedError(f"{node.label}: the operator must have a tensor expression, got {node.op}")
    names = tuple("" if kind is None else f"i{index}" for index, kind in enumerate(given))
    outputs = tuple(f"o{index}" if name else "" for index, name in enumerate(node.outputs))
    kinds = {name: kind for name, kind in zip(names, given, strict=True) if kind is not None}
    kinds |= {name: kind for name, kind in zip(outputs, types, strict=True) if name and kind is not None}
    constants = {name: array for name, array in zip(names, known, strict=True) if array is not None}
    inputs = tuple(name for name in names if name and name not in constants)
    renamed = replace(node, inputs=names, outputs=outputs, name=node.name or node.label.partition(" ")[2])
    wanted = tuple(name for name in outputs if name)
    return Graph("node", inputs, wanted, (renamed,), constants, kinds)


def _with_types(graph: Graph) -> Graph:
    """The graph with the types of its results, inferred from its inputs where they are open."""
    kinds = [graph.types.get(name) for name in graph.outputs]
    if all(isinstance(kind, TensorType) and kind.static for kind in kinds):
        return graph
    from vdla.compiler.graph.onnx import infer_graph_types

    return infer_graph_types(graph)


def _type(array: Array | None, declared: TensorType | None) -> TensorType | None:
    """The type of an array; images in blocks of channels are declared."""
    if array is None or (declared is not None and declared.lanes):
        return declared
    return TensorType("str" if array.dtype.kind in "OUS" else array.dtype.name, array.shape)


# --- values


def _stored(array: Array | None) -> Array:
    """The array as kernels store its element type, row-major, of at least one dimension."""
    assert array is not None
    name = array.dtype.name
    stored = array.astype(storage_dtype(name)) if name in DTYPES and array.dtype != storage_dtype(name) else array
    return np.ascontiguousarray(stored)


def _typed(array: Array, kind: TensorType) -> Array:
    """The result of a kernel in its own type and shape."""
    shaped = array.reshape(()) if kind.shape == () else array
    if shaped.dtype.name == kind.dtype:
        return shaped
    import ml_dtypes

    return shaped.astype(getattr(ml_dtypes, kind.dtype))


# --- keys


def _content(array: Array | None) -> object:
    if array is None:
        return None
    return array.tobytes() if array.size <= _SMALL and array.dtype != object else id(array)


def _hashable(value: Any) -> object:  # noqa: ANN401  attributes
    match value:
        case Mapping():
            return tuple((key, _hashable(item)) for key, item in sorted(value.items()))
        case tuple() | list():
            return tuple(map(_hashable, value))
        case np.ndarray():
            return (value.dtype.name, value.shape, value.tobytes() if value.dtype != object else str(value.tolist()))
        case Graph():
            return id(value)
        case _:
            return value
