"""Matching one block against the behaviour of an intrinsic, expression by expression.

The first difference ends the search with its place and its remedy. Operands of commutative operations may stand either
way round: what was found on a way that failed is forgotten before the other way is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from vdla.compiler import ir
from vdla.compiler.arith import TRUE, bounds
from vdla.compiler.ir import Match, expr_text
from vdla.compiler.tensorize.entry_window import window_start
from vdla.compiler.tensorize.intrinsic import CONDITION, IMMEDIATE, MEMORY
from vdla.support.errors import Error


class TensorizeError(Error, ValueError):
    """A loop nest that is not what the intrinsic computes."""


@dataclass
class Found:
    """What has been matched: the block's axis for each axis of the intrinsic, and the parts of a `Match`."""

    axes: dict[str, str] = field(default_factory=dict)
    buffers: dict[str, str] = field(default_factory=dict)
    entries: dict[str, tuple[ir.Expr, ...]] = field(default_factory=dict)
    immediates: dict[str, ir.Scalar] = field(default_factory=dict)
    conditions: dict[str, ir.Expr] = field(default_factory=dict)

    def copy(self) -> Found:
        """The same, to come back to."""
        return Found(
            dict(self.axes), dict(self.buffers), dict(self.entries), dict(self.immediates), dict(self.conditions)
        )


