# SPDX-License-Identifier: Apache-2.0
"""Layers as the authors of extensions formulate them, checked against the layers' inputs."""

from __future__ import annotations

from collections.abc import Iterator

from vdla.compiler import te
from vdla.compiler.extensions import Extension, ExtensionError, Formulation, NetworkLayer, formulation_of
from vdla.compiler.ir import limits
from vdla.compiler.map import is_gather
from vdla.compiler.te import Stage
from vdla.hardware.config import Config


def formulated(extension: Extension, layer: NetworkLayer, config: Config) -> Formulation:
    """The author's formulation of a layer.

    Raises:
        LayerError: the author has none; the message is the reason.
        ExtensionError: the function fails, or returns something else.
    """
    where = f"{extension.place}: formulation of {extension.name}"
    given = formulation_of(extension)(layer, config)
    if not isinstance(given, Formulation) or not isinstance(given.output, te.Tensor):
        raise ExtensionError(f"{where} must return a vdla.Formulation, got {given!r}")
    wanted, got = map(_described, (layer.definition.output, given.output))
    if wanted != got:
        raise ExtensionError(f"{where} must have the layer's result, {wanted}, got {got}")
    inputs = {tensor.name: tensor for tensor in layer.definition.inputs}
    for tensor in placeholders(given.output):
        _check_input(where, tensor, given, inputs)
    return given


def placeholders(tensor: te.Tensor) -> Iterator[te.Tensor]:
    """The placeholders that a tensor is computed from, some more than once."""
    if not isinstance(tensor.stage, Stage):
        yield tensor
        return
    for read in tensor.stage.reads:
        yield from placeholders(read)


def _check_input(where: str, tensor: te.Tensor, given: Formulation, inputs: dict[str, te.Tensor]) -> None:
    """ExtensionError unless a placeholder is a constant, bits of an input, or an input."""
    got = _described(tensor)
    if tensor.name in given.constants:
        array, (low, high) = given.constants[tensor.name], limits(tensor.dtype)
        fits = array.shape == tuple(tensor.shape) and array.dtype.kind in "iu"
        if not fits or array.min() < low or array.max() > high:
            rule = f"{where}: constant {tensor.name} must be an array of {got}"
            raise ExtensionError(f"{rule}, got {array.dtype}{list(array.shape)}, {array.min()} to {array.max()}")
        return
    name = given.bits.get(tensor.name, tensor.name)
    packed = next((item for item in given.packed if item.name == name), None)
    if packed is not None:
        _check_packed(where, packed, inputs)
    elif name not in inputs:
        choices = ", ".join([*inputs, *given.constants, *(item.name for item in given.packed)])
        raise ExtensionError(f"{where}: input {name} must be one of {choices}, got an unknown name")
    known = packed or inputs[name]
    if tensor.name in given.bits:
        *outer, last = known.shape
        wanted = f"int8{[*outer, last // 8]}"
        if last % 8 or got != wanted:
            raise ExtensionError(f"{where}: bits {tensor.name} must be {wanted} of a multiple of 8 elements, got {got}")
    elif packed is not None and got != _described(packed):
        raise ExtensionError(f"{where}: packed {name} must be {got}, got {_described(packed)}")
    elif got != _described(known):
        raise ExtensionError(f"{where}: input {name} must be {_described(known)}, got {got}")


def _check_packed(where: str, packed: te.Tensor, inputs: dict[str, te.Tensor]) -> None:
    """ExtensionError unless a tensor that the host lays out has elements of an input."""
    sources = packed.stage.reads if isinstance(packed.stage, Stage) and is_gather(packed) else ()
    if not sources or inputs.get(sources[0].name) is not sources[0]:
        rule = f"{where}: packed {packed.name} must have elements of one input of the layer, or constants"
        raise ExtensionError(f"{rule}, got another computation")


def _described(tensor: te.Tensor) -> str:
    return f"{tensor.dtype}{list(map(int, tensor.shape))}"
