"""Rules of reads at data-dependent indices. Indices out of range read the nearest element."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vdla.compiler import operators, te
from vdla.compiler.graph.operators.record import Trait, records
from vdla.compiler.graph.rules.rule import Expression, FusionClass, NodeCall

_VALUES = 2  # input of OneHot: [off, on]


def _gather(call: NodeCall) -> te.Tensor:
    """The index may be a scalar, which leaves its dimension out of the result."""
    x, indices, axis = call.tensor(0), call.tensor(1), call.attribute("axis", 0)
    if len(x.shape) + len(indices.shape) - 1 == len(call.extents) and len(call.result.extents):
        return operators.gather(x, indices, axis, name=call.name())
    whole = operators.gather(x, indices, axis, name=f"{call.name()}_rows")
    return operators.reshape(whole, call.extents, name=call.name())


def _with_option(function: Callable[..., te.Tensor], option: str) -> Expression:
    """A function of a tensor, indices and one attribute, 0 by default."""
    return lambda call: function(call.tensor(0), call.tensor(1), call.attribute(option, 0), name=call.name())


def _one_hot(call: NodeCall) -> te.Tensor:
    indices, values, axis = call.tensor(0), call.tensor(_VALUES), call.attribute("axis", -1)
    depth = call.extents[axis]
    if len(call.extents) != len(indices.shape) + 1:
        call.decline("have indices of at least one dimension")
    if not indices.dtype.startswith(("int", "uint")):
        indices = operators.cast(indices, "int64", name=f"{call.name()}_indices")
    off, on = (values[te.const(n, "int32")] for n in range(2))
    return operators.one_hot(indices, depth, on, off, axis, name=call.name())


_MOVEMENTS: Mapping[str, Expression] = {
    "Gather": _gather,
    "GatherElements": _with_option(operators.gather_elements, "axis"),
    "GatherND": _with_option(operators.gather_nd, "batch_dims"),
}
GATHERS = (
    *records(FusionClass.INJECTIVE, _MOVEMENTS, Trait.MOVEMENT),
    *records(FusionClass.INJECTIVE, {"OneHot": _one_hot}),
)
