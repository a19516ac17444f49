"""Rule of Einsum: one sum of products, or, of two tensors, a batched matrix product.

Letters are dimensions; an ellipsis stands for the leading ones, which broadcast.
"""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from functools import reduce

from vdla.compiler import operators, te
from vdla.compiler.graph.operators.products import batched_product
from vdla.compiler.graph.operators.record import OperatorRecord
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall
from vdla.compiler.operators.results import to_accumulator


def _einsum(call: NodeCall) -> te.Tensor:
    tensors = [call.tensor(n) for n in range(len(call.node.inputs))]
    terms, result = _parsed(call, [len(tensor.shape) for tensor in tensors])
    extents = _extents(call, tensors, terms)
    if len(tensors) == 2 and (made := _product(call, tensors, terms, result, extents)) is not None:
        return made
    return _sum_of_products(call, tensors, terms, result, extents)


def _parsed(call: NodeCall, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result, the ellipsis replaced by capitals."""
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
    found: dict[str, int] = {}
    for tensor, term in zip(tensors, terms, strict=True):
        if len(term) != len(tensor.shape):
            call.decline(f"have an operand of {len(term)} dimensions for {term or 'a scalar'}")
        for letter, extent in zip(term, tensor.shape, strict=True):
            found[letter] = max(found.get(letter, 1), extent)
    return found


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
    """The matrix product of two operands that have letters of their own, and common ones."""
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
