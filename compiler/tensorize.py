"""Tensorize: a loop nest that computes what an intrinsic declares becomes steps of that intrinsic.

The nest stays as it is and keeps its meaning; the block is annotated with the `Match`, and lowering emits instructions
for it. A nest that does not match is refused with the first axis, stride, dtype or scope that differs and its remedy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vdla.compiler import ir
from vdla.compiler.intrinsic import CONDITION, IMMEDIATE, Intrinsic, Match
from vdla.compiler.printer import expr_text

NEUTRAL = {"add": 0, "sub": 0, "mul": 1, "shl": 0, "shr": 0}
COMMUTATIVE = ("add", "mul", "min", "max", "and", "or", "eq", "ne")


class TensorizeError(ValueError):
    """A loop nest that is not what the intrinsic computes."""


def tensorize(fn: ir.Function, loop: str, intrinsic: Intrinsic) -> ir.Function:
    """Run the nest from `loop` inwards as one step of `intrinsic`.

    before: for b in range(1): for o in range(16): for i in range(16): acc[..., b, o] += cast(inp[..., b, i]) * ...
    after:  the same nest, marked: its block is a step of the intrinsic

    Raises:
        TensorizeError: names what differs and how to schedule the nest so that it matches.
    """
    nest = find_loop(fn, loop)
    block, loops = perfect_nest(nest, intrinsic)
    match = match_block(fn, block, loops, intrinsic)
    marked = replace(block, annotations={**block.annotations, "intrinsic": match})
    return replace(fn, body=_mark(fn.body, loop, block, marked, intrinsic))


def find_loop(fn: ir.Function, loop: str) -> ir.For:
    """The loop of that name."""
    for stmt in ir.walk(fn.body):
        if isinstance(stmt, ir.For) and stmt.var == loop:
            return stmt
    names = [s.var for s in ir.walk(fn.body) if isinstance(s, ir.For)]
    raise TensorizeError(f"tensorize: loop must be one of {', '.join(names)}, got {loop!r}")


def perfect_nest(nest: ir.For, intrinsic: Intrinsic) -> tuple[ir.Block, dict[str, int]]:
    """The one block inside and the extents of the loops around it, from `nest` inwards."""
    loops: dict[str, int] = {}
    stmt: ir.Stmt = nest
    while isinstance(stmt, ir.For):
        loops[stmt.var] = stmt.extent
        stmt = stmt.body
    if not isinstance(stmt, ir.Block):
        raise TensorizeError(
            f"tensorize {intrinsic.name} at loop {nest.var}: the loops inside must hold a single block, got {len(ir.children(stmt))} "
            "statements; move the others out with compute_at or reverse_compute_at an outer loop"
        )
    return stmt, loops


def match_block(fn: ir.Function, block: ir.Block, loops: Mapping[str, int], intrinsic: Intrinsic) -> Match:
    """How `block`, over the given inner loops, is one step of `intrinsic`."""
    where = f"tensorize {intrinsic.name} at block {block.name}"
    pattern = next(s for s in ir.walk(intrinsic.behaviour.body) if isinstance(s, ir.Block))
    state = _Matcher(fn, block, intrinsic, where, _inner_axes(block, loops, where))
    assert isinstance(pattern.body, ir.Store)
    if not isinstance(block.body, ir.Store):
        raise TensorizeError(f"{where}: the block must be a single store, got a nested statement; tensorize the inner block")
    state.check_block(pattern)
    state.match_access(pattern.body.buffer, pattern.body.indices, block.body.buffer, block.body.indices)
    state.unify(pattern.body.value, block.body.value)
    state.check_init(pattern)
    state.check_axes(pattern, loops)
    return Match(intrinsic, state.buffers, state.entries, state.immediates, state.conditions)


def _inner_axes(block: ir.Block, loops: Mapping[str, int], where: str) -> dict[str, int]:
    """The block axes that the inner loops run through, each by one whole loop."""
    inner: dict[str, int] = {}
    for axis, value in zip(block.axes, block.values, strict=True):
        used = [e.name for e in ir.walk_expr(value) if isinstance(e, ir.Var) and e.name in loops]
        if not used:
            continue
        if value != ir.Var(used[0]) or loops[used[0]] != axis.extent:
            raise TensorizeError(
                f"{where}: axis {axis.var} must be one whole loop of extent {axis.extent} inside the tensorized loop, got {expr_text(value)} "
                f"with loop extents {', '.join(f'{v}={loops[v]}' for v in used)}; undo its split, or tensorize further in"
            )
        inner[axis.var] = axis.extent
    bound = {v.name for v in block.values if isinstance(v, ir.Var)}
    for loop, extent in loops.items():
        if loop not in bound and extent > 1:
            raise TensorizeError(f"{where}: loop {loop} of extent {extent} must drive an axis of the block, got none; reorder it outwards")
    return inner


@dataclass
class _Matcher:
    """What has been matched so far; every check raises with the place and the remedy."""

    fn: ir.Function
    block: ir.Block
    intrinsic: Intrinsic
    where: str
    inner: dict[str, int]
    axes: dict[str, str] = field(default_factory=dict)  # pattern axis -> block axis
    buffers: dict[str, str] = field(default_factory=dict)
    entries: dict[str, tuple[ir.Expr, ...]] = field(default_factory=dict)
    immediates: dict[str, ir.Scalar] = field(default_factory=dict)
    conditions: dict[str, ir.Expr] = field(default_factory=dict)

    def fail(self, problem: str) -> TensorizeError:
        return TensorizeError(f"{self.where}: {problem}")

    def check_block(self, pattern: ir.Block) -> None:
        assert isinstance(self.block.body, ir.Store)
        if (pattern.init is None) != (self.block.init is None) and pattern.init is not None:
            raise self.fail(f"{self.intrinsic.name} accumulates, so the block must be a reduction, got a plain computation")
        if pattern.init is None and self.block.init is not None:
            raise self.fail(f"{self.intrinsic.name} does not accumulate, so the block must not be a reduction, got one")

    def check_init(self, pattern: ir.Block) -> None:
        if pattern.init is None:
            return
        assert isinstance(pattern.init, ir.Store) and isinstance(self.block.init, ir.Store)
        if pattern.init.value != self.block.init.value:
            raise self.fail(
                f"the reduction must start from {expr_text(pattern.init.value)}, got {expr_text(self.block.init.value)}"
            )

    def check_axes(self, pattern: ir.Block, loops: Mapping[str, int]) -> None:
        """Every inner axis of the block is an axis of the intrinsic, of the same extent and kind."""
        taken = {b: p for p, b in self.axes.items()}
        kinds = {axis.var: axis.kind for axis in self.block.axes}
        wanted = {axis.var: axis for axis in pattern.axes}
        for axis, extent in self.inner.items():
            if axis not in taken and extent > 1:
                raise self.fail(
                    f"axis {axis} of extent {extent} is inside the tensorized loop but {self.intrinsic.name} has no such axis; "
                    "reorder it outwards"
                )
        for axis, name in taken.items():
            if kinds[axis] is not wanted[name].kind:
                raise self.fail(f"axis {axis} must be a {wanted[name].kind.value} axis, got {kinds[axis].value}")

    # -- expressions

    def unify(self, pattern: ir.Expr, target: ir.Expr) -> None:
        """Match two values or raise; operands of commutative operations may stand either way round."""
        match pattern, target:
            case ir.Load(buffer=name), _ if self._scope(name) == IMMEDIATE:
                self._match_immediate(name, target)
            case ir.Load(buffer=name), _ if self._scope(name) == CONDITION:
                self._match_condition(name, target)
            case ir.Load(), ir.Load():
                self.match_access(pattern.buffer, pattern.indices, target.buffer, target.indices)
            case ir.Binary(op=op, a=a, b=ir.Load(buffer=name)), _ if op in NEUTRAL and self._scope(name) == IMMEDIATE:
                self._match_neutral(pattern, a, name, target)
            case ir.Binary(), ir.Binary() if pattern.op == target.op:
                self._match_binary(pattern, target)
            case ir.Cast(), ir.Cast():
                if pattern.dtype != target.dtype:
                    raise self.fail(f"cast must be to {pattern.dtype}, got {target.dtype}")
                self.unify(pattern.value, target.value)
            case ir.Select(), ir.Select():
                for p, t in zip(ir.operands(pattern), ir.operands(target), strict=True):
                    self.unify(p, t)
            case ir.Select(cond=ir.Load(buffer=name)), _ if self._scope(name) == CONDITION:
                self.unify(pattern.a, target)  # no condition: it always holds
            case ir.Const(), ir.Const() if pattern == target:
                pass
            case _:
                raise self.fail(f"the value must have the form {expr_text(pattern)}, got {expr_text(target)}")

    def _match_neutral(self, pattern: ir.Binary, a: ir.Expr, immediate: str, target: ir.Expr) -> None:
        """An operation with an immediate; one that changes nothing may have been left out of the target."""
        saved = self._save()
        try:
            if not isinstance(target, ir.Binary) or target.op != pattern.op:
                raise self.fail(f"the value must have the form {expr_text(pattern)}, got {expr_text(target)}")
            self._match_binary(pattern, target)
        except TensorizeError:
            self._restore(saved)
            self.unify(a, target)
            self._match_immediate(immediate, ir.Const(NEUTRAL[pattern.op], self.intrinsic.behaviour.buffers[immediate].dtype))

    def _match_binary(self, pattern: ir.Binary, target: ir.Binary) -> None:
        saved = self._save()
        try:
            self.unify(pattern.a, target.a)
            self.unify(pattern.b, target.b)
        except TensorizeError:
            if pattern.op not in COMMUTATIVE:
                raise
            first = self._save()
            self._restore(saved)
            try:
                self.unify(pattern.a, target.b)
                self.unify(pattern.b, target.a)
                return
            except TensorizeError:
                self._restore(first)
            raise

    def _save(self) -> tuple[dict[str, object], ...]:
        return tuple(dict(d) for d in (self.axes, self.buffers, self.entries, self.immediates, self.conditions))

    def _restore(self, saved: tuple[dict[str, object], ...]) -> None:
        for mine, old in zip((self.axes, self.buffers, self.entries, self.immediates, self.conditions), saved, strict=True):
            mine.clear()
            mine.update(old)  # type: ignore[arg-type]

    def _scope(self, operand: str) -> str:
        return self.intrinsic.scopes[operand]

    def _match_immediate(self, name: str, target: ir.Expr) -> None:
        dtype = self.intrinsic.behaviour.buffers[name].dtype
        if isinstance(target, ir.Cast) and isinstance(target.value, ir.Const):
            target = ir.Const(target.value.value, target.dtype)
        if not isinstance(target, ir.Const) or target.dtype != dtype:
            raise self.fail(f"{name} must be an {dtype} constant, got {expr_text(target)}")
        if self.immediates.setdefault(name, target.value) != target.value:
            raise self.fail(f"{name} must be one constant, got {self.immediates[name]} and {target.value}")

    def _match_condition(self, name: str, target: ir.Expr) -> None:
        for e in ir.walk_expr(target):
            if isinstance(e, ir.Load):
                raise self.fail(f"{name} must be a condition on loop variables, got {expr_text(target)}")
            if isinstance(e, ir.Var) and e.name in self.inner and self.inner[e.name] > 1:
                raise self.fail(f"{name} must be the same for a whole entry, got {expr_text(target)} which depends on axis {e.name}")
        self.conditions[name] = target

    # -- buffers

    def match_access(self, operand: str, pattern: tuple[ir.Expr, ...], name: str, indices: tuple[ir.Expr, ...]) -> None:
        """Operand of the intrinsic against an access of the block: scope, dtype, layout, axes."""
        wanted, found = self.intrinsic.behaviour.buffers[operand], self.fn.buffers[name]
        self._check_scope(operand, found)
        if found.dtype != wanted.dtype:
            raise self.fail(f"operand {operand} must be {wanted.dtype}, got {name} of {found.dtype}; declare or cast it so")
        rank = len(wanted.shape)
        if len(found.shape) < rank or found.shape[len(found.shape) - rank :] != wanted.shape:
            raise self.fail(
                f"operand {operand} must be the last {rank} dimensions {list(wanted.shape)} of its buffer (stride 1, one entry), got {name} of "
                f"shape {list(found.shape)}; pack the tensor so that these dimensions come last"
            )
        lead, tail = indices[: len(indices) - rank], indices[len(indices) - rank :]
        for p, t in zip(pattern, tail, strict=True):
            self._match_axis(operand, p, t, name)
        self._check_lead(operand, lead, name)
        self._bind(operand, name, lead)

    def _check_scope(self, operand: str, found: ir.Buffer) -> None:
        scope = self._scope(operand)
        if found.scope == scope:
            return
        assert isinstance(self.block.body, ir.Store)
        written = found.name == self.block.body.buffer
        remedy = (
            f"cache_read({self.block.name!r}, {found.name!r}, {scope!r})"
            if found.scope == "global" and not written
            else f"set_scope({found.name!r}, {scope!r})"
        )
        raise self.fail(f"operand {operand} must be in scope {scope!r}, got {found.name} in {found.scope!r}; {remedy} puts it there")

    def _match_axis(self, operand: str, pattern: ir.Expr, target: ir.Expr, name: str) -> None:
        assert isinstance(pattern, ir.Var)
        extent = self._extent(pattern.name)
        if target == ir.Const(0) and extent == 1:
            return
        if not isinstance(target, ir.Var) or target.name not in self.inner:
            raise self.fail(
                f"index {pattern.name} of operand {operand} must be one axis with stride 1 inside the tensorized loop, got {expr_text(target)} in {name}"
                "; reorder that axis inwards, or pack the tensor"
            )
        if self.inner[target.name] != extent:
            raise self.fail(f"axis {target.name} must have extent {extent}, got {self.inner[target.name]}; pad it to {extent}")
        if self.axes.setdefault(pattern.name, target.name) != target.name:
            raise self.fail(
                f"index {pattern.name} of operand {operand} must be axis {self.axes[pattern.name]} as elsewhere, got {target.name} in {name}; "
                "swap the last dimensions of that tensor"
            )

    def _extent(self, axis: str) -> int:
        block = next(s for s in ir.walk(self.intrinsic.behaviour.body) if isinstance(s, ir.Block))
        return next(a.extent for a in block.axes if a.var == axis)

    def _check_lead(self, operand: str, lead: tuple[ir.Expr, ...], name: str) -> None:
        for index in lead:
            for e in ir.walk_expr(index):
                if isinstance(e, ir.Var) and self.inner.get(e.name, 1) > 1:
                    raise self.fail(
                        f"operand {operand} must be one entry of {name}, got index {expr_text(index)} which depends on axis {e.name} "
                        "inside the tensorized loop; pack the tensor"
                    )

    def _bind(self, operand: str, name: str, lead: tuple[ir.Expr, ...]) -> None:
        if self.buffers.setdefault(operand, name) != name:
            raise self.fail(f"operand {operand} must be one buffer, got {self.buffers[operand]} and {name}")
        if self.entries.setdefault(operand, lead) != lead:
            raise self.fail(f"operand {operand} must be one entry, got two different ones of {name}")


def _mark(stmt: ir.Stmt, loop: str, old: ir.Block, new: ir.Block, intrinsic: Intrinsic) -> ir.Stmt:
    """The tree with the loop marked as tensorized and its block replaced; what does not change is shared."""
    match stmt:
        case ir.For():
            body = _mark(stmt.body, loop, old, new, intrinsic)
            if body is stmt.body:
                return stmt
            extra = {"tensorize": intrinsic.name} if stmt.var == loop else {}
            return replace(stmt, body=body, annotations={**stmt.annotations, **extra})
        case ir.Seq(stmts=stmts):
            changed = tuple(_mark(s, loop, old, new, intrinsic) for s in stmts)
            return stmt if all(a is b for a, b in zip(changed, stmts, strict=True)) else ir.Seq(changed)
        case ir.Block():
            return new if stmt is old else stmt
        case ir.Store():
            return stmt
