"""The loop-nest IR, the whole of it: expressions, statements, blocks, functions.

Every node is immutable; a pass or a schedule primitive returns a new tree. Buffers are referred to by name, and a
`Function` owns the table of names. A `Block` computes one element (or, once blockized, one tile) at the position its
axes are bound to; the loops around it only say which positions, in which order. The passes that lead to native code
take the blocks away; what they leave is loops, stores and the five nodes of "lowered statements".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from vdla.compiler.ir.operators import COMPARE_OPS, LOGIC_OPS
from vdla.support.errors import Error

Scalar = int | float | bool
MAX_EXTENT = (1 << 31) - 1  # loop variables and indices are int32
MAX_RANK = 32  # dimensions of an array in NumPy 1


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


class DeclaredIntrinsic(Protocol):
    """An intrinsic as the IR refers to it; the one implementation is `vdla.compiler.tensorize.Intrinsic`."""

    @property
    def name(self) -> str:
        """Its name in the printed IR."""

    @property
    def behaviour(self) -> Function:
        """What one call computes: one block over the operands, the output last."""

    @property
    def output(self) -> Any:  # noqa: ANN401  a tensor of `te`, which lies above the IR
        """The tensor that `behaviour` computes."""

    @property
    def scopes(self) -> Mapping[str, str]:
        """Where each operand lies."""

    @property
    def in_place(self) -> str | None:
        """The operand that shares the output's storage."""

    @property
    def epilogue(self) -> bool:
        """Whether it can run in the pass that produces its operand."""

    @property
    def target(self) -> str:
        """The machine: "vdla" or "cpu"."""

    @property
    def requires(self) -> tuple[str, ...]:
        """The CPU features without which `behaviour` runs instead."""

    @property
    def lower(self) -> Callable[[Any], Any]:
        """Emits the instructions of calls."""


@dataclass(frozen=True, eq=False)
class Match:
    """How a block computes an intrinsic: the buffer of each operand, and which entry of it, over the block's axes.

    `entries[operand]` are the leading indices, those before the dimensions of one entry. A `condition` operand that is
    absent from `conditions` always holds.
    """

    intrinsic: DeclaredIntrinsic
    buffers: Mapping[str, str]
    entries: Mapping[str, tuple[Expr, ...]]
    immediates: Mapping[str, Scalar]
    conditions: Mapping[str, Expr]

    def __repr__(self) -> str:
        return self.intrinsic.name


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


# --- types ---------------------------------------------------------------------------------------------------------


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
