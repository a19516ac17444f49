# SPDX-License-Identifier: Apache-2.0
"""The space of tiles for forms of an operator: everything that fits the buffers, each choice once.

Sizes need not divide extents: the last tile holds the remainder, so a size also determines
how much is stored after the last computation. Virtual threads are dealt the iterations of one tile
loop, which has at least as many; without them, the loop is the innermost that iterates. Strips have
equal rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields

import numpy as np

from vdla.compiler.operators.vdla.tile_candidates import Candidates, fitting
from vdla.compiler.operators.vdla.tiling_problem import LOOPS, SIZES, Tiling, TilingProblem
from vdla.compiler.tune.space import Bools, Columns, Ints, Knob, Point, Space, TuneError, Value
from vdla.hardware.config import Config

FORM = "form"
WITHOUT_STRIPS: Mapping[str, Value] = {"strips": 1}
"""The knob that points of older logs lack."""
_LEAST: Mapping[str, tuple[Value, ...]] = {"keep_weights": (False,), "threads": (1,), "by_blocks": (False,)}
"""The choices that take the least of every buffer."""
_MOST_AT_ONCE = 1 << 16


def tile_space(name: str, config: Config, problems: Mapping[str, TilingProblem]) -> Space:
    """The space of tiles for every form, by its label.

    Raises:
        TuneError: no tile of any form fits the buffers.
    """
    tables = {label: _Table(config, problem) for label, problem in problems.items()}
    knobs = _joined(list(problems), [table.knobs for table in tables.values()])
    bare = Space(name, knobs)
    tables_of_codes = [
        _codes(bare, form, columns) for form, table in enumerate(tables.values()) for columns in table.fitting()
    ]
    return Space(name, knobs, np.sort(np.concatenate(tables_of_codes)) if tables_of_codes else np.zeros(0, np.int64))


def _joined(labels: list[str], tables: Sequence[Mapping[str, tuple[Value, ...]]]) -> tuple[Knob, ...]:
    """The form, and each knob with its values in any form."""
    names = [field.name for field in fields(Tiling)]
    values: dict[str, list[Value]] = {name: [] for name in names}
    for table in tables:
        for name in names:
            values[name] += [value for value in table[name] if value not in values[name]]
    for name in (*SIZES, "threads", "strips"):
        values[name].sort(key=int)
    return Knob(FORM, tuple(labels)), *(Knob(name, tuple(values[name])) for name in names)


def _codes(space: Space, form: int, columns: Columns) -> Ints:
    """The codes of tiles of one form."""
    count = len(next(iter(columns.values())))
    digits = [np.full(count, form)]
    for knob in space.knobs[1:]:
        order = np.argsort(knob.column, kind="stable")
        digits.append(order[np.searchsorted(knob.column, columns[knob.name], sorter=order)])
    return space.codes(np.stack(digits, axis=1))


class _Table:
    """The tiles of one form in columns."""

    def __init__(self, config: Config, problem: TilingProblem) -> None:
        self._config, self._problem = config, problem
        self.knobs: Mapping[str, tuple[Value, ...]] = problem.choices(max(config.depths))
        self._sizes = {name: self.knobs[name] for name in SIZES}
        others = {name: values for name, values in self.knobs.items() if name not in SIZES}
        self._choices = {**others, "strips": (1,)}

    def fitting(self) -> Iterator[Columns]:
        """The values of all tiles that fit, a limited number at once."""
        choices = _grid(self._choices)
        first, every = LOOPS.index(str(self._choices["threads_over"][0])), np.arange(choices.size)
        for sizes in self._fitting_sizes(max(1, _MOST_AT_ONCE // choices.size)):
            count = len(sizes["rows"])
            repeated = {name: np.repeat(column, choices.size) for name, column in sizes.items()}
            columns = {**repeated, **choices.columns(np.tile(every, count))}
            candidates = candidates_of(columns)
            canonical = _is_canonical(self._problem, candidates, first)
            chosen = fitting(self._config, self._problem, candidates) & canonical
            fit = {name: column[chosen] for name, column in columns.items()}
            for strips in map(int, self.knobs["strips"]):
                even = fit["rows"] % strips == 0
                if even.any():
                    fitting_columns = {name: column[even] for name, column in fit.items()}
                    yield {**fitting_columns, "strips": np.full(int(even.sum()), strips)}

    def _fitting_sizes(self, count: int) -> Iterator[Columns]:
        """Sizes with some choice that may fit, at most `count` at once: the one that takes least
        does.
        """
        sizes, least = _grid(self._sizes), _grid({**self._choices, **_LEAST})
        for start in range(0, sizes.size, _MOST_AT_ONCE):
            indices = np.arange(start, min(start + _MOST_AT_ONCE, sizes.size))
            columns = {**sizes.columns(indices), **least.columns(np.zeros_like(indices))}
            fitting_indices = indices[fitting(self._config, self._problem, candidates_of(columns))]
            yield from (sizes.columns(fitting_indices[at : at + count]) for at in range(0, len(fitting_indices), count))


def _grid(values: Mapping[str, tuple[Value, ...]]) -> Space:
    """All combinations of values."""
    return Space("tiles", tuple(Knob(name, choices) for name, choices in values.items()))


def _is_canonical(problem: TilingProblem, c: Candidates, first: int) -> Bools:
    """Whether a candidate is the one spelling of its choices; the loop of one tile is `first`."""
    iterations = c.iterations(problem)
    innermost = np.where((iterations > 1).any(axis=0), (iterations > 1).argmax(axis=0), first)
    dealt = iterations[c.over, np.arange(len(c))]
    # Around other tile loops, threads with fewer iterations would hold more than a tile.
    even = (c.over == innermost) | (dealt % c.threads == 0)
    threads = np.where(c.threads == 1, c.over == innermost, (c.threads <= dealt) & even)
    return np.asarray(threads & (~c.by_blocks | (c.in_blocks > 1)), np.bool_)


def candidates_of(columns: Columns) -> Candidates:
    """Points in columns as candidates of the tile search."""
    order = np.argsort(LOOPS)
    over = order[np.searchsorted(LOOPS, columns["threads_over"], sorter=order)]
    named = {name: columns[name] for name in (*SIZES, "keep_weights", "threads", "by_blocks", "strips")}
    return Candidates(**named, over=over)


def tiling_of(point: Point) -> Tiling:
    """The tiles of a point.

    Raises:
        TuneError: a value of the point has another type.
    """
    values = {field.name: point[field.name] for field in fields(Tiling)}
    for name, value in values.items():
        wanted = str if name == "threads_over" else bool if name in ("keep_weights", "by_blocks") else int
        if type(value) is not wanted:
            raise TuneError(f"tiling: {name} must be a {wanted.__name__}, got {value!r}")
    return Tiling(**values)  # type: ignore[arg-type]  # checked above
