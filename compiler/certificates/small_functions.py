# SPDX-License-Identifier: Apache-2.0
"""Functions of one small integer, by their tables: equal by exhaustion, however they are spelled.

While `SmallFunctions` are in use, a result that depends on a single unknown integer of few bits is
what it is for each of its values. A constant is a number, a line a polynomial, a line with bounds a
clip; of others, all with one table are one symbol, times their greatest common divisor. Sums keep
their terms until something else than a sum or a product reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler.certificates import field
from vdla.compiler.certificates.functions_in_use import Counterexample, Exact, Operation, using
from vdla.compiler.certificates.operations import binary
from vdla.compiler.certificates.symbols import (
    OPAQUE,
    SYMBOL,
    SymbolForm,
    Symbols,
    gathered,
    key,
    known,
    numbers,
    symbols,
)
from vdla.compiler.certificates.value_index import ValueIndex
from vdla.compiler.ir import wrap

_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]
MOST_VALUES = 1 << 8
"""Of an integer whose functions have tables."""
_NUMBER, _OTHER = -1, -2  # in place of a table
_MOST_ENTRIES = 1 << 20  # of tables that are computed at once
_MOST_EXACT = float(1 << 58)


@dataclass(frozen=True, eq=False)
class _Table:
    """The results for each value of an integer, the least one first."""

    least: int
    results: _Ints


@dataclass(frozen=True, eq=False)
class _Arguments:
    """What elements depend on, `[elements]`: one integer, and the number of the table of it."""

    bases: Symbols
    tables: _Ints

    def only(self, some: Any) -> _Arguments:  # noqa: ANN401  an index
        """Some of the elements."""
        return _Arguments(gathered(self.bases, some), self.tables[some])


class SmallFunctions:
    """The symbols that are functions of one small integer, and their tables."""

    def __init__(self) -> None:
        self._index = ValueIndex()
        self._bases, self._table_of = np.zeros(0, SYMBOL), np.zeros(0, np.int64)
        self._count = 0
        self._tables: list[_Table] = []
        self._numbers: dict[tuple[int, bytes], int] = {}

    def applied(
        self, operation: Operation, operands: Sequence[Symbols], dtypes: Sequence[str], exact: Exact | None = None
    ) -> Symbols:
        """The result of an operation on symbols of types. Polynomials, and all results of a ring
        operation, which is `exact` on integers, keep their form.
        """
        with using(None):
            return self._applied(operation, operands, dtypes, exact)

    def canonical(self, a: Symbols) -> Symbols:
        """The same symbols, those of functions in the form that only their tables decide."""
        flat = np.array(a).reshape(-1)
        arguments = self._arguments(flat)
        some = np.flatnonzero((arguments.tables >= 0) & (flat["form"] != SymbolForm.POLYNOMIAL))
        if len(some):
            with using(None):
                flat.view(OPAQUE)[some] = self._symbols(arguments.only(some)).view(OPAQUE)
        return flat.reshape(a.shape)

    def counterexample(self, a: Symbols, b: Symbols) -> Counterexample | None:
        """Where two symbols differ that are functions of one integer; None if they are no such
        functions, or equal ones.
        """
        pair = [self._arguments(np.array(one).reshape(1)) for one in (a, b)]
        tables = [int(one.tables[0]) for one in pair]
        of = next((one.bases[0] for one in pair if one.tables[0] >= 0), None)
        if of is None or not _of_one(pair)[0] or of["value"] in (a["value"], b["value"]):
            return None
        known_table = self._tables[max(tables)]
        count, least = len(known_table.results), known_table.least
        results = [
            self._tables[n].results if n >= 0 else np.full(count, one["low"])
            for n, one in zip(tables, (a, b), strict=True)
        ]
        if len(results[0]) != len(results[1]) or (results[0] == results[1]).all():
            return None
        first = int(np.argmax(results[0] != results[1]))
        return Counterexample(of, least + first, int(results[0][first]), int(results[1][first]))

    # --- operations

    def _applied(
        self, operation: Operation, operands: Sequence[Symbols], dtypes: Sequence[str], exact: Exact | None
    ) -> Symbols:
        made = operation(*operands)
        flat = np.array(made).reshape(-1)
        given = [self._arguments(np.broadcast_to(one, made.shape).reshape(-1)) for one in operands]
        some = np.flatnonzero(_of_one(given) & ~known(flat))
        if not len(some):
            return made
        given = [one.only(some) for one in given]
        bases = given[0].bases.copy()
        for one in given[1:]:
            here = one.tables >= 0
            bases.view(OPAQUE)[here] = one.bases.view(OPAQUE)[here]
        tables = self._results(operation, given, dtypes, exact, flat["form"][some] == SymbolForm.POLYNOMIAL)
        covered = tables >= 0
        some, arguments = some[covered], _Arguments(bases[covered], tables[covered])
        kept = (flat["form"][some] == SymbolForm.POLYNOMIAL) | (exact is not None and len(operands) > 1)
        if not kept.all():
            changed = some[~kept]
            flat.view(OPAQUE)[changed] = self._symbols(arguments.only(np.flatnonzero(~kept))).view(OPAQUE)
        self._note(flat[some], arguments)
        return flat.reshape(made.shape)

    def _results(
        self,
        operation: Operation,
        given: Sequence[_Arguments],
        dtypes: Sequence[str],
        exact: Exact | None,
        polynomial: _Bools,
    ) -> _Ints:
        """The tables of results, `_OTHER` for those that have none."""
        columns = [np.asarray(polynomial, np.int64)]
        for one in given:
            columns += [one.tables, np.where(one.tables == _NUMBER, one.bases["low"], 0)]
        kinds, kind_of = _different_rows(np.stack(columns, axis=1))
        results = np.full(len(kinds), _OTHER)
        spans = [self._span(kind) for kind in kinds]
        for span in {one for one in spans if one is not None}:
            every = np.array([n for n, one in enumerate(spans) if one == span])
            step = max(1, _MOST_ENTRIES // span[1])
            for begin in range(0, len(every), step):
                part = every[begin : begin + step]
                rows = [self._rows(kinds[part], place, span[1]) for place in range(len(given))]
                results[part] = self._computed(operation, rows, dtypes, exact, kinds[part, 0] == 1, span[0])
        made: _Ints = results[kind_of]
        return made

    def _span(self, kind: _Ints) -> tuple[int, int] | None:
        """The least value of what operands are functions of, and the number of its values."""
        spans = {(self._tables[n].least, len(self._tables[n].results)) for n in kind[1::2].tolist() if n >= 0}
        return spans.pop() if len(spans) == 1 else None

    def _rows(self, kinds: _Ints, place: int, count: int) -> _Ints:
        """An operand for each value, `[kinds, values]`."""
        tables, values = kinds[:, 1 + 2 * place].tolist(), kinds[:, 2 + 2 * place].tolist()
        return np.stack(
            [
                self._tables[n].results if n >= 0 else np.full(count, value)
                for n, value in zip(tables, values, strict=True)
            ]
        )

    def _computed(
        self,
        operation: Operation,
        rows: Sequence[_Ints],
        dtypes: Sequence[str],
        exact: Exact | None,
        polynomial: _Bools,
        least: int,
    ) -> list[int]:
        """The tables of an operation on rows of integers."""
        wrapped = [one if dtype == "bool" else wrap(one, dtype) for one, dtype in zip(rows, dtypes, strict=True)]
        made = operation(*(numbers(one) for one in wrapped))
        inside, results = np.array(known(made).all(axis=1)), np.array(made["low"])
        if exact is not None and polynomial.any():
            some = [one[polynomial] for one in rows]
            inside[polynomial] = np.abs(exact(*(one.astype(np.float64) for one in some))).max(axis=1) < _MOST_EXACT
            results[polynomial] = exact(*some)
        return [self._number(least, row) if fits else _OTHER for row, fits in zip(results, inside, strict=True)]

    def _number(self, least: int, results: _Ints) -> int:
        name = least, blake2b(results.tobytes(), digest_size=16).digest()
        if name not in self._numbers:
            self._numbers[name] = len(self._tables)
            self._tables.append(_Table(least, np.array(results)))
        return self._numbers[name]

    # --- symbols

    def _arguments(self, a: Symbols) -> _Arguments:
        """What symbols, `[elements]`, depend on."""
        rows, number = self._index.find(a["value"]), known(a)
        noted = (rows >= 0) & ~number & (a["form"] != SymbolForm.HALVES)
        tables = np.where(number, _NUMBER, _OTHER)
        bases = np.array(a)
        if noted.any():
            tables[noted] = self._table_of[rows[noted]]
            bases.view(OPAQUE)[noted] = self._bases.view(OPAQUE)[rows[noted]]
        extent = a["high"].astype(np.float64) - a["low"]
        plain = (a["form"] != SymbolForm.HALVES) & (a["form"] != SymbolForm.POLYNOMIAL)
        small = np.flatnonzero(~number & ~noted & plain & (extent < MOST_VALUES))
        if len(small):
            ranges, range_of = _different_rows(np.stack([a["low"][small], a["high"][small]], axis=1))
            themselves = [self._number(low, np.arange(low, high + 1)) for low, high in ranges.tolist()]
            tables[small] = np.array(themselves)[range_of]
        return _Arguments(bases, tables)

    def _note(self, made: Symbols, arguments: _Arguments) -> None:
        """Note that symbols are functions."""
        begin, end = self._count, self._count + len(made)
        if end > len(self._bases):
            room = max(2 * len(self._bases), end)
            self._bases = np.concatenate([self._bases.view(OPAQUE), np.zeros(room - len(self._bases), OPAQUE)]).view(
                SYMBOL
            )
            self._table_of = np.concatenate([self._table_of, np.zeros(room - len(self._table_of), np.int64)])
        self._bases.view(OPAQUE)[begin:end] = arguments.bases.view(OPAQUE)
        self._table_of[begin:end] = arguments.tables
        self._count = end
        self._index.add(made["value"], np.arange(begin, end))

    def _symbols(self, arguments: _Arguments) -> Symbols:
        """The symbols of functions, `[elements]`."""
        made = np.empty(len(arguments.tables), SYMBOL)
        order = np.argsort(arguments.tables, kind="stable")
        tables, begins = np.unique(arguments.tables[order], return_index=True)
        for table, some in zip(tables.tolist(), np.split(order, begins[1:]), strict=True):
            bases = gathered(arguments.bases, some)
            made.view(OPAQUE)[some] = _of_table(self._tables[table], bases).view(OPAQUE)
        return made


def _of_one(given: Sequence[_Arguments]) -> _Bools:
    """Which elements depend on one integer."""
    names, single = np.zeros(len(given[0].tables), np.uint64), np.zeros(len(given[0].tables), np.bool_)
    inside = np.ones(len(single), np.bool_)
    for one in given:
        here = one.tables >= 0
        inside &= (one.tables != _OTHER) & (~here | ~single | (names == one.bases["value"]))
        names, single = np.where(here, one.bases["value"], names), single | here
    return inside & single


def _different_rows(rows: _Ints) -> tuple[_Ints, _Ints]:
    """The rows that differ, and which of them each row is; most columns have one value."""
    which = np.zeros(len(rows), np.int64)
    for column in rows.T:
        if (column != column[0]).any():
            parts, part_of = np.unique(column, return_inverse=True)
            _, which = np.unique(which * len(parts) + part_of, return_inverse=True)
    _, first = np.unique(which, return_index=True)
    return rows[first], which


def _of_table(table: _Table, bases: Symbols) -> Symbols:
    """A function of integers, in the form that its table decides."""
    results = table.results
    low, high = int(results.min()), int(results.max())
    if low == high:
        return np.broadcast_to(numbers(low), bases.shape)
    line = _line_of(table)
    if line is not None:
        made = _scaled(bases, *line)
        clipped = _ring("max", made, low)
        return _ring("min", clipped, high)
    first = int(results[0])
    steps = results - first
    unit = gcd(*steps.tolist()) * (1 if steps[np.argmax(steps != 0)] > 0 else -1)
    steps = steps // unit
    name = key("function", table.least, blake2b(steps.tobytes(), digest_size=16).hexdigest())
    core = symbols(field.hashed(name, bases["value"]), int(steps.min()), int(steps.max()))
    return _scaled(core, unit, first)


def _line_of(table: _Table) -> tuple[int, int] | None:
    """The factor and the shift of a line of which a table is a clip."""
    steps = np.diff(table.results)
    moved = np.flatnonzero(steps)
    inner = steps[moved[0] + 1 : moved[-1]] if len(moved) > 2 else steps[moved]
    factor = int(inner[0])
    ends = steps[[moved[0], moved[-1]]] * np.sign(factor)
    if (
        moved[-1] - moved[0] + 1 != len(moved)
        or (inner != factor).any()
        or (ends > abs(factor)).any()
        or (ends < 0).any()
    ):
        return None
    place = int(moved[0]) + 1
    return factor, int(table.results[place]) - factor * (table.least + place)


def _scaled(a: Symbols, factor: int, shift: int) -> Symbols:
    return _ring("add", _ring("mul", a, factor), shift)


def _ring(op: str, a: Symbols, number: int) -> Symbols:
    return binary(op, a, numbers(number), "int64")
