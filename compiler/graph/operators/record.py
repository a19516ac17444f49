# SPDX-License-Identifier: Apache-2.0
"""The record of a graph operator, from which every list of operators is derived.

A record has the operator's tensor expression, fusion class and traits, and optionally its layout
rule, its pattern in quantised graphs and its template on the accelerator.
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
    """Traits of an operator, any number of them."""

    NONE = 0
    ELEMENTWISE = auto()
    """Each result depends only on the broadcast inputs at its position."""
    FUNCTION = auto()
    """Floats from floats, element by element: images in blocks, and tables of quantised values."""
    KEEPS_MAGNITUDE = auto()
    """Keeps the order of magnitude of the parts of a value."""
    HOMOGENEOUS = auto()
    """Commutes with a positive factor of the first input."""
    BOUND = auto()
    """Limits its first input: fused as bounds into the quantised producer."""
    CONVERSION = auto()
    """Converts between floats and quantised integers."""
    MOVEMENT = auto()
    """Only moves elements of the first input."""
    SELECTION = auto()
    """Results are selected elements of the first input."""
    RESHAPE = auto()
    """The memory of the first input under another shape."""
    JOIN = auto()
    """Concatenates its operands."""
    POOL = auto()
    COMBINING = auto()
    """Runs on integers only where an operand is quantised anyway."""
    SLOPED = auto()
    """A function of each element of the first input, with constants of its channel."""
    CONVOLUTION = auto()
    TRANSPOSED_CONVOLUTION = auto()
    MATRIX_PRODUCT = auto()
    BIASED = auto()
    """A product of a weight whose third input is a bias."""
    RANDOM = auto()
    TABULAR = auto()
    """An operator of tabular models, replaced by other operators except on strings."""
    PRODUCT = CONVOLUTION | TRANSPOSED_CONVOLUTION | MATRIX_PRODUCT


IntegerPattern = Callable[[QuantisedResult, Node], Replacement]
"""The integer operator for a float node and its successors up to a QuantizeLinear."""
Template = Callable[[MachineNode], OperatorCall]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorRecord:
    """An operator of graphs.

    `attributes` has the defaults of attributes unknown to ONNX, or the type of a required one. For
    a product that quantisation makes an integer one, `weight` is the index of the second factor and
    `output_axis` its dimension of outputs. `on_host` says whether `runtime/numpy_operators` has a
    function for the operator; without one, only nodes that the tensor expression accepts run.
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
        """Whether the operator has one of these traits."""
        return bool(self.traits & trait)


def records(
    fusion: FusionClass,
    expressions: Mapping[str, Expression],
    traits: Trait = Trait.NONE,
    **fields: Any,  # noqa: ANN401  fields of the record
) -> tuple[OperatorRecord, ...]:
    """Operators that differ only in their expressions, by name."""
    return tuple(
        OperatorRecord(name=name, fusion=fusion, expression=expression, traits=traits, **fields)
        for name, expression in expressions.items()
    )
