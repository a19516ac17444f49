# SPDX-License-Identifier: Apache-2.0
"""Expressions of symbols in one pass over their elements, compiled: `operations` is their model.

What an expression reads are leaves: arrays of symbols, and the places in them that elements read.
Parts of an expression that depend on few elements, such as parameters of channels, run on these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir
from vdla.compiler.certificates import operations, symbol_kernels
from vdla.compiler.certificates.field import started
from vdla.compiler.certificates.functions_in_use import small_functions
from vdla.compiler.certificates.symbol_kernels import LEAVES, OPS
from vdla.compiler.certificates.symbols import SYMBOL, Symbols, key, type_bounds
from vdla.compiler.ir import INTEGER_BITS

_Ints = npt.NDArray[np.int64]
_CODES = {name: code for code, name in enumerate(OPS)}
_BINARY = ("add", "sub", "mul", "shr", "min", "max", "and")
_NO_PLACES: _Ints = np.zeros(1, np.int64)
_NO_LEAF = np.zeros(1, SYMBOL)
_LEAST_GAIN = 4  # how many times fewer elements a part must have to run on its own


@dataclass(frozen=True, eq=False)
class Leaf:
    """A flat array of symbols and the places that elements read, each its own if None."""

    array: Symbols
    places: _Ints | None = None


@dataclass(eq=False)
class _Steps:
    """The steps of an expression, and its leaves."""

    rows: list[tuple[int, ...]] = field(default_factory=list)
    wraps: list[int] = field(default_factory=list)
    leaves: list[Leaf] = field(default_factory=list)
    known: dict[Any, int] = field(default_factory=dict)

    def step(self, op: str, operands: Sequence[int], dtype: str = "int64") -> int:
        """One more step."""
        a, b = (*operands, 0)[:2]
        row = (_CODES[op], a, b, *_range_of(dtype))
        if row not in self.known:
            self.known[row] = len(self.rows)
            self.rows.append(row)
            self.wraps.append(_wrap_of(dtype))
        return self.known[row]

    def number(self, value: int) -> int:
        """A number."""
        self.rows.append((_CODES["number"], 0, 0, value, 0, 0))
        self.wraps.append(0)
        return len(self.rows) - 1

    def leaf(self, leaf: Leaf) -> int:
        """What a leaf has."""
        self.leaves.append(leaf)
        return self.step("leaf", [len(self.leaves) - 1])

    def run(self, count: int) -> Symbols | None:
        """The last step for so many elements; None where an element is not covered."""
        if len(self.leaves) > LEAVES or small_functions() is not None:
            return None
        maps: list[_Ints] = []
        map_of = np.full(LEAVES, -1)
        for index, leaf in enumerate(self.leaves):
            if leaf.places is not None:
                places = leaf.places
                map_of[index] = next((n for n, one in enumerate(maps) if one is places), len(maps))
                if map_of[index] == len(maps):
                    maps.append(places)
        arrays = [leaf.array for leaf in self.leaves]
        out = np.empty(count, SYMBOL)
        covered = symbol_kernels.run(
            np.array(self.rows, np.int64),
            np.array(self.wraps, np.uint64),
            tuple(arrays + [_NO_LEAF] * (LEAVES - len(arrays))),
            tuple(maps + [_NO_PLACES] * (LEAVES - len(maps))),
            map_of,
            symbol_kernels.block_of(len(self.rows)),
            out,
        )
        return out if covered else None


def combined(op: str, a: Symbols, b: Symbols, dtype: str) -> Symbols:
    """As `operations.binary`."""
    if op in _BINARY and _is_covered(dtype):
        steps, (leaves, shape) = _Steps(), broadcast_leaves([a, b])
        steps.step(op, [steps.leaf(leaf) for leaf in leaves], dtype)
        made = steps.run(int(np.prod(shape)))
        if made is not None:
            return made.reshape(shape)
    return operations.binary(op, a, b, dtype)


def numbers(values: npt.ArrayLike) -> Symbols:
    """As `symbols.numbers`."""
    integers = np.ascontiguousarray(values).reshape(-1)
    if integers.dtype == np.bool_:
        integers = integers.view(np.uint8)
    made = np.empty(len(integers), SYMBOL)
    symbol_kernels.fill_numbers(np.require(integers.astype(np.int64, copy=False), requirements="W"), made)
    return made.reshape(np.shape(values))


def unknowns(name: str, shape: tuple[int, ...], dtype: str, seed: int) -> Symbols:
    """As `symbols.unknowns`."""
    made = np.empty(int(np.prod(shape)), SYMBOL)
    symbol_kernels.fill_unknowns(np.uint64(started(key("input", name, seed))), *type_bounds(dtype), made)
    return made.reshape(shape)


@lru_cache(maxsize=64)
def _range_of(dtype: str) -> tuple[int, int, int]:
    return (*type_bounds(dtype), INTEGER_BITS[dtype])


@lru_cache(maxsize=64)
def _wrap_of(dtype: str) -> int:
    return started(key("wrap", dtype))


def parts_of(expr: ir.Expr, dtype_of: Callable[[ir.Expr], str]) -> tuple[ir.Expr, ...]:
    """The operands of an expression that is a step, nothing for what is a leaf."""
    match expr:
        case ir.Binary(op=op, a=a, b=b) if op in _BINARY and _is_covered(dtype_of(a)):
            return a, b
        case ir.Cast(dtype=target, value=value) if _is_covered(target) and _is_covered(dtype_of(value)):
            source = dtype_of(value)
            (low, high), (least, most) = type_bounds(source), type_bounds(target)
            wider = INTEGER_BITS[target] > INTEGER_BITS[source]
            return () if wider and not least <= low <= high <= most else (value,)
    return ()


def leaves_of(expr: ir.Expr, dtype_of: Callable[[ir.Expr], str]) -> list[ir.Expr]:
    """The leaves of an expression, each once, without numbers; nothing if it is a leaf itself."""
    known: dict[int, ir.Expr] = {}
    waiting, leaves = list(parts_of(expr, dtype_of)), {}
    while waiting:
        one = waiting.pop()
        if id(one) not in known:
            known[id(one)] = one
            parts = parts_of(one, dtype_of)
            waiting += parts
            if not parts and not isinstance(one, ir.Const):
                leaves[id(one)] = one
    return list(leaves.values())


def _is_covered(dtype: str) -> bool:
    return dtype in INTEGER_BITS and dtype != "uint64"


class Elementwise:
    """Expressions over leaves; `dtype_of` gives the type of an expression, `leaf_of` the symbols of
    one that is a leaf.
    """

    def __init__(self, dtype_of: Callable[[ir.Expr], str], leaf_of: Callable[[ir.Expr], Leaf]) -> None:
        self._dtype_of, self._leaf_of = dtype_of, leaf_of
        self._leaves: dict[int, Leaf] = {}
        self._below: dict[int, list[Leaf]] = {}

    def value(self, expr: ir.Expr, count: int) -> Symbols | None:
        """The values of `count` elements; None where an element is not covered."""
        return self._run(expr, count, compact=False)

    def _run(self, expr: ir.Expr, count: int, *, compact: bool) -> Symbols | None:
        steps = _Steps()
        self._compile(steps, expr, compact=compact)
        return steps.run(count)

    def _compile(self, steps: _Steps, expr: ir.Expr, *, compact: bool) -> int:
        """The step that has the value of an expression."""
        if id(expr) not in steps.known:
            steps.known[id(expr)] = self._compiled(steps, expr, compact=compact)
        return steps.known[id(expr)]

    def _compiled(self, steps: _Steps, expr: ir.Expr, *, compact: bool) -> int:
        if isinstance(expr, ir.Const):
            return steps.number(int(expr.value))
        parts = parts_of(expr, self._dtype_of)
        if parts and not compact:
            few = self._on_few(expr)
            if few is not None:
                return steps.leaf(few)
        if not parts:
            leaf = self._leaf(expr)
            return steps.leaf(Leaf(leaf.array) if compact else leaf)
        operands = [self._compile(steps, part, compact=compact) for part in parts]
        source = self._dtype_of(parts[0])
        if isinstance(expr, ir.Binary):
            return steps.step(expr.op, operands, source)
        target = self._dtype_of(expr)
        if INTEGER_BITS[target] > INTEGER_BITS[source]:
            return steps.step("widen", operands, source)
        return steps.step("narrow", operands, target)

    def _on_few(self, expr: ir.Expr) -> Leaf | None:
        """An expression on the arrays of its leaves, if all are read at the same places and are
        much shorter.
        """
        if id(expr) in self._leaves:
            return self._leaves[id(expr)]
        leaves = self._leaves_below(expr)
        places = leaves[0].places if leaves else None
        if places is None or any(leaf.places is not places for leaf in leaves):
            return None
        size = leaves[0].array.size
        if size * _LEAST_GAIN > places.size or any(leaf.array.size != size for leaf in leaves):
            return None
        made = self._run(expr, size, compact=True)
        if made is None:
            return None
        self._leaves[id(expr)] = Leaf(made, places)
        return self._leaves[id(expr)]

    def _leaves_below(self, expr: ir.Expr) -> list[Leaf]:
        if id(expr) not in self._below:
            parts = parts_of(expr, self._dtype_of)
            if parts:
                self._below[id(expr)] = [leaf for part in parts for leaf in self._leaves_below(part)]
            else:
                self._below[id(expr)] = [] if isinstance(expr, ir.Const) else [self._leaf(expr)]
        return self._below[id(expr)]

    def _leaf(self, expr: ir.Expr) -> Leaf:
        if id(expr) not in self._leaves:
            self._leaves[id(expr)] = self._leaf_of(expr)
        return self._leaves[id(expr)]


def loads(leaves: Mapping[str, Leaf]) -> Callable[[ir.Expr], Leaf]:
    """The leaves of loads, by their buffers."""

    def leaf_of(expr: ir.Expr) -> Leaf:
        assert isinstance(expr, ir.Load)
        return leaves[expr.buffer]

    return leaf_of


def broadcast_leaves(arrays: Sequence[Symbols]) -> tuple[list[Leaf], tuple[int, ...]]:
    """Arrays that broadcast with each other as leaves, and their shape."""
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    places: dict[tuple[int, ...], _Ints] = {}
    leaves = []
    for array in arrays:
        flat = np.require(array, requirements=["C", "W"]).reshape(-1)
        if array.size == int(np.prod(shape)):
            leaves.append(Leaf(flat))
            continue
        padded = (1,) * (len(shape) - array.ndim) + array.shape
        if padded not in places:
            elements = np.arange(array.size).reshape(padded)
            places[padded] = np.ascontiguousarray(np.broadcast_to(elements, shape)).reshape(-1)
        leaves.append(Leaf(flat, places[padded]))
    return leaves, shape
