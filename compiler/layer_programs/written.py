# SPDX-License-Identifier: Apache-2.0
"""What the authors of extensions give for a layer: programs, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.extensions import Extension, ExtensionError, LayerError, program_of
from vdla.compiler.layer_programs.layer_program import LayerProgram
from vdla.compiler.operators.definitions import Definition
from vdla.hardware.config import Config
from vdla.hardware.program import ProgramTensor


@dataclass(frozen=True, eq=False)
class WrittenProgram:
    """The programs of an extension for a layer, or none and the reason."""

    label: str
    programs: tuple[LayerProgram, ...]
    reason: str = ""

    @property
    def text(self) -> str:
        """The same for equal programs."""
        return "\n".join([self.label, self.reason, *(item.text for item in self.programs)])


def written_programs(declared: Sequence[Extension], layer: Definition, config: Config) -> tuple[WrittenProgram, ...]:
    """What the authors of extensions give for a layer on a machine that has them.

    Raises:
        ExtensionError: an author's function fails, or returns something else than LayerPrograms.
    """
    return tuple(_written(extension, layer, config) for extension in declared if extension.program is not None)


def _written(extension: Extension, layer: Definition, config: Config) -> WrittenProgram:
    write, label = program_of(extension), f"program of {extension.name}"
    assert write is not None
    try:
        given = write(layer, config)
    except LayerError as error:
        return WrittenProgram(label, (), str(error))
    tensors = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not tensors or not all(isinstance(item, LayerProgram) and item.program.config == config for item in tensors):
        rule = f"program of {extension.name} must return a vdla.LayerProgram, or several, for the machine it is given"
        raise ExtensionError(f"{extension.place}: {rule}, got {given!r}")
    for item in tensors:
        _require_known(f"{extension.place}: {label} must pack", item.sources, layer.inputs)
        outputs = [tensor for tensor in item.program.tensors if tensor.role == "output"]
        _require_known(f"{extension.place}: {label} must unpack", [item.result], outputs)
        kept = [tensor.name for tensor in item.program.tensors if tensor.role == "resident"]
        if kept:  # layers of a network have no state
            raise ExtensionError(f"{extension.place}: {label} must have no resident tensor, got {kept[0]}")
    return WrittenProgram(label, tensors)


def _require_known(rule: str, used: Iterable[te.Tensor], known: Sequence[te.Tensor | ProgramTensor]) -> None:
    """ExtensionError where a tensor is not among those that have arrays."""
    choices = [_described(item) for item in known]
    for tensor in used:
        if (text := _described(tensor)) not in choices:
            raise ExtensionError(f"{rule} {' or '.join(choices)}, got {text}")


def _described(tensor: te.Tensor | ProgramTensor) -> str:
    return f"{tensor.name} {tensor.dtype}{list(tensor.shape)}"
