# SPDX-License-Identifier: Apache-2.0
"""Layers on which an extension is evaluated: one mathematical operator, for any types of operands.

The plain machine computes a layer with its own types, a machine with an extension with those that
the extension reads, such as weights of 4 bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from vdla.compiler import te
from vdla.compiler.ir import INTEGER_BITS, storage_dtype
from vdla.compiler.operators.definitions import Definition, of_workload
from vdla.compiler.operators.workloads import Workload, workload, workloads
from vdla.compiler.te import Stage
from vdla.hardware.config import Config
from vdla.support.errors import Error
from vdla.support.user_file import returned_by


class EvaluateError(Error, ValueError):
    """Layers, options or an extension that cannot be evaluated."""


_RANGE = re.compile(r"([A-Za-z]+)(\d+)-([A-Za-z]+)(\d+)")
DEFAULT = ("C1-C12", "D1-D9")
"""The layers of ResNet-18 and MobileNet."""


@dataclass(frozen=True, slots=True)
class OperandTypes:
    """The types of a layer's activations and weights, such as int8 and int4."""

    inp: str
    wgt: str


@dataclass(frozen=True, eq=False)
class EvaluatedLayer:
    """An operator: `definition` has it for some types; a network has it `count` times.

    The plain machine computes `baseline`, where a layer has one: the same in another formulation.
    """

    name: str
    definition: Callable[[OperandTypes], Definition]
    count: int = 1
    baseline: te.Tensor | None = None

    def expression(self, operands: OperandTypes) -> te.Tensor:
        """The result of the operator."""
        return self.definition(operands).output

    def plain_expression(self, operands: OperandTypes) -> te.Tensor:
        """What the plain machine computes."""
        return self.expression(operands) if self.baseline is None else self.baseline


OwnLayer = te.Tensor | Definition
GivenLayer = EvaluatedLayer | OwnLayer | tuple[OwnLayer, OwnLayer] | str


def layers_named(names: Sequence[str]) -> list[EvaluatedLayer]:
    """Layers of workloads.csv by their names, or ranges of them such as C1-C12; each once.

    Raises:
        EvaluateError: a range without a layer. WorkloadError: an unknown name.
    """
    layers = dict.fromkeys(name for word in names for name in _names(word))
    return [EvaluatedLayer(name, partial(_of_workload, workload(name))) for name in layers]


def given_layers(given: Sequence[GivenLayer]) -> list[EvaluatedLayer]:
    """Layers as users give them: names as `layers_named` takes them, definitions, tensors, and
    FILE.py:NAME, a function that returns one of these.

    Two of them in a tuple are another formulation for the plain machine and the layer.

    Raises:
        EvaluateError: something else, or a range without a layer. WorkloadError: an unknown name.
        UserFileError: a file that does not run, or has no such function.
    """
    return [layer for source in given for layer in _layers_of(source)]


def _layers_of(given: object) -> list[EvaluatedLayer]:
    match given:
        case EvaluatedLayer():
            return [given]
        case str() if ".py" in given:
            name, returned = returned_by("evaluate", given)
            layer = _own_layer(returned, name)
            if layer is None:
                rule = "the function must return a tensor, a definition, or two of them, the baseline first"
                raise EvaluateError(f"{given}: {rule}, got {returned!r}")
            return [layer]
        case str():
            return layers_named([given])
    layer = _own_layer(given)
    if layer is None:
        rule = "a layer must be a name, FILE.py:NAME, a definition, a tensor, or two of these, the baseline first"
        raise EvaluateError(f"evaluate: {rule}, got {given!r}")
    return [layer]


def _own_layer(given: object, name: str = "") -> EvaluatedLayer | None:
    """A layer by a tensor or a definition, or by a baseline and one of them; None for others."""
    baseline, layer = given if isinstance(given, tuple) and len(given) == 2 else (None, given)
    if isinstance(baseline, Definition):
        baseline = baseline.output
    if not isinstance(layer, te.Tensor | Definition) or not isinstance(baseline, te.Tensor | None):
        return None
    return layer_of(name or layer.name, layer, baseline)


def layer_of(name: str, given: Definition | te.Tensor, baseline: te.Tensor | None = None) -> EvaluatedLayer:
    """A layer that a user defines, whose types are given; `baseline` is what the plain machine
    computes instead. From inputs of the same names it has a result of the same shape; from others,
    such as bytes of eight bits each, one of as many elements.

    Raises:
        EvaluateError: the baseline has another result, or an input of the same name but another
            shape; a reducer is one of the user, which no instruction has.
    """
    layer = given if isinstance(given, Definition) else Definition("expression", placeholders_of(given), given)
    for output in (layer.output, baseline) if baseline is not None else (layer.output,):
        _require_predefined(name, output)
    if baseline is not None:
        _check_baseline(name, layer, baseline)
    return EvaluatedLayer(name, partial(_given, layer), baseline=baseline)


