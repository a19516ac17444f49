"""The loop-nest IR, the whole of it: expressions, statements, blocks, functions.

Every node is immutable; a pass or a schedule primitive returns a new tree. Buffers are referred to by name, and a
`Function` owns the table of names. A `Block` computes one element (or, once blockized, one tile) at the position its
axes are bound to; the loops around it only say which positions, in which order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

Scalar = int | float | bool


# --- expressions -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable or a block axis; an int32 index."""

    name: str


@dataclass(frozen=True, slots=True)
class Const:
    """A literal of a named dtype."""

    value: Scalar
    dtype: str = "int32"


@dataclass(frozen=True, slots=True)
class Binary:
    """`a op b`; `op` is one of BINARY_OPS, both sides of one dtype."""

    op: str
    a: Expr
    b: Expr


@dataclass(frozen=True, slots=True)
class Cast:
    """`value` converted to `dtype`; integers wrap."""

    dtype: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Select:
    """`a` where `cond` holds, else `b`; the side not taken is not read."""

    cond: Expr
    a: Expr
    b: Expr


@dataclass(frozen=True, slots=True)
class Load:
    """One element of the buffer named `buffer`."""

    buffer: str
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A named scalar function (exp, sqrt, ...)."""

    name: str
    args: tuple[Expr, ...]
    dtype: str


Expr = Var | Const | Binary | Cast | Select | Load | Call

ARITHMETIC_OPS = ("add", "sub", "mul", "floordiv", "mod", "min", "max", "shl", "shr", "and", "or")
COMPARE_OPS = ("eq", "ne", "lt", "le", "gt", "ge")
BINARY_OPS = ARITHMETIC_OPS + COMPARE_OPS


# --- statements ------------------------------------------------------------------------------------------------------


class LoopKind(Enum):
    """How the iterations of a loop run."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZE = "vectorize"
    UNROLL = "unroll"
    VTHREAD = "vthread"


class AxisKind(Enum):
    """Whether the iterations along an axis are independent or combine into one value."""

    SPATIAL = "spatial"
    REDUCE = "reduce"


@dataclass(frozen=True, slots=True)
class For:
    """`for var in range(extent)`; the extent is static and the names of nested loops differ."""

    var: str
    extent: int
    body: Stmt
    kind: LoopKind = LoopKind.SERIAL
    annotations: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Seq:
    """Statements one after another; never nested directly, never of length one."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """`buffer[indices] = value`."""

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class Axis:
    """An iteration variable of a block, with its domain [0, extent)."""

    var: str
    extent: int
    kind: AxisKind = AxisKind.SPATIAL


@dataclass(frozen=True, slots=True)
class Block:
    """A named computation at the point where `axes` equal `values`.

    `values` and `predicate` are over the loop variables around the block (and, in a nested block, the axes of the block
    around it); `init` and `body` over its axes alone. Nothing happens where the predicate is false. `init` runs first
    when every reduce axis is 0. `annotations["intrinsic"]` names the declared intrinsic that implements a tensorized
    block; its body stays the executable meaning.
    """

    name: str
    axes: tuple[Axis, ...]
    values: tuple[Expr, ...]
    body: Stmt
    init: Stmt | None = None
    predicate: Expr | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)


Stmt = For | Seq | Store | Block


@dataclass(frozen=True, slots=True)
class Buffer:
    """A dense row-major array. `scope` is "global" (DRAM) or the name of an on-chip buffer."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str = "global"


@dataclass(frozen=True, slots=True)
class Function:
    """A loop nest over `params` (inputs, then outputs: global buffers of the caller) and intermediate buffers."""

    name: str
    params: tuple[str, ...]
    buffers: Mapping[str, Buffer]
    body: Stmt

    def __repr__(self) -> str:
        return f"<Function {self.name}({', '.join(self.params)})>"

    def __str__(self) -> str:
        from vdla.compiler.printer import function_text

        return function_text(self)


# --- walking ---------------------------------------------------------------------------------------------------------


def seq(*stmts: Stmt) -> Stmt:
    """The statements in order, flattened; a single one stays itself."""
    flat = [inner for stmt in stmts for inner in (stmt.stmts if isinstance(stmt, Seq) else (stmt,))]
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside `stmt`; a block's `init` before its body."""
    match stmt:
        case For(body=body):
            return (body,)
        case Seq(stmts=stmts):
            return stmts
        case Block(init=init, body=body):
            return (body,) if init is None else (init, body)
        case Store():
            return ()


def walk(stmt: Stmt) -> Iterator[Stmt]:
    """Every statement of the tree, parents first."""
    yield stmt
    for child in children(stmt):
        yield from walk(child)


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The expressions directly inside `expr`."""
    match expr:
        case Binary(a=a, b=b):
            return (a, b)
        case Cast(value=value):
            return (value,)
        case Select(cond=cond, a=a, b=b):
            return (cond, a, b)
        case Load(indices=indices):
            return indices
        case Call(args=args):
            return args
        case Var() | Const():
            return ()


def walk_expr(expr: Expr) -> Iterator[Expr]:
    """Every expression of the tree, parents first."""
    yield expr
    for operand in operands(expr):
        yield from walk_expr(operand)


def with_operands(expr: Expr, new: tuple[Expr, ...]) -> Expr:
    """`expr` with its direct operands replaced, in the order of `operands`."""
    match expr:
        case Binary(op=op):
            return Binary(op, *new)
        case Cast(dtype=dtype):
            return Cast(dtype, *new)
        case Select():
            return Select(*new)
        case Load(buffer=buffer):
            return Load(buffer, new)
        case Call():
            return replace(expr, args=new)
        case Var() | Const():
            return expr


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """`expr` with each variable named in `values` replaced."""
    if isinstance(expr, Var):
        return values.get(expr.name, expr)
    old = operands(expr)
    new = tuple(substitute(operand, values) for operand in old)
    return expr if new == old else with_operands(expr, new)


def dtype_of(expr: Expr, buffers: Mapping[str, Buffer]) -> str:
    """The element type of `expr`; variables are int32."""
    match expr:
        case Var():
            return "int32"
        case Const(dtype=dtype) | Cast(dtype=dtype) | Call(dtype=dtype):
            return dtype
        case Binary(op=op, a=a):
            return "bool" if op in COMPARE_OPS else dtype_of(a, buffers)
        case Select(a=a):
            return dtype_of(a, buffers)
        case Load(buffer=buffer):
            return buffers[buffer].dtype
