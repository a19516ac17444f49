# SPDX-License-Identifier: Apache-2.0
"""Deal out fragments: a buffer in scope "warp" becomes an array of each lane of the warp.

The tensor-core intrinsics that write a buffer say which lane holds which element. All statements
that access it run on all lanes, each on the elements that it holds; for a step of a tensor core
that is the lane-wise form of its behaviour, which any device runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from vdla.compiler import ir
from vdla.compiler.analysis import used_names
from vdla.compiler.arith import TRUE, Linear, Ranges, function_ranges, linear, simplify
from vdla.compiler.ir import THREAD, THREAD_AXES, Names, Substitution, expr_text, map_children, map_exprs
from vdla.compiler.lowering.check import PassError
from vdla.compiler.tensorize import LANES, WARP, Fragment

LANE_AXIS = THREAD_AXES[0]
"""The axis of the lanes: a warp is WARP consecutive threads along it."""
_Layouts = Mapping[str, Fragment]


def deal_fragments(fn: ir.Function) -> ir.Function:
    """`fn` with each buffer in "warp" as an array of a lane, of the tiles and its elements of each.

    with alloc(c):                         for lane in range(32):  # thread=threadIdx.x
        for i in range(16):                    with alloc(c):
            for j in range(8):    ->               for i_block in range(2):
                c[i, j] = 0.0                          for j_own in range(2):
                                                           c[0, 0, i_block * 2 + j_own] = 0.0

    Raises:
        PassError: the lanes are not bound, or a statement needs elements of other lanes.
    """
    layouts = _layouts(fn)
    if not layouts:
        return fn
    names = used_names(fn)
    dealer = _Dealer(fn, layouts, names, names.fresh("lane", "lane"))
    body = dealer.visit(fn.body)
    buffers = {name: _dealt_buffer(b, layouts[name]) if name in layouts else b for name, b in fn.buffers.items()}
    return replace(fn, body=body, buffers=buffers)


def _layouts(fn: ir.Function) -> dict[str, Fragment]:
    """The fragment that each buffer in "warp" consists of, by the steps that access it."""
    result: dict[str, Fragment] = {}
    for call in ir.find(fn.body, ir.IntrinsicCall):
        for operand, name in call.match.buffers.items():
            if fn.buffers[name].scope != WARP:
                continue
            fragment = call.match.intrinsic.fragments[operand]
            if result.setdefault(name, fragment) != fragment:
                raise PassError(f"{fn.name}: the buffer {name} in warp must have one layout, got that of several steps")
    for name, buffer in fn.buffers.items():
        if buffer.scope == WARP and name not in result:
            rule = "must be the operand of a tensorized step, which says which lane holds what"
            raise PassError(f"{fn.name}: the buffer {name} in warp {rule}, got none")
    return result


def _dealt_buffer(buffer: ir.Buffer, fragment: Fragment) -> ir.Buffer:
    """The array of a lane."""
    *lead, rows, columns = buffer.dims
    tiles = (-(-size // length) for size, length in zip((rows, columns), fragment.shape, strict=True))
    return replace(buffer, shape=(*lead, *tiles, fragment.size), scope="local")


@dataclass(frozen=True, slots=True)
class _Dealer:
    """Deals out the statements of `fn` that access fragments to the lanes, whose loop is `lane`."""

    fn: ir.Function
    layouts: _Layouts
    names: Names
    lane: str

    def visit(self, stmt: ir.Stmt) -> ir.Stmt:
        """`stmt` with the allocations of fragments inside the loop over lanes."""
        if isinstance(stmt, ir.Alloc) and any(name in self.layouts for name in stmt.buffers):
            self.check_lanes(stmt)
            return ir.For(self.lane, LANES, self.deal(stmt), annotations={THREAD: LANE_AXIS})
        if _is_lanes(stmt) and isinstance(stmt, ir.For):
            self.refuse_inside(stmt)
        return map_children(stmt, self.visit)

    def check_lanes(self, held: ir.Alloc) -> None:
        """Refuse an axis that is not that of the lanes."""
        loops = [stmt for stmt in ir.find(self.fn.body, ir.For) if _is_lanes(stmt)]
        name = next(name for name in held.buffers if name in self.layouts)
        wrong = next((f"{ir.extent_text(loop.extent)} for {loop.var}" for loop in loops if loop.extent != LANES), "")
        if not loops or wrong:
            rule = f"a warp holds {name}, so the loops bound to {LANE_AXIS}, its lanes, must have extent {LANES}"
            raise PassError(f"{self.fn.name}: {rule}, got {wrong or 'no loop bound to it'}")

    def refuse_inside(self, loop: ir.For) -> None:
        """Refuse a step of a warp, or its registers, inside a loop that tells its lanes apart."""
        for stmt in ir.walk(loop.body):
            if isinstance(stmt, ir.Alloc) and (held := [name for name in stmt.buffers if name in self.layouts]):
                rule = f"all lanes of a warp hold {held[0]} together, so its accesses must not all lie"
                raise PassError(f"{self.fn.name}: {rule} in one loop bound to {LANE_AXIS}, got {loop.var}")

    def deal(self, stmt: ir.Stmt) -> ir.Stmt:
        """What one lane does of `stmt`."""
        if not any(True for _ in self.accesses(stmt)):
            return stmt
        match stmt:
            case ir.IntrinsicCall(match=match, body=body):
                return ir.IntrinsicCall(self.entries(match), self.nest(body))
            case ir.For() if _is_lanes(stmt):
                body = ir.substitute_in(stmt.body, {stmt.var: ir.Var(self.lane)})
                return self.over_lane(body, self.ranges(body))
            case ir.For() | ir.Store() if _is_perfect(stmt):
                return self.nest(stmt)
        return map_children(stmt, self.deal)

    def accesses(self, stmt: ir.Stmt) -> Iterator[tuple[str, tuple[ir.Expr, ...]]]:
        """The accesses of fragments in a statement."""
        for store in ir.find(stmt, ir.Store):
            if store.buffer in self.layouts:
                yield store.buffer, store.indices
            for expr in (*store.indices, store.value):
                loads = ir.find(expr, ir.Load)
                yield from ((load.buffer, load.indices) for load in loads if load.buffer in self.layouts)

    def ranges(self, body: ir.Stmt) -> dict[str, tuple[int, int]]:
        """The bounds of the variables in a changed part of the function."""
        return {**function_ranges(replace(self.fn, body=body)), **function_ranges(self.fn), self.lane: (0, LANES - 1)}

    def entries(self, match: ir.Match) -> ir.Match:
        """A match whose entries in fragments begin at the first element of a tile of the lane."""
        new = dict(match.entries)
        for operand, name in match.buffers.items():
            if name in self.layouts:
                places = self.place(name, match.entries[operand], self.ranges(self.fn.body))
                new[operand] = (*places[:-1], ir.Const(0))
        return replace(match, entries=new)

    def place(self, name: str, indices: tuple[ir.Expr, ...], ranges: Ranges) -> tuple[ir.Expr, ...]:
        """The indices of an element in the array of the lane that holds it."""
        *lead, row, column = indices
        rows, columns = self.layouts[name].shape
        _, number = self.layouts[name].owner(_binary("mod", row, rows), _binary("mod", column, columns))
        new = (_binary("floordiv", row, rows), _binary("floordiv", column, columns), number)
        return (*lead, *(simplify(index, ranges) for index in new))

    # --- nests

    def nest(self, nest: ir.Stmt) -> ir.Stmt:
        """A perfect nest, with loops over a lane's elements in place of those over a tile."""
        if any(_is_lanes(stmt) for stmt in ir.walk(nest)):
            return map_children(nest, self.deal)
        name, indices = next(self.accesses(nest))
        loops = {stmt.var: stmt for stmt in ir.find(nest, ir.For)}
        fragment = self.layouts[name]
        tile_loops = [_tile_loop(index, size, loops) for index, size in zip(indices[-2:], fragment.shape, strict=True)]
        if tile_loops[0] is not None and tile_loops[1] is not None:
            nest = self.over_elements(nest, fragment, (tile_loops[0], tile_loops[1]))
        return self.over_lane(nest, self.ranges(nest))

    def over_elements(self, nest: ir.Stmt, fragment: Fragment, loops: tuple[str, str]) -> ir.Stmt:
        """A nest whose loops over rows and columns of a tile run over the elements of the lane."""
        line, across = loops[::-1] if fragment.transposed else loops
        block, part, neighbour = (
            self.names.fresh(f"{line}_block", "i"),
            self.names.fresh(f"{across}_block", "i"),
            self.names.fresh(f"{across}_own", "i"),
        )
        row, column = fragment.position(ir.Var(self.lane), ir.Var(block), ir.Var(part), ir.Var(neighbour))
        blocks, parts = fragment.blocks
        inner = {line: ((block, blocks),), across: ((part, parts), (neighbour, fragment.neighbours))}
        values: Substitution = {loops[0]: row, loops[1]: column}
        once: Substitution = {name: ir.Const(0) for of in inner.values() for name, extent in of if extent == 1}

        def change(new: ir.Stmt) -> ir.Stmt:
            if not isinstance(new, ir.For) or new.var not in inner:
                return new
            body = new.body
            for name, extent in reversed(inner[new.var]):
                body = body if extent == 1 else replace(new, var=name, extent=extent, body=body)
            return body

        return ir.substitute_in(ir.substitute_in(ir.transform(nest, change), values), once)

    def over_lane(self, stmt: ir.Stmt, ranges: Ranges) -> ir.Stmt:
        """`stmt` on the elements that the lane holds."""
        if not isinstance(stmt, ir.Store):
            return map_children(stmt, lambda child: self.over_lane(child, ranges))
        accesses = list(self.accesses(stmt))
        if not accesses:
            return stmt
        conditions = {self.condition(name, indices, ranges) for name, indices in accesses}
        if len(conditions) > 1:
            text = ", ".join(f"{name}[{', '.join(map(expr_text, indices))}]" for name, indices in accesses)
            rule = "a statement must access elements of fragments that one lane holds"
            raise PassError(f"{self.fn.name}: {rule}, got {text}")
        new = self.relocated(stmt, ranges)
        (condition,) = conditions
        return new if condition == TRUE else ir.If(condition, new)

    def condition(self, name: str, indices: tuple[ir.Expr, ...], ranges: Ranges) -> ir.Expr:
        """Whether the lane holds an element."""
        rows, columns = self.layouts[name].shape
        holder, _ = self.layouts[name].owner(_binary("mod", indices[-2], rows), _binary("mod", indices[-1], columns))
        return simplify(ir.binary("eq", simplify(holder, ranges), self.lane), ranges)

    def relocated(self, store: ir.Store, ranges: Ranges) -> ir.Stmt:
        """A store with its accesses of fragments in the array of the lane."""

        def change(part: ir.Expr) -> ir.Expr:
            if isinstance(part, ir.Load) and part.buffer in self.layouts:
                return ir.Load(part.buffer, self.place(part.buffer, part.indices, ranges))
            return part

        new = map_exprs(store, lambda expr: ir.transform(expr, change))
        assert isinstance(new, ir.Store)
        inside = new.buffer in self.layouts
        return replace(new, indices=self.place(new.buffer, new.indices, ranges)) if inside else new


def _is_lanes(stmt: ir.Stmt) -> bool:
    """Whether a statement is a loop over the lanes."""
    return isinstance(stmt, ir.For) and stmt.annotations.get(THREAD) == LANE_AXIS


def _is_perfect(stmt: ir.Stmt) -> bool:
    """Whether a statement is a store inside loops and conditions alone."""
    while isinstance(stmt, ir.For | ir.If):
        stmt = stmt.body
    return isinstance(stmt, ir.Store)


def _tile_loop(index: ir.Expr, size: int, loops: Mapping[str, ir.For]) -> str | None:
    """The loop that runs over all of a dimension of a tile; None if the index has another form."""
    form = linear(index)
    rest = Linear({term: factor for term, factor in form.terms.items() if factor % size}, form.const % size)
    match list(rest.terms.items()), rest.const:
        case [(ir.Var(name=name), 1)], 0 if name in loops and loops[name].extent == size:
            return name
    return None


def _binary(op: str, a: ir.Expr, b: int) -> ir.Expr:
    return ir.binary(op, a, b)