def placeholders_of(output: te.Tensor) -> tuple[te.Tensor, ...]:
    """The inputs that a tensor is computed from, each once."""
    if not isinstance(output.stage, Stage):
        return (output,)
    return tuple(dict.fromkeys(placeholder for read in output.stage.reads for placeholder in placeholders_of(read)))


def _require_predefined(name: str, output: te.Tensor) -> None:
    """EvaluateError for a reducer of one's own in what a layer computes."""
    stage = output.stage
    if not isinstance(stage, Stage):
        return
    if stage.reduction is not None and stage.reduction.reducer not in te.reduction.PREDEFINED:
        known = ", ".join(f"te.{reducer.name}" for reducer in te.reduction.PREDEFINED)
        rule = f"the reducer of {output.name} must be one of {known}, as those of instructions are"
        raise EvaluateError(f"evaluate: {name}: {rule}, got {stage.reduction.reducer.name}")
    for tensor in stage.reads:
        _require_predefined(name, tensor)


def _check_baseline(name: str, layer: Definition, baseline: te.Tensor) -> None:
    known = {tensor.name: str(list(tensor.shape)) for tensor in layer.inputs}
    shapes = {tensor.name: str(list(tensor.shape)) for tensor in placeholders_of(baseline)}
    kinds = [(f"input {input_}", known[input_], shape) for input_, shape in shapes.items() if input_ in known]
    ours, theirs = (f"{tensor.dtype}{list(tensor.shape)}" for tensor in (layer.output, baseline))
    if reads_others(layer.output, baseline):
        ours, theirs = (f"of {prod(tensor.shape)} elements" for tensor in (layer.output, baseline))
    for what, wanted, got in [("result", ours, theirs), *kinds]:
        if wanted != got:
            remedy = "" if what == "result" else "; give another input another name"
            raise EvaluateError(f"evaluate: {what} of the baseline of {name} must be {wanted}, got {got}{remedy}")


def reads_others(output: te.Tensor, baseline: te.Tensor) -> bool:
    """Whether a baseline has inputs that a layer lacks, so that results cannot be compared."""
    known = {tensor.name for tensor in placeholders_of(output)}
    return any(tensor.name not in known for tensor in placeholders_of(baseline))


def _given(layer: Definition, operands: OperandTypes) -> Definition:
    return layer


def _names(word: str) -> list[str]:
    match = _RANGE.fullmatch(word)
    if match is None:
        return [workload(word).name]
    kind, first, last_kind, last = match.groups()
    numbers = range(int(first), int(last) + 1)
    names = [f"{kind.upper()}{number}" for number in numbers]
    if kind.upper() != last_kind.upper() or not names or not all(name in workloads() for name in names):
        raise EvaluateError(f"evaluate: a range of layers must be as C1-C12, D1-D9 or CT1-CT3, got {word}")
    return names


def _of_workload(layer: Workload, operands: OperandTypes) -> Definition:
    return of_workload(layer, dtype=operands.inp, weight_dtype=operands.wgt)


def steps_of(output: te.Tensor) -> int:
    """Points of the loop nest of an expression's sums: of a layer, its multiply-accumulates."""
    return prod(_sums_of(output).shape) * terms_of(output)


def least_cycles(layer: Definition, config: Config) -> float:
    """Cycles in which a machine reads the operands of a layer once, or writes its result: channels
    work side by side, so it is the longer of both.
    """
    sizes = sum(map(_nbytes, layer.inputs)), _nbytes(layer.output)
    return max(sizes) / config.peak_bytes_per_cycle


def _nbytes(tensor: te.Tensor) -> float:
    bits = INTEGER_BITS.get(tensor.dtype, 8 * storage_dtype(tensor.dtype).itemsize)
    return prod(tensor.shape) * bits / 8


def terms_of(output: te.Tensor) -> int:
    """Terms of one sum of an expression; 1 where it has no reduction."""
    stage = _sums_of(output).stage
    reduction = stage.reduction if isinstance(stage, Stage) else None
    return prod(axis.extent for axis in reduction.axes) if reduction else 1


def _sums_of(output: te.Tensor) -> te.Tensor:
    """The reduction behind an expression's epilogues; the expression itself if there is none."""
    result = output
    while isinstance(result.stage, Stage) and result.stage.reduction is None:
        computed = [tensor for tensor in result.stage.reads if tensor.stage is not None]
        if len(computed) != 1:
            return output
        result = computed[0]
    return result if result.stage is not None else output
