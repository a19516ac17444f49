# SPDX-License-Identifier: Apache-2.0
"""Rules: the tensor expressions of one node with static shapes.

A rule is a function of a `NodeCall`. It returns one tensor for each output of the node, in order,
with the element type and the shape of the node's types, and refuses by `call.decline(reason)`.
Tensor expressions have at least one dimension: a scalar of the graph is a tensor of shape [1].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NoReturn

from vdla.compiler import operators, te
from vdla.compiler.graph.attributes import GraphError
from vdla.compiler.graph.graph import Array, Attribute, Node, TensorType
from vdla.compiler.ir import SMALL_FLOATS
from vdla.compiler.target import Target

_REQUIRED: Any = object()


class FusionClass(Enum):
    """How an operator fuses with its neighbours (OSDI'18, section 3)."""

    INJECTIVE = "injective"  # each result element from one element of each input: add, transpose
    REDUCTION = "reduction"  # sum, mean
    COMPLEX = "complex-out-fusable"  # element-wise operators can be fused to its output: conv2d
    OPAQUE = "opaque"  # cannot be fused: sort


class DeclinedError(GraphError):
    """A node without a tensor expression by the rule of its operator."""


@dataclass(frozen=True)
class NodeCall:
    """A node with its inputs: tensors (None where absent), and their values where constant.

    A constant input has a placeholder in `tensors` as well; a rule that needs only the value leaves
    the placeholder out of its expressions.

    `types` are those of the outputs, `input_types` those of the inputs. An image in blocks of
    channels is a tensor of five dimensions, as its array.

    `packed` collects the constants that the rule makes at compile time, such as packed weights: the
    placeholders, which are inputs of the kernel behind those of the node, and their values.
    """

    node: Node
    tensors: tuple[te.Tensor | None, ...]
    constants: tuple[Array | None, ...]
    types: tuple[TensorType | None, ...]
    target: Target
    packed: dict[te.Tensor, Array] = field(default_factory=dict)
    input_types: tuple[TensorType | None, ...] = ()

    def pack(self, what: str, value: Array) -> te.Tensor:
        """A constant made at compile time, as an input of the kernel."""
        made = te.placeholder(value.shape, value.dtype.name, f"{self.name()}_{what}")
        self.packed[made] = value
        return made

    def decline(self, reason: str) -> NoReturn:
        """Refuse the node; `reason` reads after "must", as in "have constant axes"."""
        raise DeclinedError(f"{self.node.label}: the node must {reason}")

    def tensor(self, index: int) -> te.Tensor:
        """A required input."""
        tensor = self.optional(index)
        if tensor is None:
            self.decline(f"have input {index}")
        return tensor

    def optional(self, index: int) -> te.Tensor | None:
        """An input, None if it is absent."""
        return self.tensors[index] if index < len(self.tensors) else None

    def constant(self, index: int, what: str) -> Array | None:
        """The value of an input that must be constant if it is present."""
        if self.optional(index) is None:
            return None
        value = self.constants[index]
        if value is None:
            self.decline(f"have constant {what}")
        return value

    def integers(self, index: int, what: str) -> tuple[int, ...] | None:
        """A constant input as Python integers; None if it is absent."""
        value = self.constant(index, what)
        return None if value is None else tuple(int(number) for number in value.reshape(-1))

    def required(self, index: int, what: str) -> tuple[int, ...]:
        """A constant input that must be present, as Python integers."""
        numbers = self.integers(index, what)
        if numbers is None:
            self.decline(f"have {what}")
        return numbers

    def attribute(self, name: str, default: Attribute = _REQUIRED) -> Attribute:
        """An attribute, else `default`, by default the operator's."""
        if default is not _REQUIRED:
            return self.node.attributes.get(name, default)
        value = self.node.attribute(name)
        if value is None:
            self.decline(f"have the attribute {name}")
        return value

    @property
    def result(self) -> TensorType:
        """The type of the first output."""
        kind = self.types[0]
        if kind is None:
            self.decline("have a result")
        return kind

    def input_type(self, index: int = 0) -> TensorType:
        """The type of an input that is present."""
        kind = self.input_types[index]
        assert kind is not None
        return kind

    @property
    def is_in_blocks(self) -> bool:
        """Whether the first input or the first output is in blocks of channels."""
        return any(kind is not None and kind.lanes for kind in (*self.input_types[:1], *self.types[:1]))

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the tensor of the first output; a scalar has one of 1."""
        if not self.result.static:
            self.decline(f"have a result of static shape, got {self.result}")
        return self.result.array_shape or (1,)

    def wants(self, index: int) -> bool:
        """Whether the node has an output."""
        return index < len(self.node.outputs) and bool(self.node.outputs[index])

    def name(self, index: int = 0) -> str:
        """The name of an output, for its tensor."""
        return self.node.outputs[index]


Expression = Callable[[NodeCall], te.Tensor | Sequence[te.Tensor]]


# --- 16-bit floats --------------------------------------------------------------------------------


def in_float32(call: NodeCall, function: Callable[..., te.Tensor], *tensors: te.Tensor | None) -> te.Tensor:
    """`function(*tensors, name=...)` on float32 tensors in place of 16-bit ones, rounded once.

    The result is named and typed as the node's first output; without 16-bit floats it is the
    function itself.
    """
    name, dtype = call.name(), call.result.dtype
    if not any(tensor is not None and tensor.dtype in SMALL_FLOATS for tensor in tensors):
        return function(*tensors, name=name)
    wide = function(*(widened(tensor, f"{name}_wide{n}") for n, tensor in enumerate(tensors)), name=f"{name}_wide")
    return wide if wide.dtype == dtype else operators.cast(wide, dtype, name=name)


def widened(tensor: te.Tensor | None, name: str) -> te.Tensor | None:
    """A 16-bit tensor as float32; any other tensor itself."""
    if tensor is None or tensor.dtype not in SMALL_FLOATS:
        return tensor
    return operators.cast(tensor, "float32", name=name)
