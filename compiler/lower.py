"""Lowering: a scheduled, tensorized loop nest becomes a list of macro-ops in program order.

Loops around instructions are run here, at compile time; a nest that holds nothing but one intrinsic (and perhaps an
epilogue that consumes its results) is folded into instructions. Virtual threads take turns, each on tiles of its own;
the overlap is the machine's, from the tokens that the exact dependences leave.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from vdla.compiler import ir
from vdla.compiler.affine import affine
from vdla.compiler.dtypes import INTEGER_BITS
from vdla.compiler.evaluate import evaluate
from vdla.compiler.fold import LoweringError
from vdla.compiler.intrinsic import GLOBAL, ON_CHIP
from vdla.compiler.macro import MacroOp, Tile
from vdla.compiler.nest import Access, Epilogue, Loop, Nest
from vdla.compiler.printer import expr_text, line_numbers
from vdla.compiler.regions import Site, TilePlan, plan_tiles, sites
from vdla.hardware import isa
from vdla.hardware.config import Config


def lower(config: Config, fn: ir.Function) -> list[MacroOp]:
    """The macro-ops of a function whose blocks are all tensorized.

    Raises:
        LoweringError: names the block, buffer or loop that this machine's instructions cannot express, and why.
    """
    return list(_Lowering(config, fn).run(fn.body, {}))


@dataclass(frozen=True, slots=True)
class _Condition:
    """`form >= 0`, affine in the loops, or any expression."""

    expr: ir.Expr
    form: tuple[Mapping[str, int], int] | None


@dataclass(frozen=True, slots=True)
class _Position:
    """An access before the outer loops have values: affine steps of all loops, and terms that are not affine."""

    buffer: str
    unit: int
    const: int
    steps: Mapping[str, int]
    rest: tuple[tuple[ir.Expr, int], ...]


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A folded nest: the loops that become part of instructions and what is known of them at any iteration outside."""

    site: Site
    loops: tuple[Loop, ...]
    positions: Mapping[str, _Position]
    predicate: tuple[_Condition, ...]
    conditions: tuple[_Condition, ...]
    starts: tuple[ir.Expr, ...]
    epilogue: _Leaf | None
    source: int


