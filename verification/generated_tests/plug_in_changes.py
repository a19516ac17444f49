# SPDX-License-Identifier: Apache-2.0
"""Changes of a plug-in that break what it says of its extension: formulas, fields, operands, text.

Each is made from the plug-in's own data and fits any extension that has what it breaks; for others
it is None.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from vdla.hardware.isa import Buffer, Formula, OldSum, PlugIn, PlugInField, Port, StatePort

Change = Callable[[PlugIn], PlugIn | None]
Edit = Callable[[str], str]


def _with(plug_in: PlugIn, **changes: Any) -> PlugIn:  # noqa: ANN401  of any field
    return replace(plug_in, **changes)


# --- formulas -------------------------------------------------------------------------------------


def formula(name: str, edit: Edit) -> Change:
    """Another text of the formula `name`."""

    def change(plug_in: PlugIn) -> PlugIn | None:
        old: Formula = getattr(plug_in, name)
        new = Formula(edit(old.text))
        return _with(plug_in, **{name: new}) if new != old else None

    return change


def without_fields(name: str) -> Change:
    """The value of the formula `name` for fields of 0, whatever they are."""

    def change(plug_in: PlugIn) -> PlugIn | None:
        old: Formula = getattr(plug_in, name)
        return _with(plug_in, **{name: Formula(str(old.value(lambda _: 0)))}) if old.names else None

    return change


# --- fields ---------------------------------------------------------------------------------------


def _first_field(plug_in: PlugIn, change: Callable[[PlugInField], PlugInField]) -> PlugIn | None:
    return _with(plug_in, fields=(change(plug_in.fields[0]), *plug_in.fields[1:])) if plug_in.fields else None


def wider(bits: int) -> Change:
    """The first own field wider by some bits."""

    def widened(field: PlugInField) -> PlugInField:
        return replace(field, width=field.width + bits) if isinstance(field.width, int) else field

    return lambda plug_in: _first_field(plug_in, widened)


def other_sign(plug_in: PlugIn) -> PlugIn | None:
    """The first own field signed in place of unsigned, or the reverse."""
    return _first_field(plug_in, lambda field: replace(field, signed=not field.signed))


def reordered(plug_in: PlugIn) -> PlugIn | None:
    """The own fields in the reverse order in words; the step reads them as before."""
    if len({(field.width, field.signed) for field in plug_in.fields}) < 2:
        return None
    return _with(exchanged_fields(plug_in) or plug_in, fields=plug_in.fields[::-1])


# --- operands -------------------------------------------------------------------------------------


def port(index: str, change: Callable[[Port], Port | None]) -> Change:
    """Another operand indexed by `index`."""

    def broken(plug_in: PlugIn) -> PlugIn | None:
        old: Port | None = getattr(plug_in, index)
        new = None if old is None else change(old)
        return None if new is None else _with(plug_in, **{index: new})

    return broken


def other_buffer(old: Port) -> Port | None:
    """The accumulator in place of the input buffer, or the reverse."""
    if old.buffer is Buffer.ACC:
        return replace(old, buffer=Buffer.INP, vector=True)
    return replace(old, buffer=Buffer.ACC, vector=False) if old.buffer is Buffer.INP else None


def other_view(old: Port) -> Port | None:
    """A vector in place of an entry, or the reverse."""
    return None if old.buffer is Buffer.ACC else replace(old, vector=not old.vector)


def unread(index: str) -> Change:
    """Without the operand indexed by `index`."""
    return lambda plug_in: None if getattr(plug_in, index) is None else _with(plug_in, **{index: None})


def old_sum(before: OldSum, after: OldSum) -> Change:
    """Another use of the entry that is written."""
    return lambda plug_in: _with(plug_in, old=after) if plug_in.old is before else None


def held(change: Callable[[StatePort], StatePort | None]) -> Change:
    """Another use of the first private state that `change` fits."""

    def broken(plug_in: PlugIn) -> PlugIn | None:
        for at, old in enumerate(plug_in.states):
            new = change(old)
            if new is not None:
                return _with(plug_in, states=(*plug_in.states[:at], new, *plug_in.states[at + 1 :]))
        return None

    return broken


def other_index(old: StatePort) -> StatePort | None:
    """Rows at the index of weights in place of another, or the reverse."""
    return None if old.index is None else replace(old, index="src" if old.index == "wgt" else "wgt")


def unwritten(old: StatePort) -> StatePort | None:
    """Rows that are read and no longer written."""
    return replace(old, writes=False) if old.writes and old.operand is not None else None


# --- the text of a step ---------------------------------------------------------------------------


def edited(edit: Edit) -> Change:
    """Another text of the step."""

    def broken(plug_in: PlugIn) -> PlugIn | None:
        kernel = edit(plug_in.kernel)
        return _with(plug_in, kernel=kernel) if kernel != plug_in.kernel else None

    return broken


def exchanged_fields(plug_in: PlugIn) -> PlugIn | None:
    """The step reads its fields in the reverse order."""
    last = len(plug_in.fields) - 1
    return edited(lambda text: re.sub(r"fields\[(\d+)\]", lambda at: f"fields[{last - int(at[1])}]", text))(plug_in)


def of_operand(index: str, line: str) -> Change:
    """A statement before those of the step, where it has the operand indexed by `index`."""

    def edit(text: str) -> str:
        head, rest = text.split("\n", 1)
        return f"{head}\n    {line}\n{rest}"

    return lambda plug_in: None if getattr(plug_in, index) is None else edited(edit)(plug_in)


def exchanged_sums(plug_in: PlugIn) -> PlugIn | None:
    """The old value and the source exchanged, where both are accumulator entries."""
    reads = plug_in.src is not None and plug_in.src.buffer is Buffer.ACC and plug_in.old is OldSum.READ
    return of_operand("src", "old, src = src, old")(plug_in) if reads else None


def at_end(line: str) -> Change:
    """A statement behind those of a step that computes an accumulator entry."""
    behind = edited(lambda text: f"{text}    {line}\n")
    return lambda plug_in: behind(plug_in) if plug_in.writes_sums else None


def last_lane(text: str) -> str:
    """The text with one element less in each row of the batch, where it has rows."""
    match = re.search(r"range\(\d+\):\n +for [^\n]*range\((\d+)\)", text)
    return text if match is None else f"{text[: match.start(1)]}{int(match[1]) - 1}{text[match.end(1) :]}"


def other_operator(text: str) -> str:
    """The text with the last sum as a difference, or the reverse; sums in indices do not count."""
    return _other_operator(text, lambda target: True)


def other_update(text: str) -> str:
    """The text with another operator in what a row of private state becomes."""
    return _other_operator(text, lambda target: target.startswith("new_"))


def _other_operator(text: str, changes: Callable[[str], bool]) -> str:
    """The text with the last sum or difference of the assignments to some targets exchanged."""
    tree = ast.parse(text)
    values = (
        value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and changes(ast.unparse(node.targets[0]))
        for value in _computed(node.value)
    )
    sums = [value for value in values if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add | ast.Sub)]
    if not sums:
        return text
    last = max(sums, key=lambda value: (value.left.end_lineno, value.left.end_col_offset))
    last.op = ast.Sub() if isinstance(last.op, ast.Add) else ast.Add()
    return ast.unparse(tree)


def _computed(value: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression that compute elements: neither indices nor places in a byte."""
    yield value
    if isinstance(value, ast.Subscript):
        yield from _computed(value.value)
    elif isinstance(value, ast.Call) and ast.unparse(value.func) == "narrow":
        yield from _computed(value.args[0])
    else:
        for part in ast.iter_child_nodes(value):
            yield from _computed(part)
