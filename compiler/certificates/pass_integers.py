# SPDX-License-Identifier: Apache-2.0
"""Integer operators of graphs between passes, on symbols.

Passes change how values lie, and spell functions otherwise, so three things hold here beyond the
definitions: a value in blocks of channels, or of uint8, stands for a plain one of int8; a
requantisation by 1 changes nothing; and a function of 8 bits is the table of its results.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates.elementwise import numbers
from vdla.compiler.certificates.graph_run import integer_results
from vdla.compiler.certificates.integer_operators import OPERATORS
from vdla.compiler.certificates.operations import binary
from vdla.compiler.certificates.symbols import Symbols, chosen, elements_of, hashed_unknowns, known, unstructured
from vdla.compiler.graph import Graph, Node, TensorType

FUNCTIONS = ("vdla.QLeakyRelu", "vdla.QRescale", "vdla.QTable")
"""Operators that are functions of one element."""
_UNSIGNED = 128  # how much greater elements of uint8 are than the numbers that they stand for
_EVERY = np.arange(-128, 128, dtype=np.int8)

Table = npt.NDArray[np.int8]


@dataclass
class FunctionTables:
    """Results of functions of 8 bits: which table they are elements of, and at which place."""

    tables: list[Table] = field(default_factory=list)
    _results: list[Symbols] = field(default_factory=list)
    _places: list[Symbols] = field(default_factory=list)
    _numbers: list[npt.NDArray[np.intp]] = field(default_factory=list)

    def look_up(self, table: Table, x: Symbols) -> Symbols:
        """The results of a function whose results are a table, for each element."""
        places, number = self._origins(elements_of(x).reshape(-1))
        made = np.empty(places.shape, places.dtype)
        for one in np.unique(number):
            inner = table if one < 0 else table[self.tables[one].astype(np.int64) + _UNSIGNED]
            made[number == one] = self._added(inner, places[number == one])
        return made.reshape(x.shape)

    def _added(self, table: Table, places: Symbols) -> Symbols:
        """Elements of a table at places that may be results of no table."""
        made = np.empty(places.shape, places.dtype)
        ends = np.stack([places["low"], places["high"]], 1).clip(-_UNSIGNED, _UNSIGNED - 1)
        for low, high in np.unique(ends, axis=0):
            same = (ends == (low, high)).all(axis=1)
            made[same] = _elements(table[low + _UNSIGNED : high + _UNSIGNED + 1], int(low), places[same])
        self.tables.append(table)
        self._results.append(made)
        self._places.append(places)
        self._numbers.append(np.full(len(made), len(self.tables) - 1))
        return made

    def _origins(self, x: Symbols) -> tuple[Symbols, npt.NDArray[np.intp]]:
        """The places and the numbers of tables of elements; -1 for those of no table."""
        if not self._results:
            return x, np.full(len(x), -1)
        results, places = np.concatenate(self._results), np.concatenate(self._places)
        order = np.argsort(results["value"], kind="stable")
        nearest = order[np.searchsorted(results["value"][order], x["value"]).clip(0, len(order) - 1)]
        is_result = (results["value"][nearest] == x["value"]) & ~known(x)
        return chosen(is_result, places[nearest], x), np.where(is_result, np.concatenate(self._numbers)[nearest], -1)


def _elements(table: Table, first: int, places: Symbols) -> Symbols:
    """Elements of a part of a table, whose place `first` is its first one."""
    if (table == table[0]).all():
        return np.broadcast_to(numbers(int(table[0])), places.shape)
    if (table == np.arange(first, first + len(table))).all():
        return places
    made = unstructured(("table", first, table.tobytes()), int(table.min()), int(table.max()), places)
    exact = known(places)
    if not exact.any():
        return made
    return chosen(exact, numbers(table[np.where(exact, places["low"] - first, 0)].astype(np.int64)), made)


def pass_integers(graph: Graph, node: Node, values: Mapping[str, Symbols], tables: FunctionTables) -> Symbols | None:
    """The result of an integer operator, whose values may lie in blocks; None of any other."""
    if node.op not in (*OPERATORS, *FUNCTIONS):
        return integer_results(graph, node, values)
    names = dict.fromkeys((*node.inputs, *node.outputs))
    kinds = {name: graph.tensor(name) for name in names if name}
    plain = graph.replace(types={**graph.types, **{name: _plain_type(kind) for name, kind in kinds.items()}})
    given = {name: _plain(values[name], kinds[name]) for name in node.inputs if name}
    made = _of_plain(plain, node, given, tables)
    (result,) = node.outputs
    return None if made is None else _laid_out(made.reshape(plain.tensor(result).extents), kinds[result], result)


def _of_plain(graph: Graph, node: Node, values: Mapping[str, Symbols], tables: FunctionTables) -> Symbols | None:
    if node.op in FUNCTIONS and np.size(node.attributes.get("multiplier", 0)) == 1:
        return tables.look_up(table_of(graph, node), values[node.inputs[0]])
    return integer_results(graph, node, values, ones=True)


def table_of(graph: Graph, node: Node) -> Table:
    """The results of a function for each of the 256 numbers."""
    if "table" in node.attributes:
        return np.asarray(node.attributes["table"], np.int8)
    kind = TensorType("int8", _EVERY.shape)
    every = graph.replace(types={**graph.types, node.inputs[0]: kind, node.outputs[0]: kind})
    made = integer_results(every, node, {node.inputs[0]: numbers(_EVERY)}, ones=True)
    assert made is not None
    assert known(made).all()
    return np.asarray(made["low"].astype(np.int8))


# --- layouts --------------------------------------------------------------------------------------


def _plain_type(kind: TensorType) -> TensorType:
    return replace(kind, lanes=0, dtype="int8" if kind.dtype == "uint8" else kind.dtype)


def _plain(x: Symbols, kind: TensorType) -> Symbols:
    """A value as a plain one, of int8 where it is of uint8."""
    if kind.lanes:
        batch, channels, *plane = kind.extents
        x = np.moveaxis(x.reshape(kind.array_shape), -1, 2).reshape(batch, -1, *plane)[:, :channels]
    return _moved(x, "sub") if kind.dtype == "uint8" else x


def _laid_out(x: Symbols, kind: TensorType, name: str) -> Symbols:
    """A plain value as its type says; gaps of blocks are unknown."""
    if kind.dtype == "uint8":
        x = _moved(x, "add")
    if not kind.lanes:
        return x
    batch, channels, *plane = kind.extents
    shape: tuple[int, ...] = (batch, -channels % kind.lanes, *plane)
    places = numbers(np.arange(int(np.prod(shape))).reshape(shape))
    whole = np.concatenate([x, hashed_unknowns(f"gap of {name}", kind.dtype, places)], axis=1)
    return np.moveaxis(whole.reshape(batch, -1, kind.lanes, *plane), 2, -1)


def _moved(x: Symbols, op: str) -> Symbols:
    return binary(op, x, numbers(_UNSIGNED), "int32")
