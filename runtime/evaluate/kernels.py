"""Kernels of single nodes: a node's rule with the default schedule, compiled and loaded.

A kernel is made for the element types, shapes and constants of one call. Values of exotic storage
(4-bit integers) are converted on the way in and out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.compiler import te
from vdla.compiler.graph import Array, Graph, Node, TensorType
from vdla.compiler.graph.rules import DeclinedError, NodeCall, expressions
from vdla.compiler.ir import DTYPES, storage_dtype
from vdla.compiler.operators.cpu import default_schedule
from vdla.compiler.target import Target, host
from vdla.compiler.te.create_function import dependence_order
from vdla.runtime.native import Kernel, build
from vdla.support.errors import Error

_SMALL = 1024  # elements of a constant that is recognised by its content; larger ones by identity


@dataclass(frozen=True)
class NodeKernel:
    """A loaded kernel: which of the node's inputs it reads, and the constants that follow them."""

    kernel: Kernel
    reads: tuple[int, ...]
    packed: tuple[Array, ...]

    def __call__(self, arrays: Sequence[Array | None]) -> tuple[Array, ...]:
        """The results for the inputs of the node."""
        given = [_stored(arrays[index]) for index in self.reads]
        results = self.kernel(*given, *self.packed)
        return results if isinstance(results, tuple) else (results,)


class KernelCache:
    """Kernels by everything that they depend on; refusals are remembered as well."""

    def __init__(self) -> None:
        self._kernels: dict[object, NodeKernel | DeclinedError] = {}
        self._alive: list[Array] = []

    def get(self, key: object, make: Callable[[], NodeKernel], alive: Sequence[Array]) -> NodeKernel:
        """The kernel of a key, made at the first call; `alive` are arrays known by identity."""
        if key not in self._kernels:
            self._alive.extend(alive)
            try:
                self._kernels[key] = make()
            except DeclinedError as error:
                self._kernels[key] = error
        found = self._kernels[key]
        if isinstance(found, DeclinedError):
            raise found
        return found


def node_kernel(
    node: Node,
    arrays: Sequence[Array | None],
    constant: Sequence[bool],
    types: Sequence[TensorType | None],
    cache: KernelCache,
    target: Target | None = None,
) -> NodeKernel:
    """The kernel of a node for its inputs; `constant` says which of them never change.

    Raises:
        DeclinedError: the node has no tensor expression for these inputs.
    """
    machine = target or host()
    known = tuple(array if fixed else None for array, fixed in zip(arrays, constant, strict=True))
    key = (node.op, _hashable(node.attributes), tuple(map(_signature, arrays)), tuple(map(_content, known)))
    outputs = tuple(bool(name) for name in node.outputs)
    alive = [array for array in known if array is not None and array.size > _SMALL]
    return cache.get(
        (*key, outputs, tuple(types), machine.name), lambda: _build(node, arrays, known, types, machine), alive
    )


def _build(
    node: Node,
    arrays: Sequence[Array | None],
    known: Sequence[Array | None],
    types: Sequence[TensorType | None],
    target: Target,
) -> NodeKernel:
    """The kernel, under names that are identifiers."""
    inputs = tuple(f"input{index}" if array is not None else "" for index, array in enumerate(arrays))
    outputs = tuple(f"output{index}" if name else "" for index, name in enumerate(node.outputs))
    plain = Node(node.op, inputs, outputs, node.attributes, node.label)
    try:
        tensors = tuple(_placeholder(name, array) for name, array in zip(inputs, arrays, strict=True))
        call = NodeCall(plain, tensors, tuple(map(_rule_constant, known)), tuple(types), target)
        results = expressions(call)
        results = tuple(tensor for tensor, name in zip(results, outputs, strict=False) if name)
        read = _read(results)
        used = tuple(index for index, tensor in enumerate(tensors) if tensor is not None and tensor in read)
        inside = [tensor for tensor in (tensors[index] for index in used) if tensor is not None]
        fn = te.create_function([*inside, *call.packed], results, "node")
        kernel = build(default_schedule(fn, target).fn, target)
    except DeclinedError:
        raise
    except Error as error:
        raise DeclinedError(f"{node.label}: {error}") from error
    return NodeKernel(kernel, used, tuple(call.packed.values()))


def _read(results: Sequence[te.Tensor]) -> set[te.Tensor]:
    """The placeholders that the expressions read."""
    units = dependence_order("kernel", results)
    return {source for unit in units for source in unit.reads if source.stage is None}


def _placeholder(name: str, array: Array | None) -> te.Tensor | None:
    if array is None:
        return None
    return te.placeholder(array.shape, array.dtype.name, name)


def _rule_constant(array: Array | None) -> Array | None:
    return None if array is None else _stored(array)


def _stored(array: Array | None) -> Array:
    """The array as kernels store its element type, row-major."""
    assert array is not None
    name = array.dtype.name
    if name in DTYPES and array.dtype != storage_dtype(name):
        return np.asarray(array.astype(storage_dtype(name)), order="C")
    return np.asarray(array, order="C")


# --- keys


def _signature(array: Array | None) -> object:
    return None if array is None else (array.dtype.name, array.shape)


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