class Matcher:
    """Matches `block`; `inner` are the extents of its axes inside the tensorized loop."""

    def __init__(
        self, fn: ir.Function, block: ir.Block, intrinsic: ir.DeclaredIntrinsic, where: str, inner: Mapping[str, int]
    ) -> None:
        self.fn, self.block, self.intrinsic, self.where, self.inner = fn, block, intrinsic, where, inner
        self.pattern = next(s for s in ir.walk(intrinsic.behaviour.body) if isinstance(s, ir.Block))
        self.found = Found()

    def match(self) -> Match:
        """How the block computes the intrinsic, or a TensorizeError."""
        pattern, target = self.pattern.body, self.block.body
        assert isinstance(pattern, ir.Store)
        if not isinstance(target, ir.Store):
            raise self.fail("the block must be a single store, got a nested statement; tensorize the block inside")
        self._check_kind()
        self._match_access(pattern.buffer, pattern.indices, target.buffer, target.indices)
        self._unify(pattern.value, target.value)
        self._check_init()
        self._check_axes()
        found = self.found
        single = {axis: ir.Const(0) for axis, extent in self.inner.items() if extent == 1}  # gone outside of the nest
        entries = {name: tuple(ir.substitute(e, single) for e in at) for name, at in found.entries.items()}
        conditions = {name: condition for name, condition in found.conditions.items() if condition != TRUE}
        return Match(self.intrinsic, found.buffers, entries, found.immediates, conditions)

    def fail(self, problem: str) -> TensorizeError:
        """The error for a difference."""
        return TensorizeError(f"{self.where}: {problem}")

    # -- the block as a whole

    def _check_kind(self) -> None:
        if self.pattern.init is not None and self.block.init is None:
            raise self.fail(
                f"{self.intrinsic.name} accumulates, so the block must be a reduction, got a plain computation; "
                "write the stage as a reduction (te.sum, te.max, ...)"
            )
        if self.pattern.init is None and self.block.init is not None:
            raise self.fail(
                f"{self.intrinsic.name} does not accumulate, so the block must be a plain computation, got a reduction"
                "; use an intrinsic that accumulates"
            )

    def _check_init(self) -> None:
        wanted, found = self.pattern.init, self.block.init
        if wanted is None:
            return
        assert isinstance(wanted, ir.Store)
        if not isinstance(found, ir.Store) or found.value != wanted.value:
            got = expr_text(found.value) if isinstance(found, ir.Store) else "a nested statement"
            raise self.fail(
                f"the reduction must start from {expr_text(wanted.value)}, got {got}; "
                "start it so, and add the start value in a stage of its own"
            )

    def _check_axes(self) -> None:
        """Every inner axis of the block is an axis of the intrinsic, of the same kind."""
        taken = {axis: name for name, axis in self.found.axes.items()}
        kinds = {axis.var: axis.kind for axis in self.block.axes}
        wanted = {axis.var: axis.kind for axis in self.pattern.axes}
        for axis, extent in self.inner.items():
            if axis not in taken and extent > 1:
                raise self.fail(
                    f"axis {axis} of extent {extent} must be outside the tensorized loop, as {self.intrinsic.name} has "
                    "no such axis, got it inside; reorder it outwards"
                )
        for axis, name in taken.items():
            if kinds[axis] is not wanted[name]:
                raise self.fail(f"axis {axis} must be a {wanted[name].value} axis, got a {kinds[axis].value} axis")

    # -- values

    def _unify(self, pattern: ir.Expr, target: ir.Expr) -> None:
        match pattern, target:
            case ir.Load(buffer=name), _ if self._scope(name) == IMMEDIATE:
                self._match_immediate(name, target)
            case ir.Load(buffer=name), _ if self._scope(name) == CONDITION:
                self._match_condition(name, target)
            case ir.Load(), ir.Load():
                self._match_access(pattern.buffer, pattern.indices, target.buffer, target.indices)
            case ir.Binary(op=op, b=ir.Load(buffer=name)), _ if (
                op in ir.RIGHT_IDENTITY and self._scope(name) == IMMEDIATE
            ):
                self._match_neutral(pattern, name, target)
            case ir.Binary(), ir.Binary() if pattern.op == target.op:
                self._match_binary(pattern, target)
            case ir.Cast(), ir.Cast() if pattern.dtype == target.dtype:
                self._unify(pattern.value, target.value)
            case ir.Cast(), ir.Cast():
                raise self.fail(f"{expr_text(target)} must be a cast to {pattern.dtype}, got one to {target.dtype}")
            case ir.Call(), ir.Call() if pattern.name == target.name:
                for p, t in zip(pattern.args, target.args, strict=True):
                    self._unify(p, t)
            case ir.Select(), ir.Select():
                for p, t in zip(ir.operands(pattern), ir.operands(target), strict=True):
                    self._unify(p, t)
            case ir.Select(cond=ir.Load(buffer=name)), _ if self._scope(name) == CONDITION:
                self._match_condition(name, TRUE)  # no condition: it always holds
                self._unify(pattern.a, target)
            case ir.Const(), ir.Const() if pattern == target:
                pass
            case ir.Var(), _:
                self._match_axis(f"{pattern.name} in the value", pattern, target)
            case _:
                raise self._wrong_form(pattern, target)

    def _wrong_form(self, pattern: ir.Expr, target: ir.Expr) -> TensorizeError:
        return self.fail(f"the value must have the form {expr_text(pattern)}, got {expr_text(target)}")

    def _either(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """The first way, or the second; where both fail, why the first did."""
        before = self.found.copy()
        try:
            first()
        except TensorizeError as error:
            self.found = before
            try:
                second()
            except TensorizeError:
                raise error from None

    def _may_be_left_out(self, op: str, operand: str) -> bool:
        """Whether the pattern's operation with `operand` is the identity for some immediate."""
        return op in ir.RIGHT_IDENTITY and self._scope(operand) == IMMEDIATE

    def _match_neutral(self, pattern: ir.Binary, immediate: str, target: ir.Expr) -> None:
        """An operation with an immediate; one that changes nothing may have been left out of the target."""

        def written() -> None:
            if not isinstance(target, ir.Binary) or target.op != pattern.op:
                raise self._wrong_form(pattern, target)
            self._match_binary(pattern, target)

        def left_out() -> None:
            self._unify(pattern.a, target)
            dtype = self.intrinsic.behaviour.buffers[immediate].dtype
            self._match_immediate(immediate, ir.Const(ir.RIGHT_IDENTITY[pattern.op], dtype))

        self._either(written, left_out)

    def _match_binary(self, pattern: ir.Binary, target: ir.Binary) -> None:
        def straight() -> None:
            self._unify(pattern.a, target.a)
            self._unify(pattern.b, target.b)

        def crossed() -> None:
            self._unify(pattern.a, target.b)
            self._unify(pattern.b, target.a)

        if pattern.op in ir.COMMUTATIVE_OPS:
            self._either(straight, crossed)
        else:
            straight()

    def _scope(self, operand: str) -> str:
        return self.intrinsic.scopes[operand]

    def _match_immediate(self, name: str, target: ir.Expr) -> None:
        dtype = self.intrinsic.behaviour.buffers[name].dtype
        if isinstance(target, ir.Cast) and isinstance(target.value, ir.Const):
            target = ir.Const(target.value.value, target.dtype)
        if not isinstance(target, ir.Const) or target.dtype != dtype:
            raise self.fail(f"{name} must be a constant of {dtype}, got {expr_text(target)}")
        if self.found.immediates.setdefault(name, target.value) != target.value:
            raise self.fail(f"{name} must be one constant, got {self.found.immediates[name]} and {target.value}")

    def _match_condition(self, name: str, target: ir.Expr) -> None:
        for e in ir.walk_expr(target):
            if isinstance(e, ir.Load):
                raise self.fail(f"{name} must be a condition on loop variables, got {expr_text(target)}")
            if isinstance(e, ir.Var) and self.inner.get(e.name, 1) > 1:
                raise self.fail(
                    f"{name} must be the same for a whole entry, got {expr_text(target)}, "
                    f"which depends on axis {e.name}"
                )
        if (known := self.found.conditions.setdefault(name, target)) != target:
            raise self.fail(f"{name} must be one condition, got {expr_text(known)} and {expr_text(target)}")

    # -- operands

    def _match_access(
        self, operand: str, pattern: tuple[ir.Expr, ...], name: str, indices: tuple[ir.Expr, ...]
    ) -> None:
        """Operand of the intrinsic against an access of the block: scope, dtype, layout, axes."""
        wanted, found = self.intrinsic.behaviour.buffers[operand], self.fn.buffers[name]
        self._check_scope(operand, found)
        if found.dtype != wanted.dtype:
            raise self.fail(f"operand {operand} must be {wanted.dtype}, got {name} of {found.dtype}; declare it so")
        rank = len(wanted.shape)
        if len(found.shape) < rank:
            raise self.fail(
                f"operand {operand} must have dimensions {list(wanted.shape)}, got {name} of {list(found.shape)}; "
                "pack the tensor so that these come last"
            )
        lead, tail = indices[: len(indices) - rank], indices[len(indices) - rank :]
        inside = 0
        if self._is_window(operand, pattern[0], tail[0]):
            inside, lead = 1, (*lead, self._match_window(operand, pattern[0], tail[0], name))
        for p, t in zip(pattern[inside:], tail[inside:], strict=True):
            assert isinstance(p, ir.Var)
            self._match_axis(f"index {p.name} of operand {operand}", p, t, name)
        if found.shape[len(found.shape) - rank + inside :] != wanted.shape[inside:]:
            raise self.fail(
                f"the last dimensions of operand {operand} must be {list(wanted.shape[inside:])}, one entry, "
                f"got {name} of {list(found.shape)}; pack the tensor so that these come last"
            )
        self._check_lead(operand, lead, name)
        self._bind(operand, name, lead)

    def _is_window(self, operand: str, pattern: ir.Expr, target: ir.Expr) -> bool:
        """Whether the entry may begin anywhere along its first dimension: in a CPU's memory, at a sum."""
        return self._scope(operand) == MEMORY and not (isinstance(pattern, ir.Var) and isinstance(target, ir.Var))

    def _match_window(self, operand: str, pattern: ir.Expr, target: ir.Expr, name: str) -> ir.Expr:
        """Where the window begins."""
        extents = {axis.var: axis.size for axis in self.pattern.axes}
        start = window_start(pattern, target, self.found.axes, self.inner, extents)
        if start is None:
            raise self.fail(
                f"the first index of operand {operand} must be {expr_text(pattern)} plus what stands still inside the "
                f"tensorized loop, got {expr_text(target)} in {name}; reorder the loops, or pack the tensor"
            )
        reach = bounds(pattern, {var: (0, extent - 1) for var, extent in extents.items()})[1] + 1
        length = self.intrinsic.behaviour.buffers[operand].dims[0]
        if reach != length:  # a step takes all of its entry, which would end outside of the buffer
            raise self.fail(f"operand {operand} must be read whole to be a window, got {reach} of {length}")
        return start

    def _check_scope(self, operand: str, found: ir.Buffer) -> None:
        scope = self._scope(operand)
        if scope in (found.scope, MEMORY):
            return
        assert isinstance(self.block.body, ir.Store)
        written = found.name == self.block.body.buffer
        if found.scope == "global" and found.name in self.fn.params:
            primitive = "cache_write" if written else "cache_read"
            read = "" if written else f"{found.name!r}, "
            remedy = f"{primitive}({self.block.name!r}, {read}{scope!r})"
        else:
            remedy = f"set_scope({found.name!r}, {scope!r})"
        raise self.fail(
            f"operand {operand} must be in scope {scope!r}, got {found.name} in {found.scope!r}; {remedy} puts it there"
        )

    def _match_axis(self, what: str, pattern: ir.Var, target: ir.Expr, buffer: str = "") -> None:
        """An axis of the intrinsic against an axis of the block: an index of `buffer`, or a number in the value."""
        extent = next(axis.extent for axis in self.pattern.axes if axis.var == pattern.name)
        if target == ir.Const(0) and extent == 1:
            return
        place, packed = (f" in {buffer}", "; pack the tensor so that it is") if buffer else ("", "")
        if not isinstance(target, ir.Var):
            raise self.fail(f"{what} must be one axis with stride 1, got {expr_text(target)}{place}{packed}")
        if target.name not in self.inner:
            raise self.fail(
                f"{what} must be an axis inside the tensorized loop, got {target.name} outside of it; "
                "reorder its loop inwards, or tensorize further out"
            )
        if self.inner[target.name] != extent:
            raise self.fail(
                f"axis {target.name} must have extent {extent}, got {self.inner[target.name]}; "
                f"pad or split it to {extent}"
            )
        if self.found.axes.setdefault(pattern.name, target.name) != target.name:
            swap = "; swap the last dimensions of that tensor" if buffer else ""
            raise self.fail(
                f"{what} must be axis {self.found.axes[pattern.name]} as elsewhere, got {target.name}{place}{swap}"
            )

    def _check_lead(self, operand: str, lead: tuple[ir.Expr, ...], name: str) -> None:
        """The leading indices choose an entry: the same for all of it, and known when the program is compiled."""
        for index in lead:
            for e in ir.walk_expr(index):
                if isinstance(e, ir.Load):
                    raise self.fail(
                        f"operand {operand} must be at a place known at compile time, got {name} at index "
                        f"{expr_text(index)}, which reads {e.buffer}; gather it before"
                    )
                if isinstance(e, ir.Var) and self.inner.get(e.name, 1) > 1:
                    raise self.fail(
                        f"operand {operand} must be one entry of {name}, got index {expr_text(index)}, which depends "
                        f"on axis {e.name} inside the tensorized loop; pack the tensor"
                    )

    def _bind(self, operand: str, name: str, lead: tuple[ir.Expr, ...]) -> None:
        if self.found.buffers.setdefault(operand, name) != name:
            raise self.fail(f"operand {operand} must be one buffer, got {self.found.buffers[operand]} and {name}")
        if self.found.entries.setdefault(operand, lead) != lead:
            raise self.fail(f"operand {operand} must be one entry, got two different ones of {name}")
