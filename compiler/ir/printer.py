# SPDX-License-Identifier: Apache-2.0
"""Functions as readable, Python-like text.

    matmul(a: int8[64, 32], c: int32[64]):
        for i in range(64):
            for k in range(32):
                block c(vi=i, vk=reduce k):
                    init:
                        c[vi] = 0
                    c[vi] = c[vi] + int32(a[vi, vk])

Each line names its loop or block, so that an instruction can be traced back to its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vdla.compiler.ir import nodes as ir
from vdla.compiler.ir.by_identity import by_identity
from vdla.compiler.ir.dtypes import is_float
from vdla.compiler.ir.literals import Blank
from vdla.compiler.ir.operators import COMPARE_PRECEDENCE, OPERATORS

_INDENT = "    "
_WORDS = {"or": ("or", 1), "and": ("and", 2)}  # symbol and precedence between conditions


@dataclass(frozen=True, slots=True)
class TextLine:
    """A line, and the innermost loop or block it opens or lies in ("" for the header)."""

    text: str
    owner: str


def function_text(fn: ir.Function) -> str:
    """`fn` as text."""
    return "\n".join(line.text for line in function_lines(fn))


@by_identity(most=8)
def function_lines(fn: ir.Function) -> tuple[TextLine, ...]:
    """`fn` as lines: the signature, the intermediate buffers, the statements."""
    params = ", ".join(f"{name}: {_buffer_text(fn.buffers[name])}" for name in fn.params)
    lines = [TextLine(f"{fn.name}({params}):", "")]
    inner = [buffer for name, buffer in fn.buffers.items() if name not in fn.params]
    lines += [TextLine(f"{_INDENT}{buffer.name}: {_buffer_text(buffer)}", "") for buffer in inner]
    _add_stmt(lines, fn.body, 1, "")
    return tuple(lines)


def line_numbers(fn: ir.Function) -> dict[str, int]:
    """The index, in `function_lines`, of the line that opens each loop and block."""
    numbers: dict[str, int] = {}
    for number, line in enumerate(function_lines(fn)):
        if line.owner:
            numbers.setdefault(line.owner, number)
    return numbers


def _buffer_text(buffer: ir.Buffer) -> str:
    """Element type, shape, and the scope unless it is global."""
    scope = "" if buffer.scope == "global" else f" in {buffer.scope}"
    return f"{buffer.dtype}[{', '.join(map(extent_text, buffer.shape))}]{scope}"


def extent_text(extent: ir.Extent) -> str:
    """An extent: a number or an expression."""
    return str(extent) if isinstance(extent, int) else expr_text(extent)


def stmt_text(stmt: ir.Stmt) -> str:
    """A statement as text."""
    lines: list[TextLine] = []
    _add_stmt(lines, stmt, 0, "")
    return "\n".join(line.text for line in lines)


def _add_stmt(lines: list[TextLine], stmt: ir.Stmt, depth: int, owner: str) -> None:
    """Append the lines of a statement, indented by `depth`."""
    indent = _INDENT * depth
    match stmt:
        case ir.Seq(stmts=stmts):
            for inner in stmts:
                _add_stmt(lines, inner, depth, owner)
        case ir.Store(buffer=buffer, indices=indices, value=value):
            lines.append(TextLine(f"{indent}{buffer}[{index_text(indices)}] = {expr_text(value)}", owner))
        case ir.MultiStore(stores=stores):
            targets = ", ".join(f"{store.buffer}[{index_text(store.indices)}]" for store in stores)
            lines.append(
                TextLine(f"{indent}{targets} = {', '.join(expr_text(store.value) for store in stores)}", owner)
            )
        case ir.If() | ir.Alloc() | ir.HeapAlloc() | ir.IntrinsicCall() | ir.Atomic() | ir.Shuffle():
            lines.append(TextLine(f"{indent}{_lowered_header(stmt)}:", owner))
            _add_stmt(lines, stmt.body, depth + 1, owner)
        case ir.Prefetch(buffer=buffer, indices=indices):
            lines.append(TextLine(f"{indent}prefetch {buffer}[{index_text(indices)}]", owner))
        case ir.Barrier(scope=scope):
            lines.append(TextLine(f"{indent}barrier of {scope.value}", owner))
        case ir.For():
            lines.append(TextLine(f"{indent}{_loop_header(stmt)}", stmt.var))
            _add_stmt(lines, stmt.body, depth + 1, stmt.var)
        case ir.Block():
            _add_block(lines, stmt, depth)


def _add_block(lines: list[TextLine], block: ir.Block, depth: int) -> None:
    """Append the lines of a block."""
    indent = _INDENT * depth
    lines.append(TextLine(f"{indent}{_block_header(block)}", block.name))
    if block.init is not None:
        lines.append(TextLine(f"{indent}{_INDENT}init:", block.name))
        _add_stmt(lines, block.init, depth + 2, block.name)
    _add_stmt(lines, block.body, depth + 1, block.name)


def _lowered_header(stmt: ir.If | ir.Alloc | ir.HeapAlloc | ir.IntrinsicCall | ir.Atomic | ir.Shuffle) -> str:
    """The header of a lowered statement, without the colon."""
    match stmt:
        case ir.If(cond=cond):
            return f"if {expr_text(cond)}"
        case ir.Alloc(buffers=buffers):
            return f"with alloc({', '.join(buffers)})"
        case ir.HeapAlloc(slots=slots):
            return f"with heap_alloc({', '.join(map(' '.join, slots))})"
        case ir.IntrinsicCall(match=match):
            return f"step {match.intrinsic.name}"
        case ir.Atomic():
            return "atomic"
        case ir.Shuffle(distance=distance):
            return f"shuffle {distance}"


def _loop_header(loop: ir.For) -> str:
    """`for var in range(extent):`, `range` replaced by the loop kind, annotations as a comment."""
    kind = "range" if loop.kind is ir.LoopKind.SERIAL else loop.kind.value
    return f"for {loop.var} in {kind}({extent_text(loop.extent)}):{_notes(loop.annotations)}"


def _block_header(block: ir.Block) -> str:
    """`block name(axis=value, axis=reduce value) where predicate:`."""
    kinds = ("" if axis.kind is ir.AxisKind.SPATIAL else f"{axis.kind.value} " for axis in block.axes)
    bound = (f"{a.var}={kind}{expr_text(v)}" for a, kind, v in zip(block.axes, kinds, block.values, strict=True))
    where = "" if block.predicate is None else f" where {expr_text(block.predicate)}"
    return f"block {block.name}({', '.join(bound)}){where}:{_notes(block.annotations)}"


def _notes(annotations: Mapping[str, Any]) -> str:
    """Annotations as a trailing comment."""
    texts = (f"{key}={_note_text(value)}" for key, value in annotations.items())
    return f"  # {', '.join(texts)}" if annotations else ""


def _note_text(value: object) -> str:
    """The value of an annotation, on one line."""
    text = str(value)
    return text if text.isprintable() else repr(value)


def index_text(indices: tuple[ir.Expr, ...]) -> str:
    """Indices separated by commas."""
    return ", ".join(expr_text(index) for index in indices)


def expr_text(expr: ir.Expr, level: int = 0) -> str:
    """An expression with the fewest parentheses; `level` is the precedence of its context."""
    match expr:
        case ir.Var(name=name):
            return name
        case ir.Const():
            return _const_text(expr)
        case ir.Binary():
            return _binary_text(expr, level)
        case ir.Cast(dtype=dtype, value=value):
            return f"{dtype}({expr_text(value)})"
        case ir.Select(cond=cond, a=a, b=b):
            return f"select({expr_text(cond)}, {expr_text(a)}, {expr_text(b)})"
        case ir.Load(buffer=buffer, indices=indices):
            return f"{buffer}[{index_text(indices)}]"
        case ir.Call(name=name, args=args):
            return f"{name}({index_text(args)})"


def _binary_text(expr: ir.Binary, level: int) -> str:
    """`a op b`, left-associative except for comparisons, or `op(a, b)`."""
    op, a, b = expr.op, expr.a, expr.b
    symbol, precedence = OPERATORS[op].symbol, OPERATORS[op].precedence
    if symbol is None:
        return f"{op}({expr_text(a)}, {expr_text(b)})"
    if op in _WORDS and (ir.is_condition(a) or ir.is_condition(b)):
        symbol, precedence = _WORDS[op]
    lhs = expr_text(a, precedence + 1 if precedence == COMPARE_PRECEDENCE else precedence)
    text = f"{lhs} {symbol} {expr_text(b, precedence + 1)}"
    return f"({text})" if precedence < level else text


def _const_text(const: ir.Const) -> str:
    """A literal; its dtype follows from its context and is not printed, except for a blank."""
    if isinstance(const.value, Blank):
        return f"${const.value.number}:{const.dtype}"
    if const.dtype == "bool":
        return str(bool(const.value))
    return repr(float(const.value)) if is_float(const.dtype) else str(int(const.value))
