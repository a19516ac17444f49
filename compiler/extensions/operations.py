# SPDX-License-Identifier: Apache-2.0
"""How many operations a step of an extension is, counted from its expression.

A subexpression is counted once for each value of the axes that it depends on, so that what all
lanes share counts once. Casts, shifts by constants and multiplications by powers of two are wires.
A datapath may share more or compute it otherwise: the count is that of the definition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from vdla.compiler import ir
from vdla.compiler.extensions.emit_stage import EmitStage
from vdla.compiler.extensions.extension import Extension
from vdla.compiler.ir import COMPARE_OPS, INTEGER_BITS
from vdla.compiler.te import Stage
from vdla.compiler.te.expr import axis_name

_Range = tuple[int, int]


@dataclass(frozen=True, slots=True, order=True)
class StepOperation:
    """An operation by its name, and the bits of its operands, the wider one first.

    Bits are those that values can have, not those of the type: a product of two int8 is 8 x 8 bits.
    """

    op: str
    bits: int
    other_bits: int


def step_operations(declared: Extension | EmitStage) -> Counter[StepOperation]:
    """The operations of a step, or of an entry that passes a stage."""
    outputs = [] if declared.output is None else [declared.output]
    if isinstance(declared, Extension):
        outputs += declared.updates.values()
    total: Counter[StepOperation] = Counter()
    for output in outputs:
        if isinstance(output.stage, Stage):
            total += _of_stage(output.stage)
    return total


def _of_stage(stage: Stage) -> Counter[StepOperation]:
    """Those of the elements, and of the sums over them."""
    dtypes = {tensor.name: tensor.dtype for tensor in stage.reads}
    extents = {axis_name(name): int(extent) for name, extent in zip(stage.axes, stage.shape, strict=True)}
    results = prod(extents.values())
    reduced = () if stage.reduction is None else stage.reduction.axes
    extents |= {axis_name(axis.name): int(axis.extent) for axis in reduced}
    counts: Counter[StepOperation] = Counter()
    for expr in {node for value in stage.values for node in _computed(value.expr)}:
        operation = _operation(expr, dtypes)
        if operation is not None:
            used = {node.name for node in ir.walk_expr(expr) if isinstance(node, ir.Var)}
            counts[operation] += prod(extents[name] for name in used if name in extents)
    terms = prod(int(axis.extent) for axis in reduced)
    if stage.reduction is not None and terms > 1:
        counts += _of_sums(stage, dtypes, terms, results * (terms - 1))
    return counts


def _of_sums(stage: Stage, dtypes: Mapping[str, str], terms: int, count: int) -> Counter[StepOperation]:
    """The combinations of the terms of all results; a sum has the bits of all its terms."""
    counts: Counter[StepOperation] = Counter()
    assert stage.reduction is not None
    for value in stage.values:
        low, high = _range(value.expr, dtypes)
        adds = stage.reduction.reducer.name == "sum"
        bits = _bits((terms * low, terms * high) if adds else (low, high))
        counts[StepOperation("add" if adds else stage.reduction.reducer.name, bits, bits)] += count
    return counts


def _computed(expr: ir.Expr) -> Iterator[ir.Expr]:
    """The nodes that hardware computes: those that depend on data, without indices."""
    if not any(isinstance(node, ir.Load) for node in ir.walk_expr(expr)):
        return
    yield expr
    if not isinstance(expr, ir.Load):
        for operand in ir.operands(expr):
            yield from _computed(operand)


def _operation(expr: ir.Expr, dtypes: Mapping[str, str]) -> StepOperation | None:
    """The operation of a node; None for wires."""
    match expr:
        case ir.Binary(op=op, a=a, b=b):
            if isinstance(b, ir.Const) and _is_wire(op, b.value):
                return None
            if isinstance(a, ir.Const) and op == "mul" and _is_wire(op, a.value):
                return None
            widths = sorted((_bits(_range(a, dtypes)), _bits(_range(b, dtypes))), reverse=True)
            return StepOperation("compare" if op in COMPARE_OPS else op, *widths)
        case ir.Select(a=a, b=b):
            bits = max(_bits(_range(a, dtypes)), _bits(_range(b, dtypes)))
            return StepOperation("select", bits, bits)
        case ir.Call(name=name, args=args):
            bits = max((_bits(_range(argument, dtypes)) for argument in args), default=0)
            return StepOperation(name, bits, bits)
    return None


def _is_wire(op: str, value: ir.Scalar) -> bool:
    """Whether an operation with a constant takes no logic."""
    power_of_two = value > 0 and int(value).bit_count() == 1
    return op in ("shl", "shr") or (op in ("mul", "floordiv", "mod") and power_of_two)


# --- widths ---------------------------------------------------------------------------------------


def _bits(values: _Range) -> int:
    """Bits of a type that holds a range, signed if it has negative values."""
    low, high = values
    return max(1, high.bit_length()) if low >= 0 else 1 + max(high.bit_length(), (-low - 1).bit_length())


def _range(expr: ir.Expr, dtypes: Mapping[str, str]) -> _Range:
    """The least and the largest value that a node can have."""
    match expr:
        case ir.Load(buffer=buffer):
            return _limits(dtypes[buffer])
        case ir.Const(value=value):
            return int(value), int(value)
        case ir.Cast(dtype=dtype, value=value):
            return _inside(_range(value, dtypes), dtype)
        case ir.Select(a=a, b=b):
            return _hull(_range(a, dtypes), _range(b, dtypes))
        case ir.Call(name="abs", args=(value,), dtype=dtype):
            low, high = _range(value, dtypes)
            return _inside((0, max(-low, high)), dtype)
        case ir.Call(name="popcount", args=(value,), dtype=dtype):
            return _inside((0, _bits(_range(value, dtypes))), dtype)
        case ir.Call(dtype=dtype):
            return _limits(dtype)
        case ir.Binary(op=op, a=a, b=b):
            return _of_operands(op, _range(a, dtypes), _range(b, dtypes), _dtype(expr, dtypes))
    return _limits("int32")


def _of_operands(op: str, a: _Range, b: _Range, dtype: str) -> _Range:
    """The values of an operation; of one that is not listed, those of its type."""
    match op:
        case "add":
            return _inside((a[0] + b[0], a[1] + b[1]), dtype)
        case "sub":
            return _inside((a[0] - b[1], a[1] - b[0]), dtype)
        case "mul":
            products = [x * y for x in a for y in b]
            return _inside((min(products), max(products)), dtype)
        case "min" | "max":
            choose = min if op == "min" else max
            return choose(a[0], b[0]), choose(a[1], b[1])
        case "and" if max(a[0], b[0]) >= 0:
            return 0, min(high for low, high in (a, b) if low >= 0)
        case "shr" if b[0] == b[1] >= 0:
            return a[0] >> b[0], a[1] >> b[0]
    return (0, 1) if op in COMPARE_OPS else _limits(dtype)


def _dtype(expr: ir.Expr, dtypes: Mapping[str, str]) -> str:
    """The dtype of a node, given those of buffers."""
    while isinstance(expr, ir.Binary | ir.Select):
        expr = expr.a
    match expr:
        case ir.Load(buffer=buffer):
            return dtypes[buffer]
        case ir.Const(dtype=dtype) | ir.Cast(dtype=dtype) | ir.Call(dtype=dtype):
            return dtype
    return "int32"


def _limits(dtype: str) -> _Range:
    if dtype == "bool":
        return 0, 1
    bits = INTEGER_BITS[dtype]
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _inside(values: _Range, dtype: str) -> _Range:
    """Values in a type, which wrap where they do not fit."""
    low, high = _limits(dtype)
    return values if low <= values[0] and values[1] <= high else (low, high)


def _hull(a: _Range, b: _Range) -> _Range:
    return min(a[0], b[0]), max(a[1], b[1])
