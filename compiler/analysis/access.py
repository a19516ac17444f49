# SPDX-License-Identifier: Apache-2.0
"""Accesses of the leaf blocks of a function: the buffers and elements that they read and write.

A leaf is a block without inner blocks. Its axes' bindings are composed through the enclosing
blocks, so everything here is in terms of loop variables.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vdla.compiler import ir
from vdla.compiler.analysis.tree import Path, tree_of
from vdla.compiler.arith import Linear, conjuncts, linear, var_names
from vdla.compiler.ir.by_identity import by_identity

Indices = tuple[ir.Expr, ...]


@dataclass(frozen=True, slots=True)
class LeafBlock:
    """A leaf block in its nest: `values` binds its axes, `conditions` guards it, both over the
    loops around it."""

    block: ir.Block
    path: Path
    loops: tuple[ir.For, ...]
    values: dict[str, ir.Expr]
    conditions: tuple[ir.Expr, ...]

    @property
    def name(self) -> str:
        """The block's name."""
        return self.block.name

    def axis_of(self, name: str) -> ir.Axis:
        """The axis `name`."""
        return next(axis for axis in self.block.axes if axis.var == name)

    def bound(self, expr: ir.Expr) -> Linear:
        """An expression over the block's axes as a linear form over loop variables."""
        return linear(ir.substitute(expr, self.values))

    def element(self) -> list[ir.Expr]:
        """The bindings of the spatial and scan axes, which select the element."""
        return [self.values[axis.var] for axis in self.block.axes if axis.kind is not ir.AxisKind.REDUCE]

    def values_of(self, kind: ir.AxisKind) -> list[ir.Expr]:
        """The bindings of the axes of one kind."""
        return [self.values[axis.var] for axis in self.block.axes if axis.kind is kind]

    def loops_along(self, kind: ir.AxisKind) -> set[str]:
        """The variables that drive the axes of one kind."""
        return {name for value in self.values_of(kind) for name in var_names(value)}


def leaves(fn: ir.Function) -> list[LeafBlock]:
    """Every leaf block, in program order."""
    return list(_leaves_of(fn.body))


@by_identity(most=64)
def _leaves_of(body: ir.Stmt) -> tuple[LeafBlock, ...]:
    tree = tree_of(body)
    leaves = (name for name, block in tree.blocks.items() if is_leaf(block))
    return tuple(leaf_at(tree.path(tree.block_at[name])) for name in leaves)


def is_leaf(block: ir.Block) -> bool:
    """Whether the block has no inner block."""
    if isinstance(block.body, ir.Store):
        return True
    return not any(isinstance(stmt, ir.Block) for stmt in ir.walk(block.body))


def leaf_at(path: Path) -> LeafBlock:
    """The leaf at the end of a path."""
    values: dict[str, ir.Expr] = {}
    conditions: list[ir.Expr] = []
    for stmt in path:
        if isinstance(stmt, ir.Block):
            conditions += [ir.substitute(c, values) if values else c for c in conjuncts(stmt.predicate)]
            bound = [ir.substitute(v, values) if values else v for v in stmt.values]
            values = values | {axis.var: value for axis, value in zip(stmt.axes, bound, strict=True)}
    block = path[-1]
    assert isinstance(block, ir.Block)
    loops = tuple(stmt for stmt in path if isinstance(stmt, ir.For))
    return LeafBlock(block, path, loops, values, tuple(conditions))


def stores(block: ir.Block) -> list[ir.Store]:
    """The stores of a leaf's body."""
    if isinstance(block.body, ir.Store):
        return [block.body]
    return list(ir.find(block.body, ir.Store))


def store_to(block: ir.Block, buffer: str) -> ir.Store:
    """The store of a leaf's body to `buffer`."""
    return next(store for store in stores(block) if store.buffer == buffer)


def written_buffers(block: ir.Block) -> set[str]:
    """The buffers that a leaf writes."""
    return {store.buffer for store in stores(block)}


def read_indices(block: ir.Block, buffer: str) -> list[Indices]:
    """The distinct index tuples, over the block's axes, at which a leaf reads `buffer`."""
    return list(dict.fromkeys(load.indices for load in loads(block) if load.buffer == buffer))


def read_buffers(block: ir.Block) -> set[str]:
    """The buffers that a leaf reads, other than those it writes."""
    return {load.buffer for load in loads(block)} - written_buffers(block)


def loads(block: ir.Block) -> Iterator[ir.Load]:
    """Every load in a leaf."""
    bodies = stores(block) if block.init is None else [*stores(block), *init_stores(block)]
    for store in bodies:
        yield from _loads_of(store)


@by_identity(most=1024)
def _loads_of(store: ir.Store) -> tuple[ir.Load, ...]:
    every = (e for expr in (store.value, *store.indices) for e in ir.walk_expr(expr))
    return tuple(e for e in every if isinstance(e, ir.Load))


def init_stores(block: ir.Block) -> list[ir.Store]:
    """The stores of a leaf's init."""
    return [] if block.init is None else list(ir.find(block.init, ir.Store))


def writers_of(all_leaves: list[LeafBlock], buffer: str) -> list[LeafBlock]:
    """The leaves that write `buffer`: none for an input, two for a decomposed reduction."""
    return [leaf for leaf in all_leaves if buffer in written_buffers(leaf.block)]


def readers_of(all_leaves: list[LeafBlock], buffer: str) -> list[LeafBlock]:
    """The leaves that read `buffer` and do not write it."""
    return [leaf for leaf in all_leaves if buffer in read_buffers(leaf.block)]


def readers_of_any(all_leaves: list[LeafBlock], buffers: set[str]) -> list[LeafBlock]:
    """The leaves that read one of `buffers` and do not write it, in program order."""
    return [leaf for leaf in all_leaves if read_buffers(leaf.block) & buffers]
