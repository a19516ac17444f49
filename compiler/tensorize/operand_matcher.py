# SPDX-License-Identifier: Apache-2.0
"""Matching operands: each access must be one entry of a buffer, indexed by whole axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import NoReturn

from vdla.compiler import ir
from vdla.compiler.arith import Linear, bounds, linear, var_names
from vdla.compiler.tensorize.canonical import Canonical
from vdla.compiler.tensorize.fragment import AxisOutsideError, TensorizeError
from vdla.compiler.tensorize.intrinsic import ANYWHERE, MEMORY, Intrinsic
from vdla.compiler.tensorize.remedies import Remedies


@dataclass
class Bindings:
    """The match so far: the block's axis for each axis of the intrinsic, and the parts of a
    `Match`.

    `constants` are expressions of immediates and their required values, checked at the end.
    """

    axes: dict[str, str] = field(default_factory=dict)
    buffers: dict[str, str] = field(default_factory=dict)
    entries: dict[str, tuple[ir.Expr, ...]] = field(default_factory=dict)
    immediates: dict[str, ir.Scalar] = field(default_factory=dict)
    conditions: dict[str, ir.Expr] = field(default_factory=dict)
    constants: tuple[tuple[ir.Expr, ir.Const], ...] = ()
    moving: dict[str, ir.Expr] = field(default_factory=dict)

    def copy(self) -> Bindings:
        """A copy, for backtracking."""
        return replace(
            self,
            axes=dict(self.axes),
            buffers=dict(self.buffers),
            entries=dict(self.entries),
            immediates=dict(self.immediates),
            conditions=dict(self.conditions),
            moving=dict(self.moving),
        )


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The block of an intrinsic's behaviour and its value in canonical form."""

    block: ir.Block
    store: ir.Store
    value: ir.Expr
    text: Callable[[ir.Expr], str]
    tables: frozenset[str]


@lru_cache(maxsize=256)
def _pattern_of(intrinsic: Intrinsic) -> _Pattern:
    block = next(ir.find(intrinsic.behaviour.body, ir.Block))
    assert isinstance(block.body, ir.Store)
    canonical = Canonical(intrinsic.behaviour.buffers)
    return _Pattern(block, block.body, canonical(block.body.value), canonical.text, intrinsic.tables)


