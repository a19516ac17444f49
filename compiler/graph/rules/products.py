"""Rules of matrix products."""

from __future__ import annotations

from vdla.compiler import operators, te
from vdla.compiler.graph.rules.precision import in_float32
from vdla.compiler.graph.rules.rule import FusionClass, NodeCall, OperatorRule
from vdla.compiler.ir import SMALL_FLOATS

_C = 2  # input of Gemm


def _matmul(call: NodeCall) -> te.Tensor:
    return product(call, call.tensor(0), call.tensor(1), call.name())


def product(call: NodeCall, a: te.Tensor, b: te.Tensor, name: str) -> te.Tensor:
    """A matrix product as NumPy's matmul: a vector is a row on the left, a column on the right."""
    if len(a.shape) > 1 and len(b.shape) > 1:
        return operators.matmul(a, b, name=name)
    left = a if len(a.shape) > 1 else operators.unsqueeze(a, 0, name=f"{name}_a")
    right = b if len(b.shape) > 1 else operators.unsqueeze(b, 1, name=f"{name}_b")
    whole = operators.matmul(left, right, name=f"{name}_matrix")
    return operators.reshape(whole, call.extents, name=name)


def _gemm(call: NodeCall) -> te.Tensor:
    """alpha A B + beta C; a product with a transposed B is `dense`."""
    a, b, c = call.tensor(0), call.tensor(1), call.optional(_C)
    alpha, beta = call.attribute("alpha", 1.0), call.attribute("beta", 1.0)
    name = call.name()
    if call.attribute("transA", 0):
        a = operators.transpose(a, name=f"{name}_a")
    function = operators.dense if call.attribute("transB", 0) else operators.matmul
    if alpha == 1 and (c is None or beta == 0):
        return function(a, b, name=name)
    if alpha == beta == 1 and c is not None and tuple(c.shape) == (call.extents[1],):
        return function(a, b, c, name=name)
    if a.dtype not in SMALL_FLOATS:
        return _scaled_and_added(function(a, b, name=f"{name}_product"), c if beta else None, alpha, beta, name)

    def gemm(x: te.Tensor, y: te.Tensor, z: te.Tensor | None, name: str) -> te.Tensor:
        return _scaled_and_added(function(x, y, name=f"{name}_product"), z, alpha, beta, name)

    return in_float32(call, gemm, a, b, c if beta else None)


def _scaled_and_added(total: te.Tensor, c: te.Tensor | None, alpha: float, beta: float, name: str) -> te.Tensor:
    """alpha * total + beta * c, which broadcasts."""
    scale, weight = (te.const(_number(v, total.dtype), total.dtype) for v in (alpha, beta))
    if c is None:
        return operators.elementwise(total, lambda v: v * scale, name)
    return operators.combine_elements("Gemm", lambda v, w: v * scale + w * weight, (total, c), name)


def _number(value: float, dtype: str) -> float:
    """A factor in a type; that of an integer product must be whole."""
    return int(value) if dtype.startswith(("int", "uint")) and float(value).is_integer() else value


PRODUCTS = (
    OperatorRule("MatMul", FusionClass.COMPLEX, _matmul),
    OperatorRule("Gemm", FusionClass.COMPLEX, _gemm),
)
