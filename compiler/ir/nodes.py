"""The loop-nest IR, the whole of it: expressions, statements, blocks, functions.

Every node is immutable; a pass or a schedule primitive returns a new tree. Buffers are referred to by name, and a
`Function` owns the table of names. A `Block` computes one element (or, once blockized, one tile) at the position its
axes are bound to; the loops around it only say which positions, in which order. The passes that lead to native code
take the blocks away; what they leave is loops, stores and the five nodes of "lowered statements".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from vdla.support.errors import Error

if TYPE_CHECKING:
    from vdla.compiler.tensorize.intrinsic import Match

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
Extent = int | Expr  # a number, or an int32 expression over the scalars of the function


class SymbolicError(Error, ValueError):
    """A symbolic extent where a number is needed."""


ARITHMETIC_OPS = ("add", "sub", "mul", "floordiv", "mod", "min", "max", "shl", "shr", "and", "or", "xor")
COMPARE_OPS = ("eq", "ne", "lt", "le", "gt", "ge")
BINARY_OPS = ARITHMETIC_OPS + COMPARE_OPS
LOGIC_OPS = ("and", "or", "xor")  # of bools, and of the bits of integers


# --- statements ------------------------------------------------------------------------------------------------------


class LoopKind(Enum):
    """How the iterations of a loop run."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZE = "vectorize"
    UNROLL = "unroll"
    VTHREAD = "vthread"


class AxisKind(Enum):
    """Whether the iterations along an axis are independent, combine into one value, or each read the ones before."""

    SPATIAL = "spatial"
    REDUCE = "reduce"
    SCAN = "scan"


@dataclass(frozen=True, slots=True)
class For:
    """`for var in range(extent)`; the names of nested loops differ."""

    var: str
    extent: Extent
    body: Stmt
    kind: LoopKind = LoopKind.SERIAL
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The extent, which must be a number."""
        return number(self.extent, f"loop {self.var}: the extent")


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
class MultiStore:
    """Several stores at once: every value and index is evaluated before the first is stored. Never of length one."""

    stores: tuple[Store, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """An iteration variable of a block, with its domain [0, extent)."""

    var: str
    extent: Extent
    kind: AxisKind = AxisKind.SPATIAL

    @property
    def size(self) -> int:
        """The extent, which must be a number."""
        return number(self.extent, f"axis {self.var}: the extent")


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


# --- lowered statements ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class If:
    """`body` where `cond` holds."""

    cond: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class Alloc:
    """The intermediate buffers named exist, without content at first, while `body` runs."""

    buffers: tuple[str, ...]
    body: Stmt


@dataclass(frozen=True, slots=True)
class IntrinsicCall:
    """One step of a declared intrinsic: `match.entries` are its operands' places over the loop variables around it.

    `body` is what the step does, as loops and stores; it stays executable.
    """

    match: Match
    body: Stmt


@dataclass(frozen=True, slots=True)
class HeapAlloc:
    """Heap buffers that exist, uninitialised, while `body` runs.

    The buffers of one slot share one allocation, sized by the first of them: their live ranges are disjoint.
    """

    slots: tuple[tuple[str, ...], ...]
    body: Stmt


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A request to have the cache line of an element near: a hint, without effect on what is computed.

    The indices may lie outside of the buffer; what they read themselves may not.
    """

    buffer: str
    indices: tuple[Expr, ...]


Stmt = For | Seq | Store | MultiStore | Block | If | Alloc | HeapAlloc | IntrinsicCall | Prefetch


@dataclass(frozen=True, slots=True)
class Buffer:
    """A dense row-major array. `scope` is "global" (DRAM) or the name of an on-chip buffer."""

    name: str
    shape: tuple[Extent, ...]
    dtype: str
    scope: str = "global"

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape, which must be of numbers."""
        return tuple(number(extent, f"buffer {self.name}: dimension {d}") for d, extent in enumerate(self.shape))


@dataclass(frozen=True, slots=True)
class Function:
    """A loop nest over `params` (inputs, then outputs: global buffers of the caller) and intermediate buffers.

    `scalars` are the names of the symbolic extents: int32, at least 1, each a whole dimension of some parameter, from
    whose shape it is known when the function is called.
    """

    name: str
    params: tuple[str, ...]
    buffers: Mapping[str, Buffer]
    body: Stmt
    scalars: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Function {self.name}({', '.join(self.params)})>"

    def __str__(self) -> str:
        from vdla.compiler.ir.printer import function_text

        return function_text(self)


# --- walking ---------------------------------------------------------------------------------------------------------


def seq(*stmts: Stmt) -> Stmt:
    """The statements in order, flattened; a single one stays itself."""
    flat = [inner for stmt in stmts for inner in (stmt.stmts if isinstance(stmt, Seq) else (stmt,))]
    return flat[0] if len(flat) == 1 else Seq(tuple(flat))


def children(stmt: Stmt) -> tuple[Stmt, ...]:
    """The statements directly inside `stmt`; a block's `init` before its body."""
    match stmt:
        case For(body=body) | If(body=body) | Alloc(body=body) | HeapAlloc(body=body) | IntrinsicCall(body=body):
            return (body,)
        case Seq(stmts=stmts):
            return stmts
        case MultiStore(stores=stores):
            return stores
        case Block(init=init, body=body):
            return (body,) if init is None else (init, body)
        case Store() | Prefetch():
            return ()


def with_children(stmt: Stmt, new: tuple[Stmt, ...]) -> Stmt:
    """`stmt` with its direct statements replaced, in the order of `children`."""
    match stmt:
        case For() | If() | Alloc() | HeapAlloc() | IntrinsicCall():
            return replace(stmt, body=new[0])
        case Seq():
            return seq(*new)
        case MultiStore():
            return MultiStore(tuple(store for store in new if isinstance(store, Store)))
        case Block(init=None):
            return replace(stmt, body=new[0])
        case Block():
            return replace(stmt, init=new[0], body=new[1])
        case Store() | Prefetch():
            return stmt


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


def number(extent: Extent, what: str) -> int:
    """A static extent.

    Raises:
        SymbolicError: it is an expression.
    """
    if isinstance(extent, int):
        return extent
    from vdla.compiler.ir.printer import expr_text

    raise SymbolicError(f"{what} must be a number, got {expr_text(extent)}")


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


def is_condition(expr: Expr) -> bool:
    """Whether `expr` is a bool, as far as that shows without its buffers."""
    match expr:
        case Binary(op=op, a=a, b=b):
            return op in COMPARE_OPS or (op in LOGIC_OPS and (is_condition(a) or is_condition(b)))
        case Const(dtype=dtype) | Cast(dtype=dtype) | Call(dtype=dtype):
            return dtype == "bool"
        case Select(a=a, b=b):
            return is_condition(a) or is_condition(b)
    return False