class OperandMatcher:
    """Matches accesses of `block` against operands of an intrinsic.

    `inner` are the extents of the block's axes inside the tensorized loop, `loops` the loops inside
    it, outermost first.
    """

    def __init__(
        self,
        fn: ir.Function,
        block: ir.Block,
        intrinsic: ir.DeclaredIntrinsic,
        where: str,
        inner: Mapping[str, int],
        loops: tuple[str, ...],
    ) -> None:
        assert isinstance(intrinsic, Intrinsic)
        self.fn, self.block, self.intrinsic, self.where, self.inner = fn, block, intrinsic, where, inner
        self.pattern = _pattern_of(intrinsic)
        self.canonical = Canonical(fn.buffers)
        self.bindings = Bindings()
        self.remedies = Remedies(fn, block, intrinsic, loops)
        self.explaining = False

    def _fail(
        self, problem: str, remedy: str | Callable[[], str] = "", kind: type[TensorizeError] = TensorizeError
    ) -> NoReturn:
        if not isinstance(remedy, str):
            remedy = remedy() if self.explaining else ""
        raise kind(f"{self.where}: {problem}{f'; {remedy}' if remedy else ''}")

    def _scope(self, operand: str) -> str:
        return self.intrinsic.scopes[operand]

    def _match_access(
        self, operand: str, pattern: tuple[ir.Expr, ...], name: str, indices: tuple[ir.Expr, ...]
    ) -> None:
        """Operand of the intrinsic against an access of the block: dtype, scope, layout, axes."""
        wanted, buffer = self.intrinsic.behaviour.buffers[operand], self.fn.buffers[name]
        self._check_element(operand, wanted, buffer)
        rank = len(wanted.shape)
        if len(buffer.shape) < rank:
            self._fail(
                f"operand {operand} must have dimensions {list(wanted.shape)}, got {name} of {list(buffer.shape)}",
                self.remedies.pack(operand),
            )
        lead, tail = indices[: len(indices) - rank], indices[len(indices) - rank :]
        if self._scope(operand) in ANYWHERE:
            starts = tuple(self._match_window(operand, p, t, name) for p, t in zip(pattern, tail, strict=True))
            self._check_lead(operand, (*lead, *starts), tail, name)
            self._bind(operand, name, (*lead, *starts))
            return
        inside = 0
        if self._is_window(operand, pattern[0], tail[0]):
            inside, lead = 1, (*lead, self._match_window(operand, pattern[0], tail[0], name))
        for p, t in zip(pattern[inside:], tail[inside:], strict=True):
            if isinstance(p, ir.Var):
                self._match_axis(f"index {p.name} of operand {operand}", p, t, operand, name)
            elif p != t:
                self._fail(f"index {ir.expr_text(p)} of operand {operand} must be that number, got {ir.expr_text(t)}")
        if buffer.shape[len(buffer.shape) - rank + inside :] != wanted.shape[inside:]:
            self._fail(
                f"the last dimensions of operand {operand} must be {list(wanted.shape[inside:])}, one entry, "
                f"got {name} of {list(buffer.shape)}",
                self.remedies.pack(operand),
            )
        self._check_lead(operand, lead, tail, name)
        self._bind(operand, name, lead)

    def _check_element(self, operand: str, wanted: ir.Buffer, buffer: ir.Buffer) -> None:
        if buffer.dtype != wanted.dtype:
            self._fail(
                f"operand {operand} must be {wanted.dtype}, got {buffer.name} of {buffer.dtype}",
                partial(self.remedies.dtype, buffer.name, wanted.dtype),
            )
        self._check_scope(operand, buffer)

    def _is_window(self, operand: str, pattern: ir.Expr, target: ir.Expr) -> bool:
        """Whether the entry may begin anywhere along its first dimension: in a CPU's memory, at a
        sum."""
        return self._scope(operand) == MEMORY and not (isinstance(pattern, ir.Var) and isinstance(target, ir.Var))

    def _match_window(self, operand: str, pattern: ir.Expr, target: ir.Expr, name: str) -> ir.Expr:
        """The start of the window."""
        extents = {axis.var: axis.size for axis in self.pattern.block.axes}
        start = window_start(pattern, target, self.bindings.axes, self.inner, extents)
        place = "index" if self._scope(operand) in ANYWHERE else "first index"
        if start is None:
            self._fail(
                f"the {place} of operand {operand} must be {ir.expr_text(pattern)} plus a term that is constant "
                f"inside the tensorized loop, got {ir.expr_text(target)} in {name}",
                "reorder the loops, or pack the tensor",
            )
        if self._scope(operand) in ANYWHERE:
            return start
        reach = bounds(pattern, {var: (0, extent - 1) for var, extent in extents.items()})[1] + 1
        length = self.intrinsic.behaviour.buffers[operand].dims[0]
        if reach != length:  # a step reads the full entry, which would end outside the buffer
            self._fail(f"operand {operand} must be read whole to be a window, got {reach} of {length}")
        return start

    def _check_scope(self, operand: str, buffer: ir.Buffer) -> None:
        scope = self._scope(operand)
        if scope not in (buffer.scope, MEMORY):
            self._fail(
                f"operand {operand} must be in scope {scope!r}, got {buffer.name} in {buffer.scope!r}",
                f"{self.remedies.scope(buffer, scope)} puts it there",
            )

    def _match_axis(self, what: str, pattern: ir.Var, target: ir.Expr, operand: str = "", buffer: str = "") -> None:
        """An axis of the intrinsic against an axis of the block: an index of `operand`, or a number
        in the value."""
        extent = next(axis.size for axis in self.pattern.block.axes if axis.var == pattern.name)
        if target == ir.Const(0) and extent == 1:
            return
        place = f" in {buffer}" if buffer else ""
        pack = self.remedies.pack(operand) if operand else ""
        if not isinstance(target, ir.Var):
            self._fail(f"{what} must be one axis with stride 1, got {ir.expr_text(target)}{place}", pack)
        known = self.bindings.axes.get(pattern.name, target.name)
        if known != target.name:
            swap = "swap the last dimensions of that tensor" if target.name in self.inner else pack
            self._fail(f"{what} must be axis {known} as elsewhere, got {target.name}{place}", swap if operand else "")
        if target.name not in self.inner:
            self._fail(
                f"{what} must be an axis inside the tensorized loop, got {target.name} outside of it",
                partial(self.remedies.inwards, target.name),
                AxisOutsideError,
            )
        if self.inner[target.name] != extent:
            self._fail(
                f"axis {target.name} must have extent {extent}, got {self.inner[target.name]}",
                self.remedies.extent(self.inner[target.name], extent),
            )
        self.bindings.axes[pattern.name] = target.name

    def _check_lead(self, operand: str, lead: tuple[ir.Expr, ...], tail: tuple[ir.Expr, ...], name: str) -> None:
        """Check that the leading indices select one entry, known at compile time."""
        for index in lead:
            for e in ir.walk_expr(index):
                if isinstance(e, ir.Load):
                    self._fail(
                        f"operand {operand} must be at a place known at compile time, got {name} at index "
                        f"{ir.expr_text(index)}, which reads {e.buffer}",
                        "gather it before",
                    )
                if isinstance(e, ir.Var) and self.inner.get(e.name, 1) > 1:
                    of_entry = e in tail or e.name in self.bindings.axes.values()
                    self._fail(
                        f"operand {operand} must be one entry of {name}, got index {ir.expr_text(index)}, which "
                        f"depends on axis {e.name} inside the tensorized loop",
                        self.remedies.pack(operand) if of_entry else partial(self.remedies.outwards, e.name),
                    )

    def _bind(self, operand: str, name: str, lead: tuple[ir.Expr, ...]) -> None:
        if self.bindings.buffers.setdefault(operand, name) != name:
            self._fail(f"operand {operand} must be one buffer, got {self.bindings.buffers[operand]} and {name}")
        if self.bindings.entries.setdefault(operand, lead) != lead:
            self._fail(f"operand {operand} must be one entry, got two different ones of {name}")


