# SPDX-License-Identifier: Apache-2.0
"""Products of tiles on the tensor cores of a GPU, a step of a whole warp: mma.sync.

c[16, 8] += a[16, k] b[k, 8], with k = 16 terms of float16 or bfloat16, summed in float32, or 32
terms of int8, summed exactly in int32. `a` and `b` lie in shared memory, `c` in the registers of
the 32 lanes of a warp. A device without them runs the behaviour, each lane the elements it holds.

The layouts of the fragments are those of the PTX manual, "Matrix Fragments for mma.m16n8k16 with
floating point type" and "mma.m16n8k32".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial

from llvmlite import ir

from vdla.compiler import te
from vdla.compiler.codegen.llvm.intrinsics.vectors import check_choice, declared_once
from vdla.compiler.codegen.llvm.types import Type, Value, call_intrinsic
from vdla.compiler.tensorize import SHARED, WARP, Fragment, FragmentEmitter, Intrinsic

_ROWS, _COLUMNS = 16, 8
_I32, _FLOAT = ir.IntType(32), ir.FloatType()
_HALVES = ir.VectorType(ir.HalfType(), 2)


class RowsOfB(Enum):
    """What a row of the operand `b` has: one term of each column, or all terms of one column."""

    TERMS = "terms"
    COLUMNS = "columns"


@dataclass(frozen=True, slots=True)
class _Form:
    """One instruction: its terms, how many of them share a register, the type of its sums, and its
    name and types in LLVM."""

    terms: int
    neighbours: int
    sums: str
    instruction: str
    register: Type
    result: Type


_FORMS = {
    "float16": _Form(16, 2, "float32", "m16n8k16.row.col.f32.f32", _HALVES, _FLOAT),
    "bfloat16": _Form(16, 2, "float32", "m16n8k16.row.col.bf16", _I32, _FLOAT),
    "int8": _Form(32, 4, "int32", "m16n8k32.row.col.s8", _I32, _I32),
}
SUMS = {dtype: form.sums for dtype, form in _FORMS.items()}
"""The type of the sums for each type of the operands."""
_OF_SUMS = 2  # neighbours in a lane


@declared_once
def mma(dtype: str = "float16", rows: RowsOfB = RowsOfB.TERMS) -> Intrinsic:
    """The product of tiles of a type: c[i, j] += sum over k of a[i, k] * b[k, j], or b[j, k] where
    rows of `b` are columns of the product.

    Raises:
        IntrinsicError: tensor cores have no such type.
    """
    check_choice("mma", "dtype", dtype, _FORMS)
    check_choice("mma", "rows", rows, RowsOfB)
    form, by_terms = _FORMS[dtype], rows is RowsOfB.TERMS
    b_shape = (form.terms, _COLUMNS) if by_terms else (_COLUMNS, form.terms)
    a, b = te.placeholder((_ROWS, form.terms), dtype, "a"), te.placeholder(b_shape, dtype, "b")
    k = te.reduce_axis(form.terms, "k")

    def value(i: te.Value, j: te.Value) -> te.Value:
        right = b[k, j] if by_terms else b[j, k]
        return te.sum(te.cast(form.sums, a[i, k]) * te.cast(form.sums, right), axis=k)

    return Intrinsic(
        name=f"mma_{dtype}" if by_terms else f"mma_{dtype}_nk",
        output=te.compute((_ROWS, _COLUMNS), value, "c"),
        scopes={"a": SHARED, "b": SHARED, "c": WARP},
        lower=partial(_lower, form),
        target="gpu",
        requires=("sm_80",),
        fragments={
            "a": Fragment((_ROWS, form.terms), dtype, form.neighbours),
            "b": Fragment(b_shape, dtype, form.neighbours, transposed=by_terms),
            "c": Fragment((_ROWS, _COLUMNS), form.sums, _OF_SUMS),
        },
    )


def _lower(form: _Form, emit: FragmentEmitter) -> None:
    """One mma.sync."""
    builder, sums = emit.builder, emit.load("c")
    operands = [builder.bitcast(register, form.register) for name in ("a", "b") for register in emit.load(name)]
    kind = ir.LiteralStructType([form.result] * len(sums))
    results: Value = call_intrinsic(builder, f"llvm.nvvm.mma.{form.instruction}", kind, *operands, *sums)
    emit.store("c", [builder.extract_value(results, place) for place in range(len(sums))])
