# SPDX-License-Identifier: Apache-2.0
"""The buffers of an interpreted function, and expressions evaluated at many points at once.

A point is one assignment of the variables. `Points` hold each variable as an int32 array, which
broadcasts with the others, and a mask of the active points. Every buffer records which elements
have been written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.arith import IndexFunction, Ranges, bounds, exact_function
from vdla.compiler.ir import SCALAR_FUNCTIONS, SMALL_FLOATS, Array, is_float, limits, storage_dtype, widen, wrap
from vdla.support.errors import Error

Mask = npt.NDArray[np.bool_]
EVERYWHERE: Mask = np.array(True)
NOWHERE: Mask = np.array(False)


class InterpretError(Error, ValueError):
    """A function without a defined result: an access out of bounds or of an unwritten element."""


@dataclass(frozen=True, slots=True)
class Points:
    """The points at which an expression is evaluated; `where` names the block for messages."""

    values: Mapping[str, Any]  # an int, or an array of int32
    mask: Mask
    where: str

    def only(self, mask: Mask | bool) -> Points:
        """These points, restricted to `mask`."""
        if isinstance(mask, bool):
            return self if mask else replace(self, mask=NOWHERE)
        return replace(self, mask=mask if self.mask is EVERYWHERE else self.mask & mask)


class Indices:
    """What is known of the index expressions of a function, before any of its runs."""

    def __init__(self, ranges: Ranges) -> None:
        self.ranges = ranges
        self._functions: dict[int, tuple[ir.Expr, IndexFunction | None]] = {}  # kept alive, as the key is an identity
        self._unsure: dict[int, tuple[ir.Block, list[ir.Axis]]] = {}

    def function(self, expr: ir.Expr) -> IndexFunction | None:
        """An index or condition as a function of variables; None if it reads memory or may wrap."""
        if id(expr) not in self._functions:
            self._functions[id(expr)] = expr, exact_function(expr, self.ranges)
        return self._functions[id(expr)][1]

    def unsure_axes(self, block: ir.Block) -> list[ir.Axis]:
        """The axes whose bindings may leave their domain for some loop indices."""
        if id(block) not in self._unsure:
            pairs = [(axis, bounds(value, self.ranges)) for axis, value in block.bindings]
            self._unsure[id(block)] = block, [a for a, (low, high) in pairs if low < 0 or high >= a.size]
        return self._unsure[id(block)][1]


class InterpreterMemory:
    """The arrays of a function's buffers."""

    def __init__(self, buffers: Mapping[str, ir.Buffer], indices: Indices) -> None:
        self.buffers = buffers
        self.indices = indices
        self.arrays = {name: _zeros(buffer, self.stored(buffer.dtype)) for name, buffer in buffers.items()}
        self.given: set[str] = set()
        self.written = {name: _zeros(buffer, np.dtype(np.bool_)) for name, buffer in buffers.items()}

    @staticmethod
    def stored(dtype: str) -> np.dtype[Any]:
        """The type of the arrays that hold elements of a type."""
        return storage_dtype(dtype)

    def fill(self, name: str, array: Array) -> None:
        """Sets the content of a whole buffer."""
        self.arrays[name] = array
        self.written[name][...] = True
        self.given.add(name)

    def index(self, expr: ir.Expr, at: Points) -> Any:  # noqa: ANN401  an int or an array of ints
        """The value of an index or condition, an int if all its variables are."""
        function = self.indices.function(expr)
        return self.value(expr, at) if function is None else function(at.values)

    def places(self, indices: tuple[ir.Expr, ...], at: Points) -> list[Array]:
        """The values of the indices of an access."""
        return [np.asarray(self.index(index, at)) for index in indices]

    def store_all(self, stores: tuple[ir.Store, ...], at: Points) -> None:
        """Stores simultaneously: all values and indices are evaluated first."""
        ready = [(store.buffer, self.places(store.indices, at), self.value(store.value, at)) for store in stores]
        for name, places, value in ready:
            self.store(name, places, value, at)

    def store(self, name: str, places: list[Array], value: Array, at: Points) -> None:
        """Writes `value` at every active point."""
        shape = np.broadcast_shapes(at.mask.shape, *(p.shape for p in places))
        chosen = np.broadcast_to(at.mask, shape)
        target = tuple(np.broadcast_to(place, shape)[chosen] for place in places)
        self._check_inside("store", name, target, EVERYWHERE, at.where)
        self.arrays[name][target] = np.broadcast_to(value, shape)[chosen]
        self.written[name][target] = True

    def value(self, expr: ir.Expr, at: Points) -> Array:
        """The value of `expr`, which broadcasts with the points; arbitrary at inactive points."""
        match expr:
            case ir.Var(name=name):
                return np.asarray(at.values[name], np.int32)
            case ir.Const(value=value, dtype=dtype) if dtype in SMALL_FLOATS:
                return wrap(np.asarray(value), dtype)
            case ir.Const(value=value, dtype=dtype):
                return np.asarray(value, storage_dtype(dtype))
            case ir.Binary():
                return self._binary(expr, at)
            case ir.Cast(dtype=dtype, value=inner):
                return wrap(self._operand(inner, at), dtype)
            case ir.Select(cond=cond, a=a, b=b):
                return self._select(self.value(cond, at), a, b, at)
            case ir.Load(buffer=buffer, indices=indices):
                return self._load(buffer, tuple(self.places(indices, at)), at)
            case ir.Call(name=name, args=args, dtype=dtype):
                return wrap(np.asarray(SCALAR_FUNCTIONS[name].model(*(self._operand(arg, at) for arg in args))), dtype)

    def sums_at_once(self, dtype: str) -> bool:
        """Whether sums of a type are the same in every order."""
        return not is_float(dtype)

    def total(
        self, op: str, term: ir.Expr, at: Points, shape: tuple[int, ...], along: tuple[int, ...], dtype: str
    ) -> Array:
        """The values of a term at points of a shape, combined over the dimensions `along`, which
        keep length 1.
        """
        return self.reduced(
            op, np.broadcast_to(self.value(term, at), shape), np.broadcast_to(at.mask, shape), along, dtype
        )

    def reduced(self, op: str, terms: Array, mask: Mask, along: tuple[int, ...], dtype: str) -> Array:
        """Terms where `mask` holds, combined over the dimensions `along`, which keep length 1.

        Sums are of integers.
        """
        if not mask.all():
            identity = 0 if op == "add" else limits(dtype)[op == "min"]
            terms = np.where(mask, terms, np.asarray(identity, terms.dtype))
        if op == "add":
            return wrap(np.asarray(np.sum(terms.astype(np.int64), axis=along, keepdims=True)), dtype)
        return np.asarray(ir.OPERATORS[op].on_arrays.reduce(widen(terms, dtype), axis=along, keepdims=True))

    def combined(self, op: str, old: Array, total: Array, dtype: str) -> Array:
        """An element and a combination of terms, combined."""
        return wrap(np.asarray(ir.OPERATORS[op].on_arrays(widen(old, dtype), total)), dtype)

    def _operand(self, expr: ir.Expr, at: Points) -> Array:
        """The value of an operand, in the type that arithmetic on it uses."""
        return widen(np.asarray(self.value(expr, at)), ir.dtype_of(expr, self.buffers))

    def _binary(self, expr: ir.Binary, at: Points) -> Array:
        result = np.asarray(ir.OPERATORS[expr.op].on_arrays(self._operand(expr.a, at), self._operand(expr.b, at)))
        return result if expr.op in ir.COMPARE_OPS else wrap(result, ir.dtype_of(expr.a, self.buffers))

    def _select(self, cond: Array, a: ir.Expr, b: ir.Expr, at: Points) -> Array:
        then, other = at.only(cond), at.only(~cond)
        if not other.mask.any():
            return self.value(a, at)
        if not then.mask.any():
            return self.value(b, at)
        return np.where(cond, self.value(a, then), self.value(b, other))

    def _load(self, name: str, places: tuple[Array, ...], at: Points) -> Array:
        if self._check_inside("load", name, places, at.mask, at.where):
            inside = places
        else:
            shape = self.buffers[name].dims
            inside = tuple(np.clip(place, 0, extent - 1) for place, extent in zip(places, shape, strict=True))
        if name not in self.given and not self.written[name][inside].all():
            self._check_written(name, places, ~self.written[name][inside] & at.mask, at)
        return self.elements(name, inside)

    def elements(self, name: str, places: tuple[Array, ...]) -> Array:
        """The elements of a buffer at places inside it."""
        return np.asarray(self.arrays[name][places])

    def _check_written(self, name: str, places: tuple[Array, ...], unwritten: Mask, at: Points) -> None:
        if unwritten.any():
            text = _element_text(name, places, unwritten)
            raise InterpretError(f"block {at.where}: {text} must be written before it is read, got a read first")

    def _check_inside(self, action: str, name: str, places: tuple[Array, ...], mask: Mask, where: str) -> bool:
        """Whether every index is in bounds; an error if an active one is not."""
        shape = self.buffers[name].dims
        pairs = list(zip(places, shape, strict=True))
        far = [(p, n) for p, n in pairs if p.size and (p.min() < 0 or p.max() >= n)]
        for place, extent in far:
            outside = ((place < 0) | (place >= extent)) & mask
            if outside.any():
                text = _element_text(name, places, outside)
                rule = f"every {action} must be inside the shape {list(shape)}"
                raise InterpretError(f"block {where}: {rule}, got {text}")
        return not far


def _zeros(buffer: ir.Buffer, dtype: np.dtype[Any]) -> Array:
    """A zeroed array of a buffer's shape."""
    try:
        return np.zeros(buffer.dims, dtype)
    except (MemoryError, ValueError):  # ValueError: larger than the address space
        what = f"{buffer.name}, {buffer.dtype}{list(buffer.dims)}"
        raise InterpretError(f"cannot allocate buffer {what}: it is too large for memory") from None


def _element_text(name: str, places: tuple[Array, ...], chosen: Mask) -> str:
    """The first element in `chosen`, as source text."""
    shape = np.broadcast_shapes(chosen.shape, *(place.shape for place in places))
    first = int(np.argmax(np.broadcast_to(chosen, shape)))
    indices = (int(np.broadcast_to(place, shape).flat[first]) for place in places)
    return f"{name}[{', '.join(map(str, indices))}]"
