# SPDX-License-Identifier: Apache-2.0
"""Chains of operators: one program, whose intermediate activations never leave the packed layout.

    chain = Chain(config, "block", steps, outputs=("y",))
    inputs = chain.pack_input("x", data) | chain.pack_constants("first", weight, bias, scale)
    result = simulate(chain.program, inputs)
    y = chain.unpack("y", result.outputs)

A tensor is known by its name: the output of one step is the operand of every later step that names
it. Steps are in topological order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from vdla.compiler.codegen.vdla import AnyLink, Link, ProgramLink, compile_chain
from vdla.compiler.ir import function_lines
from vdla.compiler.operators.vdla.operator import Array, Operator, TemplateError
from vdla.compiler.operators.vdla.roles import CONSTANTS, OUTPUT
from vdla.compiler.operators.vdla.written_operator import WrittenOperator
from vdla.hardware.config import Config
from vdla.hardware.program import Program


@dataclass(frozen=True, eq=False, slots=True)
class ChainStep:
    """One operator of a chain.

    `tensors` maps parameters of its program (data, other, output) to tensors of the chain; other
    parameters, such as weight and scale, are named `name.parameter`. It may name resident tensors
    of a written program, and their parts.
    """

    name: str
    operator: Operator | WrittenOperator
    tensors: Mapping[str, str] = field(default_factory=dict)

    def tensor(self, parameter: str) -> str:
        """The chain's tensor of a parameter."""
        return self.tensors.get(parameter, f"{self.name}.{parameter}")

    @property
    def parameters(self) -> tuple[str, ...]:
        """The tensors of the operator's program, by their names there."""
        operator = self.operator
        return operator.parameters if isinstance(operator, WrittenOperator) else operator.function.params

    @property
    def lines(self) -> int:
        """The number of source lines of the operator."""
        operator = self.operator
        if isinstance(operator, WrittenOperator):
            return len(operator.program.source_lines)
        return len(function_lines(operator.function))


@dataclass(frozen=True, eq=False)
class Chain:
    """Operators that run as one program; `outputs` are the tensors that the host reads.

    A tensor that no step writes is an input of the program, or one of its weights if steps read it
    as weight or scale. Intermediate tensors are scratch, which the device allocates. The packed
    layouts of a tensor must agree between its writer and its readers: where block_in and block_out
    differ, a convolution cannot read another one's results.

    Operators made with `chained=True` choose tiles that leave room for their neighbours.

    `joined` maps a whole tensor to the parts concatenated in it: tensors that steps write, or other
    wholes.

    Raises:
        TemplateError: names of steps are not unique, or an operator is for another machine.
        LoweringError: a tensor is read before it is written, written twice, never used, or packed
            in two layouts; a part is an output, or in two wholes.
    """

    config: Config
    name: str
    steps: Sequence[ChainStep]
    outputs: Sequence[str]
    joined: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [step.name for step in self.steps]
        for name in names:
            if names.count(name) > 1:
                raise TemplateError(f"{self.name}: names of steps must differ, got {name} twice")
        for step in self.steps:
            if step.operator.config != self.config:
                raise TemplateError(
                    f"{self.name}: step {step.name} must be for {self.config.name}, got {step.operator.config.name}"
                )

    def __repr__(self) -> str:
        return f"<Chain {self.name} for {self.config.name}: {len(self.steps)} steps>"

    @cached_property
    def program(self) -> Program:
        """The compiled program."""
        return compile_chain(self.config, self.name, [_link(step) for step in self.steps], self.outputs, self.joined)

    @property
    def macs(self) -> int:
        """The multiply-accumulates of all definitions, without padding."""
        return sum(step.operator.macs for step in self.steps)

    def step(self, name: str) -> ChainStep:
        """The step called `name`."""
        for step in self.steps:
            if step.name == name:
                return step
        choices = ", ".join(step.name for step in self.steps)
        raise TemplateError(f"{self.name}: step must be one of {choices}, got {name}")

    def pack_input(self, tensor: str, array: Array) -> dict[str, Array]:
        """The packed array of an input, by tensor name, from plain activations."""
        for step in self.steps:
            for parameter in step.parameters:
                if step.tensor(parameter) == tensor and parameter not in (*CONSTANTS, OUTPUT):
                    return {tensor: _templated(step).pack_inputs(**{parameter: array})[parameter]}
        raise TemplateError(f"{self.name}: input must be activations of a step, got {tensor}")

    def pack_constants(self, step: str, *operands: Any, **named: Any) -> dict[str, Array]:  # noqa: ANN401
        """The packed constants of a step; `operands` are the arguments of its operator's `pack`
        after activations.
        """
        owner = self.step(step)
        packed = _templated(owner).pack_constants(*operands, **named)
        return {owner.tensor(name): array for name, array in packed.items()}

    def unpack(self, tensor: str, outputs: Mapping[str, Array]) -> Array:
        """The plain array of an output of the chain, from the outputs of a run."""
        for step in self.steps:
            if step.tensor(OUTPUT) == tensor and tensor in self.outputs:
                return _templated(step).unpack({OUTPUT: outputs[tensor]})
        raise TemplateError(f"{self.name}: output must be one of {', '.join(self.outputs)}, got {tensor}")

    @property
    def lines(self) -> tuple[int, ...]:
        """The number of the program's source lines that belong to each step."""
        return tuple(step.lines for step in self.steps)


def _templated(step: ChainStep) -> Operator:
    """The operator of a step, which packs plain arrays; TemplateError if an author wrote it."""
    if isinstance(step.operator, WrittenOperator):
        raise TemplateError(f"{step.name}: operator must be of a template, got a program that an author wrote")
    return step.operator


def _link(step: ChainStep) -> AnyLink:
    tensors = {parameter: step.tensor(parameter) for parameter in step.parameters}
    if isinstance(step.operator, WrittenOperator):
        return ProgramLink(step.operator.program, {**step.tensors, **tensors})
    function = step.operator.function
    weights = tuple(name for name in CONSTANTS if name in function.params)
    return Link(function, tensors, weights, step.operator.dimensions)