class _Lowering:
    def __init__(self, config: Config, fn: ir.Function) -> None:
        self.config, self.fn = config, fn
        self.sites = {site.block.name: site for site in sites(fn)}
        self.plans = plan_tiles(fn, list(self.sites.values()))
        self.lines = line_numbers(fn)
        self.leaves: dict[int, _Leaf | None] = {}
        self.tiles: dict[tuple[str, tuple[int, ...]], Tile] = {}

    # -- walking

    def run(self, stmt: ir.Stmt, env: dict[str, int]) -> Iterator[MacroOp]:
        """The macro-ops of a statement at one iteration of the loops around it."""
        leaf = self.leaf(stmt)
        if leaf is not None:
            yield from self.emit(leaf, env)
            return
        match stmt:
            case ir.For():
                for value in range(stmt.extent):
                    env[stmt.var] = value
                    yield from self.run(stmt.body, env)
                del env[stmt.var]
            case _:
                for child in ir.children(stmt):
                    yield from self.run(child, env)

    def leaf(self, stmt: ir.Stmt) -> _Leaf | None:
        """The statement as one folded nest, if it is one."""
        if id(stmt) not in self.leaves:
            self.leaves[id(stmt)] = self._make_leaf(stmt)
        return self.leaves[id(stmt)]

    def _make_leaf(self, stmt: ir.Stmt) -> _Leaf | None:
        shared, inner = _chain(stmt)
        if isinstance(inner, ir.Block):
            return self._plain_leaf(self.sites[inner.name], shared)
        if not isinstance(inner, ir.Seq) or len(inner.stmts) != 2 or shared is None:
            return None
        main, after = (_chain(s) for s in inner.stmts)
        if not isinstance(main[1], ir.Block) or not isinstance(after[1], ir.Block) or main[0] is None or after[0] is None:
            return None
        return self._fused_leaf(shared, self.sites[main[1].name], main[0], self.sites[after[1].name], after[0])

    def _plain_leaf(self, site: Site, loops: list[ir.For] | None) -> _Leaf | None:
        return None if loops is None else self._analysed(site, loops, None)

    def _fused_leaf(
        self, shared: list[ir.For], main: Site, inner: list[ir.For], after: Site, own: list[ir.For]
    ) -> _Leaf | None:
        """A nest whose results are consumed by an epilogue in the same pass: the inner loops must all be reductions."""
        reduce_loops = main.reduce_loops()
        consumes = main.match.buffers[main.match.intrinsic.output.name] in after.match.buffers.values()
        steps = [v for v in inner if v.extent > 1 and v.var not in reduce_loops and not self._is_entry_loop(main, v)]
        extra = [v for v in own if v.extent > 1 and not self._is_entry_loop(after, v)]
        if not after.match.intrinsic.epilogue or not consumes or steps or extra:
            return None
        return self._analysed(main, [*shared, *inner], self._analysed(after, shared, None))

    def _is_entry_loop(self, site: Site, loop: ir.For) -> bool:
        """Whether the loop runs inside one entry: it is at or inside the tensorized loop."""
        names = [other.var for other in site.path]
        start = next(i for i, other in enumerate(site.path) if "tensorize" in other.annotations)
        return names.index(loop.var) >= start

    # -- what holds for every iteration outside the nest

    def _analysed(self, site: Site, loops: list[ir.For], epilogue: _Leaf | None) -> _Leaf:
        reduce_loops = site.reduce_loops()
        own = tuple(Loop(f.var, f.extent, f.var in reduce_loops) for f in loops if not self._is_entry_loop_of(site, f))
        positions = {
            operand: self._position(site, operand)
            for operand in site.match.buffers
            if site.match.intrinsic.scopes[operand] in (*ON_CHIP, GLOBAL)
        }
        starts = tuple(
            value
            for axis, value in zip(site.block.axes, site.block.values, strict=True)
            if axis.kind is ir.AxisKind.REDUCE
        )
        once: dict[str, ir.Expr] = {loop.var: ir.Const(0) for loop in site.path if loop.extent == 1}
        conditions = [ir.substitute(site.bound(c), once) for c in site.match.conditions.values()]
        predicate = [] if site.block.predicate is None else [ir.substitute(site.block.predicate, once)]
        return _Leaf(
            site,
            own,
            positions,
            _conjuncts(predicate),
            _conjuncts(conditions),
            starts,
            epilogue,
            self.lines.get(site.block.name, -1),
        )

    def _is_entry_loop_of(self, site: Site, loop: ir.For) -> bool:
        return loop.var in {other.var for other in site.path} and self._is_entry_loop(site, loop)

    def _position(self, site: Site, operand: str) -> _Position:
        """The operand's entry as an affine function of the loops, relative to its tile or tensor."""
        name = site.match.buffers[operand]
        buffer = self.fn.buffers[name]
        unit = prod(site.match.intrinsic.behaviour.buffers[operand].shape)
        plan = self.plans.get(name)
        strides = plan.strides if plan else _row_major(buffer.shape)
        origin = plan.base if plan else tuple(ir.Const(0) for _ in buffer.shape)
        const, steps, rest = 0, dict[str, int](), list[tuple[ir.Expr, int]]()
        for index, base, stride in zip(site.match.entries[operand], origin, strides, strict=False):
            for expr, sign in ((site.bound(index), 1), (base, -1)):
                const += _accumulate(expr, sign * stride // unit, steps, rest)
        if plan is not None:
            self._check_unit(name, unit, strides, len(site.match.entries[operand]))
        steps = {v: s for v, s in steps.items() if s}
        return _Position(name, unit, const, steps, tuple(rest))

    def _check_unit(self, name: str, unit: int, strides: tuple[int, ...], lead: int) -> None:
        if any(stride % unit for stride in strides[:lead]):
            raise LoweringError(f"{self.fn.name}: the tile of {name} must consist of whole entries of {unit} elements, got strides {list(strides)}")

    # -- one iteration

    def emit(self, leaf: _Leaf, env: Mapping[str, int]) -> Iterator[MacroOp]:
        """The macro-ops of a folded nest at one iteration of the loops around it."""
        bounds = self._bounds(leaf.predicate, leaf.loops, env)
        if bounds is None:
            yield from self._alone(leaf, env)
            return
        peel = bounds.irregular or next((v for v, start in bounds.start.items() if start > 0), None)
        if peel is not None:
            yield from self._peeled(leaf, peel, env)
            return
        loops = tuple(
            Loop(v.var, bounds.end.get(v.var, v.extent), v.reduce) for v in leaf.loops
        )
        if any(loop.extent <= 0 for loop in loops):
            yield from self._alone(leaf, env)
            return
        valid = self._bounds(leaf.conditions, loops, env)
        if valid is not None and valid.irregular is not None:
            yield from self._peeled(leaf, valid.irregular, env)
            return
        nest = Nest(
            self.config,
            leaf.site.match,
            loops,
            {operand: self._access(p, env) for operand, p in leaf.positions.items()},
            init=self._starts(leaf, env),
            epilogue=self._epilogue(leaf, loops, env),
            valid=_valid_ranges(valid, loops),
            source=leaf.source,
        )
        yield from leaf.site.match.intrinsic.lower(nest)

    def _alone(self, leaf: _Leaf, env: Mapping[str, int]) -> Iterator[MacroOp]:
        """The epilogue of a nest that adds nothing to the sums here, as a pass of its own."""
        if leaf.epilogue is not None:
            yield from self.emit(leaf.epilogue, env)

    def _peeled(self, leaf: _Leaf, var: str, env: Mapping[str, int]) -> Iterator[MacroOp]:
        """The nest with one more loop run at compile time."""
        loop = next(v for v in leaf.loops if v.var == var)
        rest = tuple(v for v in leaf.loops if v is not loop)
        inner = _Leaf(
            leaf.site, rest, leaf.positions, leaf.predicate, leaf.conditions, leaf.starts, leaf.epilogue, leaf.source
        )
        for value in range(loop.extent):
            last = loop.reduce and value < loop.extent - 1
            part = _without_epilogue(inner) if last else inner
            yield from self.emit(part, {**env, var: value})

    def _access(self, position: _Position, env: Mapping[str, int]) -> Access:
        base, steps = position.const, {}
        for var, step in position.steps.items():
            if var in env:
                base += step * env[var]
            else:
                steps[var] = step
        rest = []
        for expr, scale in position.rest:
            fixed = ir.substitute(expr, {v: ir.Const(value) for v, value in env.items()})
            if any(isinstance(e, ir.Var) for e in ir.walk_expr(fixed)):
                rest.append((fixed, scale))
            else:
                base += scale * int(evaluate(fixed, {}))
        plan = self.plans.get(position.buffer)
        place = position.buffer if plan is None else self._tile(plan, env)
        return Access(place, base, steps, tuple(rest))

    def _tile(self, plan: TilePlan, env: Mapping[str, int]) -> Tile:
        key = (plan.owner, tuple(env[v] for v in plan.vthreads))
        if key not in self.tiles:
            buffer = isa.Buffer[plan.scope.upper()]
            entry_bits = self.config.entry_bytes[buffer] * 8
            entries = -(-plan.elements * INTEGER_BITS[plan.dtype] // entry_bits)
            ident = sum(1 for owner, _ in self.tiles if owner == plan.owner)
            self.tiles[key] = Tile(plan.owner, buffer, entries, ident)
        return self.tiles[key]

    def _starts(self, leaf: _Leaf, env: Mapping[str, int]) -> bool:
        """Whether the sums of this nest begin in it: every reduce axis is 0 where the folded loops are."""
        intrinsic = leaf.site.match.intrinsic
        if leaf.site.block.init is None:
            return intrinsic.in_place is None
        return all(int(evaluate(start, env, default=0)) == 0 for start in leaf.starts)

    def _epilogue(self, leaf: _Leaf, loops: tuple[Loop, ...], env: Mapping[str, int]) -> Epilogue | None:
        after = leaf.epilogue
        if after is None:
            return None
        for condition in after.predicate:
            holds = _decided(condition, loops, env)
            if holds is None:
                raise LoweringError(
                    f"{self.fn.name}: the predicate of {after.site.block.name} must hold for a whole instruction or not at all, "
                    f"got {expr_text(condition.expr)}; place it at an outer loop"
                )
            if not holds:
                return None
        return Epilogue(after.site.match, {operand: self._access(p, env) for operand, p in after.positions.items()})

    def _bounds(self, conditions: tuple[_Condition, ...], loops: tuple[Loop, ...], env: Mapping[str, int]) -> _Bounds | None:
        """What the conditions leave of each loop; None when nothing."""
        bounds = _Bounds({}, {}, None)
        extents = {loop.var: loop.extent for loop in loops}
        for condition in conditions:
            if not _apply(condition, bounds, extents, env):
                return None
        return bounds


@dataclass
class _Bounds:
    """For each loop the first iteration and the end; `irregular` is a loop to be run at compile time instead."""

    start: dict[str, int]
    end: dict[str, int]
    irregular: str | None


def _apply(condition: _Condition, bounds: _Bounds, extents: Mapping[str, int], env: Mapping[str, int]) -> bool:
    """Narrow the bounds; False when the condition cannot hold."""
    if condition.form is None:
        free = [e.name for e in ir.walk_expr(condition.expr) if isinstance(e, ir.Var) and e.name in extents]
        if not free:
            return bool(evaluate(condition.expr, env, default=0))
        bounds.irregular = free[0]
        return True
    steps, const = condition.form
    const += sum(step * env[v] for v, step in steps.items() if v in env)
    free = [v for v in steps if v in extents and steps[v]]
    if not free:
        return const >= 0
    if len(free) > 1:
        bounds.irregular = free[0]
        return True
    var, step = free[0], steps[free[0]]
    if step > 0:  # step * v >= -const
        bounds.start[var] = max(bounds.start.get(var, 0), -(const // step))
    else:  # v <= const // -step
        bounds.end[var] = min(bounds.end.get(var, extents[var]), const // -step + 1)
    return True


def _decided(condition: _Condition, loops: tuple[Loop, ...], env: Mapping[str, int]) -> bool | None:
    """Whether the condition holds in every iteration of the loops, or in none; None when it varies."""
    extents = {loop.var: loop.extent for loop in loops}
    if condition.form is None:
        varies = any(isinstance(e, ir.Var) and e.name in extents for e in ir.walk_expr(condition.expr))
        return None if varies else bool(evaluate(condition.expr, env, default=0))
    steps, const = condition.form
    low = high = const + sum(step * env[v] for v, step in steps.items() if v in env)
    for var, extent in extents.items():
        reach = steps.get(var, 0) * (extent - 1)
        low, high = low + min(0, reach), high + max(0, reach)
    return True if low >= 0 else False if high < 0 else None


def _valid_ranges(bounds: _Bounds | None, loops: tuple[Loop, ...]) -> dict[str, tuple[int, int]]:
    """For each loop that a condition narrows, the iterations in which it holds; all of them empty when it never does."""
    if bounds is None:
        return {"": (0, 0)}
    ranges = {}
    for loop in loops:
        start = min(max(bounds.start.get(loop.var, 0), 0), loop.extent)
        end = max(start, min(bounds.end.get(loop.var, loop.extent), loop.extent))
        if (start, end) != (0, loop.extent):
            ranges[loop.var] = (start, end)
    return ranges


def _chain(stmt: ir.Stmt) -> tuple[list[ir.For] | None, ir.Stmt]:
    """The loops that run directly inside one another from `stmt` on, None if one cannot be folded, and what is inside."""
    loops: list[ir.For] = []
    foldable = True
    while isinstance(stmt, ir.For):
        foldable &= stmt.kind is ir.LoopKind.SERIAL
        loops.append(stmt)
        stmt = stmt.body
    return (loops if foldable else None), stmt


def _without_epilogue(leaf: _Leaf) -> _Leaf:
    return _Leaf(
        leaf.site, leaf.loops, leaf.positions, leaf.predicate, leaf.conditions, leaf.starts, None, leaf.source
    )


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[d + 1 :]) for d in range(len(shape)))


def _accumulate(expr: ir.Expr, scale: int, steps: dict[str, int], rest: list[tuple[ir.Expr, int]]) -> int:
    """Add scale * expr to the steps and the rest; the constant part is returned."""
    form = affine(expr)
    if form is None:
        rest.append((expr, scale))
        return 0
    for var, step in form[0].items():
        steps[var] = steps.get(var, 0) + scale * step
    return scale * form[1]


def _conjuncts(exprs: list[ir.Expr]) -> tuple[_Condition, ...]:
    """The conditions that must all hold, each as `form >= 0` where it is an affine comparison."""
    found: list[_Condition] = []
    for expr in exprs:
        if isinstance(expr, ir.Binary) and expr.op == "and":
            found.extend(_conjuncts([expr.a, expr.b]))
        elif isinstance(expr, ir.Binary) and expr.op == "eq" and affine(expr) is None:
            found.extend(_conjuncts([ir.Binary("ge", expr.a, expr.b), ir.Binary("le", expr.a, expr.b)]))
        elif expr != ir.Const(True, "bool"):
            found.append(_Condition(expr, _as_form(expr)))
    return tuple(found)


def _as_form(expr: ir.Expr) -> tuple[Mapping[str, int], int] | None:
    if not isinstance(expr, ir.Binary) or expr.op not in ("lt", "le", "gt", "ge"):
        return None
    a, b = (expr.b, expr.a) if expr.op in ("lt", "le") else (expr.a, expr.b)
    form = affine(ir.Binary("sub", a, b))
    if form is None:
        return None
    return form[0], form[1] - (expr.op in ("lt", "gt"))
