# SPDX-License-Identifier: Apache-2.0
"""What the compiler knows of an operator of graphs: one record, from which every list is derived.

A record has the tensor expression of the operator, how it fuses, what kind of operator it is, and
where it has them: how it follows images into blocks of channels, its pattern in quantised graphs,
its template on the accelerator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Flag, auto
from typing import Any

from vdla.compiler.graph.graph import Node
from vdla.compiler.graph.integer.result import QuantisedResult
from vdla.compiler.graph.layouts.layout_rule import LayoutRule
from vdla.compiler.graph.machine.call import MachineNode, OperatorCall
from vdla.compiler.graph.rewriting import Replacement
from vdla.compiler.graph.rules.rule import Expression, FusionClass


class Trait(Flag):
    """What kind of operator it is; an operator may be of several kinds."""

    NONE = 0
    ELEMENTWISE = auto()
    """Each result depends on the inputs at its position only, broadcast."""
    FUNCTION = auto()
    """Floats from floats, element by element: images in blocks, and tables of quantised values."""
    KEEPS_MAGNITUDE = auto()
    """Leaves the parts of a value in the order of magnitude that they have."""
    HOMOGENEOUS = auto()
    """A positive factor of the first input is one of the result."""
    BOUND = auto()
    """Limits its first input: bounds of the quantised result before it."""
    CONVERSION = auto()
    """Between floats and integers that stand for them."""
    MOVEMENT = auto()
    """Only moves elements of the first input."""
    SELECTION = auto()
    """Results are elements of the first input, which it chooses."""
    RESHAPE = auto()
    """The memory of the first input under another shape."""
    JOIN = auto()
    """The operands behind one another."""
    POOL = auto()
    COMBINING = auto()
    """On integers where an operand is quantised anyway."""
    CONVOLUTION = auto()
    TRANSPOSED_CONVOLUTION = auto()
    MATRIX_PRODUCT = auto()
    BIASED = auto()
    """A product of a weight whose third input is a bias."""
    RANDOM = auto()
    TABULAR = auto()
    """Of models of tables: other operators take its place, except of strings."""
    PRODUCT = CONVOLUTION | TRANSPOSED_CONVOLUTION | MATRIX_PRODUCT


IntegerPattern = Callable[[QuantisedResult, Node], Replacement]
"""The integer operator of a float node and what follows it, up to its QuantizeLinear."""
Template = Callable[[MachineNode], OperatorCall]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRecord:
    """An operator of graphs.

    `attributes` has the defaults of its attributes, and types of those without one, where ONNX does
    not have them. `weight` is the input of a product that is multiplied with the first one, and
    `output_axis` its dimension along which the outputs lie, where quantisation makes a product of
    integers of it. `on_host` says whether `runtime/numpy_operators` has a function of it: without
    one, it runs where the tensor expression takes the node.
    """

    name: str
    fusion: FusionClass = FusionClass.OPAQUE
    expression: Expression | None = None
    traits: Trait = Trait.NONE
    attributes: Mapping[str, Any] | None = None
    layout: LayoutRule | None = None
    integer: IntegerPattern | None = None
    template: Template | None = None
    weight: int = 1
    output_axis: int | None = None
    on_host: bool = True

    def has(self, trait: Trait) -> bool:
        """Whether the operator is of one of these kinds."""
        return bool(self.traits & trait)


def records(
    fusion: FusionClass,
    expressions: Mapping[str, Expression],
    traits: Trait = Trait.NONE,
    **fields: Any,  # noqa: ANN401  fields of the record
) -> tuple[OperatorRecord, ...]:
    """Operators that differ in their expressions only, by name."""
    return tuple(
        OperatorRecord(name=name, fusion=fusion, expression=expression, traits=traits, **fields)
        for name, expression in expressions.items()
    )
