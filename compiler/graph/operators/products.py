# SPDX-License-Identifier: Apache-2.0
"""Rules of matrix products."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from functools import reduce

import numpy as np

from vdla.compiler import operators, te
from vdla.compiler.graph.graph import Array
from vdla.compiler.graph.integer.products import fuse_gemm, fuse_matmul
from vdla.compiler.graph.operators.record import OperatorRecord, Trait
from vdla.compiler.graph.rules.algorithm import ALGORITHM, LANES
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, in_float32
from vdla.compiler.ir import storage_dtype
from vdla.compiler.operators.results import to_accumulator
from vdla.compiler.operators.roles import PLACED

PLAIN, PACKED = "plain", "packed"
"""How a matrix product reads a constant right operand: plain, or packed in lanes."""
_C = 2  # input of Gemm
_MATRIX = 2  # dimensions
_SHORT_ROW = 512  # columns; longer rows have few incomplete tiles
_ROWS = 8  # the least number for which padding pays


def _matmul(call: NodeCall) -> te.Tensor:
    return product(call, call.tensor(0), call.tensor(1), call.name())


def product(call: NodeCall, a: te.Tensor, b: te.Tensor, name: str) -> te.Tensor:
    """The matrix product of NumPy's matmul: a left vector is a row, a right one a column."""
    known = call.constants[1] if b is call.tensor(1) else None
    default = PACKED if len(a.shape) == len(b.shape) == _MATRIX and known is not None else PLAIN
    if call.attribute(ALGORITHM, default) == PACKED:
        if known is None or len(b.shape) != _MATRIX or len(a.shape) < _MATRIX:
            call.decline("have a constant matrix on the right to pack")
        return _packed_product(call, a, np.ascontiguousarray(known.T), None, name)
    if len(a.shape) > 1 and len(b.shape) > 1:
        return batched_product(call, a, b, name)
    left = a if len(a.shape) > 1 else operators.unsqueeze(a, 0, name=f"{name}_a")
    right = b if len(b.shape) > 1 else operators.unsqueeze(b, 1, name=f"{name}_b")
    whole = operators.matmul(left, right, name=f"{name}_matrix")
    return operators.reshape(whole, call.extents, name=name)


def batched_product(call: NodeCall, a: te.Tensor, b: te.Tensor, name: str) -> te.Tensor:
    """The matrix product of two batches.

    Columns of short rows are padded to whole vectors: the tiles of a product are then complete,
    which saves more than the copies cost.
    """
    rows, columns = a.shape[-2], b.shape[-1]
    if a.dtype not in ("float32", "float64"):
        return operators.matmul(a, b, name=name)
    lanes = call.target.lanes(storage_dtype(a.dtype).itemsize)
    matrices = math.prod((*a.shape[:-2], *b.shape[:-2]))
    short = lanes < columns <= _SHORT_ROW and columns % lanes and rows >= _ROWS
    if matrices == 1 or not short:
        return operators.matmul(a, b, name=name)
    none = (0,) * (len(b.shape) - 1)
    wide = operators.pad(b, (*none, 0, *none, -columns % lanes), name=f"{name}_columns")
    total = operators.matmul(a, wide, name=f"{name}_tiles")
    whole = te.compute(total.shape, lambda *i: total[i], f"{name}_rows", PLACED)
    return te.compute((*total.shape[:-1], columns), lambda *i: whole[i], name)


def _gemm(call: NodeCall) -> te.Tensor:
    """alpha A B + beta C."""
    a, b, c = call.tensor(0), call.tensor(1), call.optional(_C)
    alpha, beta = call.attribute("alpha"), call.attribute("beta")
    name = call.name()
    if call.attribute("transA"):
        a = operators.transpose(a, name=f"{name}_a")
    if alpha == 1 and (c is None or beta == 0):
        return _product_of_gemm(call, a, b, None, name)
    if alpha == beta == 1 and c is not None and tuple(c.shape) == (call.extents[1],):
        return _product_of_gemm(call, a, b, c, name)

    def gemm(x: te.Tensor, y: te.Tensor, z: te.Tensor | None, name: str) -> te.Tensor:
        return _scaled_and_added(_product_of_gemm(call, x, y, None, f"{name}_product"), z, alpha, beta, name)

    return in_float32(call, gemm, a, b, c if beta else None)


def _product_of_gemm(call: NodeCall, a: te.Tensor, b: te.Tensor, bias: te.Tensor | None, name: str) -> te.Tensor:
    """A B plus a bias; a constant B is packed, another transposed B is transposed first."""
    transposed, known = bool(call.attribute("transB")), call.constants[1] if b is call.tensor(1) else None
    if known is not None:
        return _packed_product(call, a, known if transposed else np.ascontiguousarray(known.T), bias, name)
    turned = operators.transpose(b, name=f"{name}_b") if transposed else b
    return operators.matmul(a, turned, bias, name=name)


def _packed_product(call: NodeCall, a: te.Tensor, weight: Array, bias: te.Tensor | None, name: str) -> te.Tensor:
    """The product with a constant weight [N, K], packed at compile time."""
    lanes = call.attribute(LANES, None)
    if lanes is not None and 2 * len(weight) <= lanes:
        call.decline(f"have columns that fill half a block of {lanes}, got {len(weight)}")
    packed = operators.pack_dense(weight, call.target, lanes)
    layout = f"OI{packed.shape[-1]}o"
    return operators.dense(a, call.pack("weight", packed), bias, len(weight), layout, name=name)


def _scaled_and_added(total: te.Tensor, c: te.Tensor | None, alpha: float, beta: float, name: str) -> te.Tensor:
    """alpha * total + beta * c, which broadcasts."""
    scale, weight = (te.const(_number(v, total.dtype), total.dtype) for v in (alpha, beta))
    if c is None:
        return operators.elementwise(total, lambda v: v * scale, name)
    return operators.combine_elements("Gemm", lambda v, w: v * scale + w * weight, (total, c), name)


