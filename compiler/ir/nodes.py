# SPDX-License-Identifier: Apache-2.0
"""The nodes of the loop-nest IR: expressions, statements, blocks, functions.

Every node is immutable; passes and schedule primitives return new trees. Buffers are referred to by
name; a `Function` holds the table of names. A `Block` computes one element (once blockized, one
tile) at the position that its axes are bound to; the loops around it determine which positions, and
in which order. Lowering removes blocks: what remains are loops, stores and the lowered statements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from vdla.compiler.ir.operators import COMPARE_OPS, LOGIC_OPS
from vdla.support.errors import Error
from vdla.support.html_repr import shown_by

Scalar = int | float | bool
MAX_EXTENT = (1 << 31) - 1  # loop variables and indices are int32
MAX_RANK = 32  # the limit of NumPy 1


# --- expressions ----------------------------------------------------------------------------------


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
    """`a` if `cond` holds, else `b`; the operand not selected is not evaluated."""

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
Extent = int | Expr  # a constant, or an int32 expression over the scalars of the function


class SymbolicError(Error, ValueError):
    """A symbolic extent where a constant is required."""


# --- statements -----------------------------------------------------------------------------------


class LoopKind(Enum):
    """How the iterations of a loop execute."""

    SERIAL = "serial"
    PARALLEL = "parallel"
    VECTORIZE = "vectorize"
    UNROLL = "unroll"
    VTHREAD = "vthread"


class BarrierScope(Enum):
    """Which threads wait at a barrier."""

    BLOCK = "block"
    WARP = "warp"


class AxisKind(Enum):
    """Whether iterations along an axis are independent, are reduced, or read earlier ones."""

    SPATIAL = "spatial"
    REDUCE = "reduce"
    SCAN = "scan"


@dataclass(frozen=True, slots=True)
class For:
    """`for var in range(extent)`; nested loops have distinct names."""

    var: str
    extent: Extent
    body: Stmt
    kind: LoopKind = LoopKind.SERIAL
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """The extent, which must be constant."""
        return number(self.extent, f"loop {self.var}: the extent")


@dataclass(frozen=True, slots=True)
class Seq:
    """Statements in sequence; never directly nested, never of length one."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Store:
    """`buffer[indices] = value`."""

    buffer: str
    indices: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True, slots=True)
class MultiStore:
    """At least two simultaneous stores: all values and indices are evaluated first."""

    stores: tuple[Store, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """An iteration variable of a block, with its domain [0, extent)."""

    var: str
    extent: Extent
    kind: AxisKind = AxisKind.SPATIAL

    @property
    def size(self) -> int:
        """The extent, which must be constant."""
        return number(self.extent, f"axis {self.var}: the extent")


@dataclass(frozen=True, slots=True)
class Block:
    """A named computation at the point where `axes` equal `values`.

    `values` and `predicate` use the enclosing loop variables (in a nested block, also the axes of
    the enclosing block); `init` and `body` use the axes alone. The block is skipped where the
    predicate is false. `init` runs before `body` when every reduce axis is 0.
    `annotations["intrinsic"]` is the `Match` of a tensorized block, whose body still defines its
    meaning.
    """

    name: str
    axes: tuple[Axis, ...]
    values: tuple[Expr, ...]
    body: Stmt
    init: Stmt | None = None
    predicate: Expr | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict)

    @property
    def bindings(self) -> tuple[tuple[Axis, Expr], ...]:
        """Each axis with its value."""
        return tuple(zip(self.axes, self.values, strict=True))


# --- lowered statements ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class If:
    """`body`, if `cond` holds."""

    cond: Expr
    body: Stmt


@dataclass(frozen=True, slots=True)
class Alloc:
    """Intermediate buffers that exist, uninitialised, while `body` runs."""

    buffers: tuple[str, ...]
    body: Stmt


class DeclaredIntrinsic(Protocol):
    """What the IR knows of an intrinsic; `vdla.compiler.tensorize` defines it."""

    @property
    def name(self) -> str:
        """The name, as printed."""

    @property
    def behaviour(self) -> Function:
        """The computation of one call: one block over the operands, the output last."""

    @property
    def output(self) -> Any:  # noqa: ANN401  a tensor of `te`, which lies above the IR
        """The tensor that `behaviour` computes."""

    @property
    def scopes(self) -> Mapping[str, str]:
        """The memory scope of each operand."""

    @property
    def in_place(self) -> str | None:
        """The operand whose storage the output overwrites."""

    @property
    def epilogue(self) -> bool:
        """Whether it can run in the pass that produces its operand."""

    @property
    def stage_loads(self) -> Callable[[Any], Any] | None:
        """Loads the state of the machine's stage, where results go through it."""

    @property
    def tables(self) -> frozenset[str]:
        """The operands with an index that depends on data."""

    @property
    def ranges(self) -> Mapping[str, tuple[int, int]]:
        """The least and the greatest value of immediates that are not any of their type."""

    @property
    def target(self) -> str:
        """The machine: "vdla", "cpu" or "gpu"."""

    @property
    def requires(self) -> tuple[str, ...]:
        """The CPU features it needs; without them `behaviour` runs instead."""

    @property
    def fragments(self) -> Mapping[str, Any]:
        """The layout of each operand over the lanes of a warp, of a GPU's intrinsic."""

    @property
    def lower(self) -> Callable[[Any], Any]:
        """Emits the instructions."""


