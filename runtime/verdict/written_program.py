"""Programs that authors of extensions write: what they give for a layer, and whether it is right.

The check runs a program on random data and compares every element with the layer's expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler import te
from vdla.compiler.extensions import Extension, ExtensionError, LayerError, program_of
from vdla.compiler.operators.definitions import Definition
from vdla.hardware.config import Config
from vdla.hardware.program import ProgramTensor
from vdla.runtime.verdict.errors import EvaluateError
from vdla.runtime.verdict.random_data import computed, random_arrays

if TYPE_CHECKING:
    from vdla.compiler.layer_programs import LayerProgram

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class WrittenProgram:
    """The programs of an extension for a layer, or none and the reason."""

    label: str
    found: tuple[LayerProgram, ...]
    reason: str = ""

    @property
    def text(self) -> str:
        """The same for equal programs."""
        return "\n".join([self.label, self.reason, *(each.text for each in self.found)])

    def check(self, layer: str, output: te.Tensor, seed: int) -> None:
        """EvaluateError unless all programs are safe and compute the layer."""
        arrays = random_arrays(output, seed)
        wanted = computed(output, arrays)
        for number, program in enumerate(self.found):
            which = f" ({number + 1} of {len(self.found)})" if len(self.found) > 1 else ""
            where = f"evaluate: {self.label} of {layer}{which}"
            _require_equal(where, output, _computed(where, program, arrays), wanted, seed)


def _computed(where: str, program: LayerProgram, arrays: dict[str, Array]) -> Array:
    """The plain result of a program; EvaluateError unless it is safe."""
    from vdla.simulator.simulate import simulate
    from vdla.simulator.verify import VerifyError

    try:
        return program.unpack(simulate(program.program, program.pack(arrays), mode="function").outputs)
    except VerifyError as error:
        raise EvaluateError(f"{where} must be a safe program, got {error.verdict.findings[0].message}") from None


def _require_equal(where: str, output: te.Tensor, found: Array, wanted: Array, seed: int) -> None:
    """EvaluateError with the first element that differs."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        got = f"{found.dtype}{list(found.shape)}"
        raise EvaluateError(f"{where} must give {output.dtype}{list(output.shape)}, got {got}")
    wrong = np.argwhere(found != wanted)
    if len(wrong):
        at = tuple(map(int, wrong[0]))
        rule = f"{output.name}{list(at)} must be {wanted[at]}, by the expression of the layer, got {found[at]}"
        raise EvaluateError(f"{where}: {rule}; {len(wrong):,} of {wanted.size:,} elements differ (seed {seed})")


def written_programs(declared: Sequence[Extension], layer: Definition, config: Config) -> tuple[WrittenProgram, ...]:
    """What the authors of extensions give for a layer on a machine that has them.

    Raises:
        ExtensionError: an author's function fails, or returns something else than LayerPrograms.
    """
    return tuple(_written(extension, layer, config) for extension in declared if extension.program is not None)


def _written(extension: Extension, layer: Definition, config: Config) -> WrittenProgram:
    from vdla.compiler.layer_programs import LayerProgram

    write, label = program_of(extension), f"program of {extension.name}"
    assert write is not None
    try:
        given = write(layer, config)
    except LayerError as error:
        return WrittenProgram(label, (), str(error))
    found = tuple(given) if isinstance(given, list | tuple) else (given,)
    if not found or not all(isinstance(each, LayerProgram) and each.program.config == config for each in found):
        rule = f"program of {extension.name} must return a vdla.LayerProgram, or several, for the machine it is given"
        raise ExtensionError(f"{extension.place}: {rule}, got {given!r}")
    for each in found:
        _require_known(f"{extension.place}: {label} must pack", each.sources, layer.inputs)
        outputs = [tensor for tensor in each.program.tensors if tensor.role == "output"]
        _require_known(f"{extension.place}: {label} must unpack", [each.result], outputs)
    return WrittenProgram(label, found)


def _require_known(rule: str, used: Iterable[te.Tensor], known: Sequence[te.Tensor | ProgramTensor]) -> None:
    """ExtensionError where a tensor is none of those that have arrays."""
    choices = [_described(each) for each in known]
    for tensor in used:
        if (found := _described(tensor)) not in choices:
            raise ExtensionError(f"{rule} {' or '.join(choices)}, got {found}")


def _described(tensor: te.Tensor | ProgramTensor) -> str:
    return f"{tensor.name} {tensor.dtype}{list(tensor.shape)}"