def _number(value: float, dtype: str) -> float:
    """A factor in a type; an integer product needs a whole one."""
    return int(value) if dtype.startswith(("int", "uint")) and float(value).is_integer() else value


PRODUCTS = (
    OperatorRecord(
        name="MatMul",
        fusion=FusionClass.COMPLEX,
        expression=_matmul,
        traits=Trait.MATRIX_PRODUCT,
        integer=fuse_matmul,
        output_axis=-1,
    ),
    OperatorRecord(
        name="Gemm",
        fusion=FusionClass.COMPLEX,
        expression=_gemm,
        traits=Trait.MATRIX_PRODUCT | Trait.BIASED,
        integer=fuse_gemm,
        output_axis=1,
    ),
)


# --- einsum ---------------------------------------------------------------------------------------


def _einsum(call: NodeCall) -> te.Tensor:
    tensors = [call.tensor(n) for n in range(len(call.node.inputs))]
    terms, result = _parsed(call, [len(tensor.shape) for tensor in tensors])
    extents = _extents(call, tensors, terms)
    if len(tensors) == 2 and (made := _product(call, tensors, terms, result, extents)) is not None:
        return made
    return _sum_of_products(call, tensors, terms, result, extents)


def _parsed(call: NodeCall, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, with capitals for the ellipsis."""
    equation = call.attribute("equation").replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        call.decline(f"have an equation of {len(ranks)} operands, got {equation}")
    spare = [letter for letter in string.ascii_letters if letter not in equation]
    most = max(
        (rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True) if "..." in t), default=0
    )
    dots = "".join(spare[:most])
    terms = [
        term.replace("...", dots[most - (rank - len(term.replace("...", ""))) :]) if "..." in term else term
        for term, rank in zip(terms, ranks, strict=True)
    ]
    if arrow:
        return terms, right.replace("...", dots)
    letters = "".join(terms)
    once = sorted(letter for letter in set(letters) if letters.count(letter) == 1 and letter not in dots)
    return terms, dots + "".join(once)


def _extents(call: NodeCall, tensors: Sequence[te.Tensor], terms: Sequence[str]) -> dict[str, int]:
    """The extent of each letter; 1 broadcasts."""
    extents: dict[str, int] = {}
    for tensor, term in zip(tensors, terms, strict=True):
        if len(term) != len(tensor.shape):
            call.decline(f"have an operand of {len(term)} dimensions for {term or 'a scalar'}")
        for letter, extent in zip(term, tensor.shape, strict=True):
            extents[letter] = max(extents.get(letter, 1), extent)
    return extents


def _sum_of_products(
    call: NodeCall, tensors: Sequence[te.Tensor], terms: Sequence[str], result: str, extents: dict[str, int]
) -> te.Tensor:
    """The general form, in the accumulator's type."""
    summed = [letter for letter in extents if letter not in result]
    axes = {letter: te.reduce_axis(extents[letter], f"r{n}") for n, letter in enumerate(summed)}

    def value(*i: te.Value) -> te.Value:
        places: dict[str, te.Operand] = {**dict(zip(result, i, strict=False)), **axes}
        factors = []
        for tensor, term in zip(tensors, terms, strict=True):
            at = tuple(0 if extent == 1 else places[letter] for letter, extent in zip(term, tensor.shape, strict=True))
            factors.append(to_accumulator(tensor[at]))
        product = reduce(lambda a, b: a * b, factors)
        return te.sum(product, axis=list(axes.values())) if axes else product

    shape, name = tuple(extents[letter] for letter in result) or (1,), call.name()
    if (
        tensors[0].dtype == call.result.dtype
        and to_accumulator(te.const(0, tensors[0].dtype)).dtype == tensors[0].dtype
    ):
        return te.compute(shape, value, name)
    return operators.cast(te.compute(shape, value, f"{name}_sum"), call.result.dtype, name=name)


def _product(
    call: NodeCall, tensors: Sequence[te.Tensor], terms: Sequence[str], result: str, extents: dict[str, int]
) -> te.Tensor | None:
    """The matrix product of two operands with private and common letters."""
    a, b = terms
    full = all(tuple(extents[c] for c in t) == tuple(x.shape) for t, x in zip(terms, tensors, strict=True))
    batch = [c for c in a if c in b and c in result]
    inner = [c for c in a if c in b and c not in result]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    distinct = all(len(set(term)) == len(term) for term in (a, b, result))
    if not (full and distinct and inner and rows and columns) or set(rows + columns) - set(result):
        return None
    name = call.name()

    def matrix(x: te.Tensor, term: str, first: Sequence[str], second: Sequence[str], what: str) -> te.Tensor:
        order = [term.index(letter) for letter in (*batch, *first, *second)]
        turned = operators.transpose(x, order, name=f"{name}_{what}_order")
        sizes = [math.prod(extents[c] for c in part) for part in (first, second)]
        return operators.reshape(turned, [*(extents[c] for c in batch), *sizes], name=f"{name}_{what}")

    left, right = matrix(tensors[0], a, rows, inner, "a"), matrix(tensors[1], b, inner, columns, "b")
    whole = batched_product(call, left, right, f"{name}_product")
    letters = [*batch, *rows, *columns]
    apart = operators.reshape(whole, [extents[c] for c in letters], name=f"{name}_apart")
    return operators.transpose(apart, [letters.index(c) for c in result], name=name)


EINSUM = (OperatorRecord(name="Einsum", fusion=FusionClass.COMPLEX, expression=_einsum),)
