# SPDX-License-Identifier: Apache-2.0
"""Matching one block against the behaviour of an intrinsic, expression by expression.

Both values are compared in canonical form. Operands of commutative operations may be swapped; the
bindings of a failed attempt are undone. The error is the first difference and its remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NoReturn

from vdla.compiler import ir
from vdla.compiler.arith import TRUE
from vdla.compiler.tensorize.canonical import Canonical, constant
from vdla.compiler.tensorize.fragment import TensorizeError
from vdla.compiler.tensorize.immediate_matcher import ImmediateMatcher, power_of_two, solve
from vdla.compiler.tensorize.intrinsic import CONDITION
from vdla.compiler.tensorize.operand_matcher import Bindings


class Matcher(ImmediateMatcher):
    """Matches the value and the operands of a block."""

    def match(self) -> ir.Match:
        """The match of the block with the intrinsic.

        Raises:
            TensorizeError: it does not match; a second run then finds the remedy.
        """
        try:
            return self._match()
        except TensorizeError:
            self.explaining, self.bindings = True, Bindings()
            return self._match()

    def _match(self) -> ir.Match:
        pattern, target = self.pattern.store, self.block.body
        if not isinstance(target, ir.Store):
            self._fail("the block must be a single store, got a nested statement; tensorize the block inside")
        value = self.canonical(target.value)
        self._check_kind(value)
        self._match_access(pattern.buffer, pattern.indices, target.buffer, target.indices)
        self._unify(self.pattern.value, value)
        self._check_constants()
        self._check_init()
        self._check_axes()
        bindings = self.bindings
        single = {axis: ir.Const(0) for axis, extent in self.inner.items() if extent == 1}  # constant inside the step
        entries = {name: tuple(ir.substitute(e, single) for e in at) for name, at in bindings.entries.items()}
        conditions = {name: condition for name, condition in bindings.conditions.items() if condition != TRUE}
        return ir.Match(self.intrinsic, bindings.buffers, entries, bindings.immediates, conditions, bindings.moving)

    # -- the block as a whole

    def _check_kind(self, value: ir.Expr) -> None:
        wanted, got = self.pattern.block.init, self.block.init
        name = self.intrinsic.name
        if wanted is not None and got is None:
            self._fail(
                f"{name} accumulates, so the block must be a reduction, got a plain computation",
                f"write the stage as a reduction ({self.remedies.reducer(self.pattern.value)})",
            )
        if wanted is None and got is not None:
            self._fail(
                f"{name} does not accumulate, so the block must be a plain computation, got a reduction",
                "use an intrinsic that accumulates",
            )
        if wanted is None:
            return
        pattern_op, op = self.remedies.reducer(self.pattern.value), self.remedies.reducer(value)
        if pattern_op != op:
            self._fail(f"{name} accumulates by {pattern_op}, got {op}", f"write the stage with {pattern_op}")

    def _check_init(self) -> None:
        """On a CPU or a GPU sums start from anything: their start becomes a nest of its own."""
        wanted, init = self.pattern.block.init, self.block.init
        if wanted is None:
            return
        assert isinstance(wanted, ir.Store)
        if not isinstance(init, ir.Store) or (init.value != wanted.value and self.intrinsic.target == "vdla"):
            got = ir.expr_text(init.value) if isinstance(init, ir.Store) else "a nested statement"
            start = ir.expr_text(wanted.value)
            self._fail(
                f"the reduction must start from {start}, got {got}",
                f"start it from {start}, and add the start value in a stage of its own",
            )

    def _check_axes(self) -> None:
        """Check that every inner axis of the block is one of the intrinsic, of the same kind."""
        names = {axis: name for name, axis in self.bindings.axes.items()}
        kinds = {axis.var: axis.kind for axis in self.block.axes}
        wanted = {axis.var: axis.kind for axis in self.pattern.block.axes}
        for axis, extent in self.inner.items():
            if axis not in names and extent > 1:
                self._fail(
                    f"axis {axis} of extent {extent} must be outside the tensorized loop, as {self.intrinsic.name} has "
                    "no such axis, got it inside",
                    partial(self.remedies.outwards, axis),
                )
        for axis, name in names.items():
            if kinds[axis] is not wanted[name]:
                self._fail(f"axis {axis} must be a {wanted[name].value} axis, got a {kinds[axis].value} axis")

    # -- values

    def _unify(self, pattern: ir.Expr, target: ir.Expr) -> None:
        match pattern, target:
            case _ if self._is_immediate(pattern):
                self._match_constant(pattern, target)
            case ir.Load(buffer=name), _ if self._scope(name) == CONDITION:
                self._match_condition(name, target)
            case ir.Load(buffer=name), ir.Load() if name in self.pattern.tables:
                self._match_table(pattern, target)
            case ir.Load(), ir.Load():
                self._match_access(pattern.buffer, pattern.indices, target.buffer, target.indices)
            case ir.Binary(op=op, b=b), _ if op in ir.RIGHT_IDENTITY and self._is_immediate(b):
                self._match_neutral(pattern, target)
            case ir.Binary(), ir.Binary():
                self._match_binary(pattern, target)
            case ir.Cast(), ir.Cast() if pattern.dtype == target.dtype:
                self._unify(pattern.value, target.value)
            case ir.Cast(), ir.Cast():
                self._fail(
                    f"{self.canonical.text(target)} must be a cast to {pattern.dtype}, got one to {target.dtype}"
                )
            case ir.Call(), ir.Call() if pattern.name == target.name:
                for p, t in zip(pattern.args, target.args, strict=True):
                    self._unify(p, t)
            case ir.Select(), ir.Select():
                for p, t in zip(ir.operands(pattern), ir.operands(target), strict=True):
                    self._unify(p, t)
            case ir.Select(cond=ir.Load(buffer=name)), _ if self._scope(name) == CONDITION:
                self._match_condition(name, TRUE)  # unconditional
                self._unify(pattern.a, target)
            case ir.Const(), ir.Const() if pattern == target:
                pass
            case ir.Var(), _:
                self._match_axis(f"{pattern.name} in the value", pattern, target)
            case _:
                self._fail_form(pattern, target)

    def _fail_form(self, pattern: ir.Expr, target: ir.Expr) -> NoReturn:
        self._fail(
            f"the value must have the form {self.pattern.text(pattern)}, got {self.canonical.text(target)}",
            lambda: self._form_remedy(pattern, target),
        )

    def _form_remedy(self, pattern: ir.Expr, target: ir.Expr) -> str:
        match target:
            case ir.Binary("sub", a=ir.Const(value=minuend)):
                return self.remedies.negation(int(minuend))
        extra = self._extra_term(pattern, target) if isinstance(target, ir.Binary) else ""
        return extra or self.remedies.cast(pattern, target)

    def _extra_term(self, pattern: ir.Expr, target: ir.Binary) -> str:
        """The remedy for an operation whose other operand matches; empty if neither does."""
        for inner, other, behind in ((target.a, target.b, True), (target.b, target.a, False)):
            if self._matches(pattern, inner):
                return self.remedies.extra_term(target.op, self.canonical.text(other), behind)
        return ""

    def _matches(self, pattern: ir.Expr, target: ir.Expr) -> bool:
        """Whether two values match; binds nothing."""
        before, self.explaining = self.bindings.copy(), False
        try:
            self._unify(pattern, target)
        except TensorizeError:
            return False
        finally:
            self.bindings, self.explaining = before, True
        return True

    def _either(self, first: Callable[[], None], second: Callable[[], None]) -> None:
        """Try `first`, then `second`; if both fail, raise the error of `first`."""
        before = self.bindings.copy()
        try:
            first()
        except TensorizeError as error:
            self.bindings = before
            try:
                second()
            except TensorizeError:
                raise error from None

    def _match_neutral(self, pattern: ir.Binary, target: ir.Expr) -> None:
        """Match an operation with an immediate, which the target may omit if it is the identity."""

        def written() -> None:
            if not isinstance(target, ir.Binary):
                self._fail_form(pattern, target)
            self._match_binary(pattern, target)

        def left_out() -> None:
            self._unify(pattern.a, target)
            dtype = ir.dtype_of(pattern.b, self.intrinsic.behaviour.buffers)
            self._match_constant(pattern.b, ir.Const(ir.RIGHT_IDENTITY[pattern.op], dtype))

        self._either(written, left_out)

    def _match_binary(self, pattern: ir.Binary, target: ir.Binary) -> None:
        def straight() -> None:
            self._unify(pattern.a, target.a)
            self._unify(pattern.b, target.b)

        def crossed() -> None:
            self._unify(pattern.a, target.b)
            self._unify(pattern.b, target.a)

        try:
            if pattern.op != target.op:
                self._match_other_operator(pattern, target)
            elif pattern.op in ir.COMMUTATIVE_OPS:
                self._either(straight, crossed)
            else:
                straight()
        except TensorizeError:
            if self.explaining and self._differs_in_form(pattern, target):
                self._fail_form(pattern, target)
            raise

    def _differs_in_form(self, pattern: ir.Binary, target: ir.Binary) -> bool:
        """Whether two values that do not match are better compared as a whole than by operand."""
        if target.op == "sub" and isinstance(target.a, ir.Const):
            return True
        return not self._is_immediate(pattern.b) and bool(self._extra_term(pattern, target))

    def _match_other_operator(self, pattern: ir.Binary, target: ir.Binary) -> None:
        """Match an operation whose canonical form with a constant has another operator."""
        match pattern, target:
            case ir.Binary("sub", a=a, b=b), ir.Binary("add", a=x, b=ir.Const() as c) if self._is_immediate(b):
                self._unify(a, x)
                self._match_constant(b, constant(-int(c.value), c.dtype))
            case ir.Binary("shl", a=a, b=b), ir.Binary("mul", a=x, b=ir.Const() as c) if (
                self._is_immediate(b) and (amount := power_of_two(c)) is not None
            ):
                self._unify(a, x)
                self._match_constant(b, amount)
            case ir.Binary("max", a=ir.Binary("min", a=a, b=high), b=low), ir.Binary(
                "min", a=ir.Binary("max", a=x, b=ir.Const() as c), b=ir.Const() as d
            ) if self._is_immediate(high) and self._is_immediate(low) and c.value <= d.value:
                self._unify(a, x)
                self._match_constant(low, c)
                self._match_constant(high, d)
            case ir.Binary("floordiv", a=a, b=b), ir.Binary("shr", a=x, b=ir.Const() as c) if self._is_immediate(b):
                self._unify(a, x)
                self._match_constant(b, constant(1 << int(c.value), c.dtype))
            case ir.Binary("mod", a=a, b=b), ir.Binary("and", a=x, b=ir.Const() as c) if (
                self._is_immediate(b) and power_of_two(constant(int(c.value) + 1, c.dtype)) is not None
            ):
                self._unify(a, x)
                self._match_constant(b, constant(int(c.value) + 1, c.dtype))
            case _:
                self._fail_form(pattern, target)

    # -- tables

    def _match_table(self, pattern: ir.Load, target: ir.Load) -> None:
        """Match an operand that is indexed by data: the whole of it, and each index."""
        operand, name = pattern.buffer, target.buffer
        wanted, buffer = self.intrinsic.behaviour.buffers[operand], self.fn.buffers[name]
        self._check_element(operand, wanted, buffer)
        rank = len(wanted.shape)
        if buffer.shape[-rank:] != wanted.shape:
            self._fail(
                f"the last dimensions of operand {operand} must be {list(wanted.shape)}, got {name} of "
                f"{list(buffer.shape)}",
                self.remedies.pack(operand),
            )
        lead, tail = target.indices[:-rank], target.indices[-rank:]
        canonical_index = Canonical(self.intrinsic.behaviour.buffers)
        for p, t in zip(pattern.indices, tail, strict=True):
            self._unify(canonical_index(p), self.canonical(t))
        self._check_lead(operand, lead, tail, name)
        self._bind(operand, name, lead)

    # -- immediates and conditions

    def _match_constant(self, pattern: ir.Expr, target: ir.Expr) -> None:
        """Match an expression of immediates with a constant, and bind an immediate that follows."""
        if isinstance(pattern, ir.Load):
            self._match_immediate(pattern.buffer, target)
            return
        if not isinstance(target, ir.Const):
            self._fail_form(pattern, target)
        self.bindings.constants = (*self.bindings.constants, (pattern, target))
        solved = solve(pattern, target, self.intrinsic.behaviour.buffers)
        if solved is not None:
            self._match_immediate(*solved)