@dataclass(frozen=True, eq=False)
class Match:
    """How a block computes an intrinsic: the buffer and the entry of each operand.

    `entries[operand]` are the leading indices of the operand, those in front of the dimensions of
    one entry, over the axes of the block. A condition operand missing from `conditions` always
    holds. `moving` are the immediates whose value is an expression of axes outside of the entry.
    """

    intrinsic: DeclaredIntrinsic
    buffers: Mapping[str, str]
    entries: Mapping[str, tuple[Expr, ...]]
    immediates: Mapping[str, Scalar]
    conditions: Mapping[str, Expr]
    moving: Mapping[str, Expr] = field(default_factory=dict)

    def __repr__(self) -> str:
        return self.intrinsic.name


@dataclass(frozen=True, slots=True)
class IntrinsicCall:
    """One call of an intrinsic; `match.entries` use the enclosing loop variables.

    `body` computes the same with loops and stores, and stays executable.
    """

    match: Match
    body: Stmt


@dataclass(frozen=True, slots=True)
class HeapAlloc:
    """Heap buffers that exist, uninitialised, while `body` runs.

    The buffers of a slot share one allocation, of the size of the first: their live ranges are
    disjoint.
    """

    slots: tuple[tuple[str, ...], ...]
    body: Stmt


@dataclass(frozen=True, slots=True)
class Prefetch:
    """A request to fetch the cache line of an element: a hint without effect on results.

    The element may lie outside the buffer; loads within its indices may not.
    """

    buffer: str
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Barrier:
    """The threads of a block, or of a warp of it, wait until all have come here.

    What each wrote before, in shared and global memory, the others read behind it. A loop nest that
    runs in sequence passes it without effect.
    """

    scope: BarrierScope = BarrierScope.BLOCK


@dataclass(frozen=True, slots=True)
class Atomic:
    """One store `element = element op term`, with op add, min or max, which no other thread
    interrupts.

    Threads may update one element by atomic stores of one op at once; their order is open.
    """

    body: Stmt


@dataclass(frozen=True, slots=True)
class Shuffle:
    """The store `element = source`, of elements of one thread, where the source is that of the lane
    `distance` further in the warp.

    All lanes of a warp come to it together. What lanes beyond the warp would give is undefined.
    """

    body: Stmt
    distance: int


Stmt = (
    For
    | Seq
    | Store
    | MultiStore
    | Block
    | If
    | Alloc
    | HeapAlloc
    | IntrinsicCall
    | Prefetch
    | Barrier
    | Atomic
    | Shuffle
)


@dataclass(frozen=True, slots=True)
class Buffer:
    """A dense row-major array. `scope` is "global" (DRAM) or names an on-chip buffer.

    On a GPU, "shared" is one array for each block of threads, "warp" one for each warp, "local" one
    for each thread.
    """

    name: str
    shape: tuple[Extent, ...]
    dtype: str
    scope: str = "global"

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape, which must be constant."""
        return tuple(number(extent, f"buffer {self.name}: dimension {d}") for d, extent in enumerate(self.shape))


@dataclass(frozen=True, slots=True)
class Function:
    """A loop nest over `params` (inputs, then outputs, of the caller) and intermediate buffers.

    `scalars` are the names of the symbolic extents: int32, at least 1, each equal to some dimension
    of a parameter, so that a call determines it.
    """

    name: str
    params: tuple[str, ...]
    buffers: Mapping[str, Buffer]
    body: Stmt
    scalars: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Function {self.name}({', '.join(self.params)})>"

    _repr_html_ = shown_by("schedules", "function_html")

    def __str__(self) -> str:
        from vdla.compiler.ir.printer import function_text

        return function_text(self)


# --- construction ---------------------------------------------------------------------------------


def binary(op: str, a: Expr | int | str, b: Expr | int | str) -> Binary:
    """`a op b`; a number is an int32 constant, a string the name of a variable."""
    left, right = (Const(e) if isinstance(e, int) else Var(e) if isinstance(e, str) else e for e in (a, b))
    return Binary(op, left, right)


# --- types ----------------------------------------------------------------------------------------


def number(extent: Extent, what: str) -> int:
    """A constant extent.

    Raises:
        SymbolicError: it is symbolic.
    """
    if isinstance(extent, int):
        return extent
    from vdla.compiler.ir.printer import expr_text

    raise SymbolicError(f"{what} must be a number, got {expr_text(extent)}")


def dtype_of(expr: Expr, buffers: Mapping[str, Buffer]) -> str:
    """The dtype of `expr`; variables are int32."""
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
    """Whether `expr` is known to be bool without looking up buffers."""
    match expr:
        case Binary(op=op, a=a, b=b):
            return op in COMPARE_OPS or (op in LOGIC_OPS and (is_condition(a) or is_condition(b)))
        case Const(dtype=dtype) | Cast(dtype=dtype) | Call(dtype=dtype):
            return dtype == "bool"
        case Select(a=a, b=b):
            return is_condition(a) or is_condition(b)
    return False
