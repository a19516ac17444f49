# SPDX-License-Identifier: Apache-2.0
"""The operations of a function on tiles of their own, made once for functions that differ only in
the numbers that they compute with: literals, and the immediates that match these.

Instructions are lowered with blanks for immediates, which numbers then fill. Where lowering asks
for a number, as for the amount of a shift that takes several operations, each function is lowered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import ir
from vdla.compiler.codegen.vdla.lower import lower, lower_quietly
from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.compiler.codegen.vdla.macro_ops import MacroOps, TiledOps
from vdla.compiler.codegen.vdla.skip_padding import cut_at_padding
from vdla.compiler.codegen.vdla.state_loads import with_readers
from vdla.compiler.codegen.vdla.tiles import warn_of
from vdla.compiler.codegen.vdla.webs import split_tiles
from vdla.compiler.ir.literals import Blank, without_literals
from vdla.compiler.tensorize import GLOBAL
from vdla.hardware.config import Config


def tiled_function(config: Config, fn: ir.Function) -> TiledOps:
    """The operations in order, without computation on padding, each on one tile for each web.

    Raises:
        LoweringError: as of `lower`.
    """
    numbers, matches = list[int](), list[ir.Match]()
    blank = replace(fn, body=_without_immediates(fn.body, numbers, matches))
    key = config, str(without_literals(fn)[0]), tuple((m.intrinsic, tuple(m.immediates.items())) for m in matches)
    try:
        form = _form(_Question((blank, numbers), key))
    except TypeError:  # it depends on a number
        return _on_tiles(config, lower(config, fn))[1]
    warn_of(form.notes)
    return form.filled(numbers)


@dataclass(frozen=True, slots=True)
class _Question:
    """A function with blanks and the numbers in their place, and what its operations depend on."""

    given: tuple[ir.Function, Sequence[int]] = field(compare=False)
    key: tuple[Config, str, tuple[object, ...]]


_Blanks = Mapping[str, Blank]
"""The blanks of an instruction, by field."""


@dataclass(frozen=True, slots=True, eq=False)
class _TiledForm:
    """Operations with some numbers, the blanks that these fill in each form, what to warn of.

    Forms without rows keep their numbers.
    """

    ops: TiledOps
    blanks: Sequence[_Blanks]
    notes: Sequence[str]

    def filled(self, numbers: Sequence[int]) -> TiledOps:
        """The operations with other numbers."""
        return replace(self.ops, ops=_filled(self.ops.ops, self.blanks, numbers))


@lru_cache(maxsize=128)
def _form(question: _Question) -> _TiledForm:
    """The operations; TypeError if they depend on numbers."""
    (blank, numbers), (config, *_) = question.given, question.key
    lowered, notes = lower_quietly(config, blank)
    blanks = [_blanks_of(form) for form in lowered.forms]
    whole, ops = _on_tiles(config, _filled(lowered, blanks, numbers))
    origin = lowered.form[whole]
    first = ops.ops.first.tolist()
    for column in (ops.tile, ops.entries, ops.group, ops.ops.form, ops.ops.offsets, ops.ops.dram):
        column.setflags(write=False)  # they are shared
    return _TiledForm(ops, [blanks[origin[row]] if row < len(origin) else {} for row in first], notes)


def _on_tiles(config: Config, ops: MacroOps) -> tuple[NDArray[np.int64], TiledOps]:
    """The operations on tiles, and for each the row that it is a part of."""
    return cut_at_padding(config, with_readers(split_tiles(config, ops)))


def _blanks_of(form: MacroOp) -> _Blanks:
    instruction: Any = form.instruction
    values = {item.name: getattr(instruction, item.name) for item in fields(instruction)}
    return {name: value for name, value in values.items() if isinstance(value, Blank)}


def _filled(ops: MacroOps, blanks: Sequence[_Blanks], numbers: Sequence[int]) -> MacroOps:
    """The operations with numbers in the fields of their forms that have blanks."""
    forms = [_with(form, names, numbers) if names else form for form, names in zip(ops.forms, blanks, strict=True)]
    return replace(ops, forms=tuple(forms))


def _with(form: MacroOp, blanks: _Blanks, numbers: Sequence[int]) -> MacroOp:
    values: Any = {name: numbers[blank.number] for name, blank in blanks.items()}
    return replace(form, instruction=replace(form.instruction, **values))


def _without_immediates(stmt: ir.Stmt, numbers: list[int], matches: list[ir.Match]) -> ir.Stmt:
    """The statement with blanks in place of immediates, whose `numbers` are appended.

    Padding stays as it is: computation on it is left out by its value.
    """
    match stmt:
        case ir.Block(annotations={"intrinsic": ir.Match() as match}):
            if GLOBAL not in match.intrinsic.scopes.values():
                match = _blank(match, numbers)
            matches.append(match)
            return replace(stmt, annotations={**stmt.annotations, "intrinsic": match})
    return ir.map_children(stmt, lambda child: _without_immediates(child, numbers, matches))


def _blank(match: ir.Match, numbers: list[int]) -> ir.Match:
    blanks: dict[str, Any] = {}
    for name, value in match.immediates.items():
        blanks[name] = Blank(len(numbers))
        numbers.append(int(value))
    return replace(match, immediates=blanks)
