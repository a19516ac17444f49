# SPDX-License-Identifier: Apache-2.0
"""Remedies for a nest that does not match: schedule calls, or changes of the expression."""

from __future__ import annotations

from vdla.compiler import ir

_VDLA_DTYPES = ("int2", "int4", "int8", "int32", "int64")  # of the on-chip buffers, at any width
_REDUCERS = {"add": "te.sum", "mul": "te.prod", "min": "te.min", "max": "te.max"}


class Remedies:
    """Remedies for `block`, tensorized from the first of `loops` inwards."""

    def __init__(
        self, fn: ir.Function, block: ir.Block, intrinsic: ir.DeclaredIntrinsic, loops: tuple[str, ...]
    ) -> None:
        self._fn, self._block, self._intrinsic, self._loops = fn, block, intrinsic, loops

    # -- loops

    def outwards(self, axis: str) -> str:
        """How to move the loop of `axis` out of the tensorized nest."""
        loop = self._loop_of(axis)
        if loop is None or loop not in self._loops:
            return "reorder its loop outwards"
        others = [other for other in self._loops if other != loop]
        if loop == self._loops[0] and others:
            return f"tensorize from loop {others[0]} inwards"
        return f"{_call('reorder', loop, *others)} puts it outside"

    def inwards(self, axis: str) -> str:
        """How to move the loop of `axis` into the tensorized nest."""
        loop, around = self._loop_of(axis), [stmt.var for stmt in _loops_around(self._fn.body, self._block)]
        if loop is None or loop not in around or not self._loops:
            return "reorder its loop inwards, or tensorize further out"
        between = around[around.index(loop) + 1 : around.index(self._loops[0])]
        if not between:
            return f"tensorize from loop {loop} inwards"
        return f"{_call('reorder', *between, loop, *self._loops)}, then tensorize from loop {loop} inwards"

    def extent(self, got: int, wanted: int) -> str:
        """How to give a dimension of extent `got` the extent `wanted`."""
        whole = -(-got // wanted)
        if whole == 1:
            return f"pad that dimension to {wanted}"
        if got != whole * wanted:
            return (
                f"pad that dimension to {whole * wanted} and declare it as two, [{whole}, {wanted}], in the expression"
            )
        return f"declare that dimension as two, [{whole}, {wanted}], in the expression"

    def _loop_of(self, axis: str) -> str | None:
        """The loop that drives an axis of the block by itself."""
        for axis_name, value in self._block.bindings:
            if axis_name.var == axis and isinstance(value, ir.Var):
                return value.name
        return None

    # -- buffers

    def pack(self, operand: str) -> str:
        """How to lay out a tensor in entries of an operand."""
        shape = ", ".join(map(str, self._intrinsic.behaviour.buffers[operand].shape))
        return f"pack the tensor as [..., {shape}], the entry last"

    def scope(self, buffer: ir.Buffer, scope: str) -> str:
        """The primitive that puts an operand into a memory."""
        assert isinstance(self._block.body, ir.Store)
        if buffer.scope != "global" or buffer.name not in self._fn.params:
            return _call("set_scope", buffer.name, scope)
        if buffer.name == self._block.body.buffer:
            return _call("cache_write", self._block.name, scope)
        return _call("cache_read", self._block.name, buffer.name, scope)

    def dtype(self, buffer: str, wanted: str) -> str:
        """How to give an operand another dtype."""
        assert isinstance(self._block.body, ir.Store)
        got = self._fn.buffers[buffer].dtype
        if buffer == self._block.body.buffer:
            return f'cast the operands of the expression: te.cast("{wanted}", ...)'
        source = self._source(buffer)
        if source in self._fn.params:
            owner = self._intrinsic.name if got in _VDLA_DTYPES or self._intrinsic.target == "cpu" else "the machine"
            return f"{owner} has no {got} operand, so declare placeholder {source} as {wanted}"
        return f"cast {source} to {wanted} in its stage, or use an intrinsic whose operand is {got}"

    def _source(self, buffer: str) -> str:
        """The buffer at the start of the chain of copies that ends in `buffer`."""
        stores = [s for s in ir.find(self._fn.body, ir.Store) if s.buffer == buffer]
        if len(stores) == 1 and isinstance(stores[0].value, ir.Load) and stores[0].value.buffer != buffer:
            return self._source(stores[0].value.buffer)
        return buffer

    # -- values

    def reducer(self, value: ir.Expr) -> str:
        """The reducer of a reduction's value, as the user writes it."""
        return _REDUCERS.get(value.op, value.op) if isinstance(value, ir.Binary) else "a reducer of its own"

    def extra_term(self, op: str, other: str, behind: bool) -> str:
        """The remedy for an operation around a value that matches."""
        symbol = ir.OPERATORS[op].symbol
        if self._block.init is not None and op in ("add", "sub"):
            return f"sum {other} in a stage of its own, and {op} the results"
        if self._block.init is not None and op == "mul":
            return f"multiply the sum by {other} in a stage of its own"
        if symbol is None:
            text = f"{op}(..., {other})"
        else:
            text = f"... {symbol} {other}" if behind else f"{other} {symbol} ..."
        return f"compute {text} in a stage of its own"

    def negation(self, minuend: int) -> str:
        """The remedy for the difference of a constant and a value."""
        product = "write the difference as ... * -1"
        return f"{product}, and add {minuend} in a stage of its own" if minuend else product

    def cast(self, pattern: ir.Expr, target: ir.Expr) -> str:
        """The remedy for a misplaced or missing cast; empty if that is not the difference."""
        match pattern, target:
            case ir.Binary(op=op, a=ir.Cast(dtype=dtype)), ir.Cast(value=ir.Binary(op=other)) if op == other:
                symbol = ir.OPERATORS[op].symbol or op
                return f'cast the operands, not the result: te.cast("{dtype}", ...) {symbol} te.cast("{dtype}", ...)'
            case ir.Cast(dtype=dtype, value=ir.Load(buffer=operand)), ir.Load(buffer=buffer):
                wanted = self._intrinsic.behaviour.buffers[operand].dtype
                source = self._source(buffer)
                if source not in self._fn.params:
                    return f"use an intrinsic whose operand is {self._fn.buffers[buffer].dtype}"
                return f'declare placeholder {source} as {wanted} and read it as te.cast("{dtype}", ...)'
        return ""


def _call(primitive: str, *names: str) -> str:
    return f"{primitive}({', '.join(repr(name) for name in names)})"


def _loops_around(stmt: ir.Stmt, block: ir.Block) -> list[ir.For]:
    """The loops inside `stmt` around `block`, outermost first."""
    for child in ir.children(stmt):
        if child is block or any(inner is block for inner in ir.walk(child)):
            return [*([stmt] if isinstance(stmt, ir.For) else []), *_loops_around(child, block)]
    return []