# --- windows --------------------------------------------------------------------------------------


def window_start(
    pattern: ir.Expr, target: ir.Expr, axes: dict[str, str], inner: Mapping[str, int], extents: Mapping[str, int]
) -> ir.Expr | None:
    """The start of the window that `target` accesses; None if it does not match `pattern`.

    `axes` maps axes of the intrinsic to axes of the block and is extended; `inner` has the extents
    of the block's axes inside the tensorized loop, `extents` those of the intrinsic's axes.
    """
    form, rest = linear(pattern), linear(target) + (-linear(pattern).const)
    for term, factor in form.terms.items():
        if not isinstance(term, ir.Var):
            return None
        axis = axes.get(term.name) or _partner(rest, factor, extents[term.name], axes, inner)
        if axis is None and extents[term.name] == 1:
            continue
        if axis is None or rest.terms.get(ir.Var(axis)) != factor:
            return None
        axes[term.name] = axis
        rest = rest + Linear({ir.Var(axis): -factor})
    moving = {name for part in rest.terms for name in var_names(part) if inner.get(name, 1) > 1}
    return None if moving else rest.expr()


def _partner(rest: Linear, factor: int, extent: int, axes: Mapping[str, str], inner: Mapping[str, int]) -> str | None:
    """A free block axis of the same extent and stride."""
    free = (name for name in inner if name not in axes.values() and inner[name] == extent)
    return next((name for name in free if rest.terms.get(ir.Var(name)) == factor), None)
