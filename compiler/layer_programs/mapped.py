# SPDX-License-Identifier: Apache-2.0
"""What the mapper gives for a layer with an extension's instruction: programs, or the reason why
there is none.

Only programs count whose results lie in blocks of channels, as those of templates do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from vdla.compiler import te
from vdla.compiler.codegen.vdla import LoweringError
from vdla.compiler.extensions import Extension, ExtensionError, extension_intrinsic
from vdla.compiler.layer_programs.layer_program import LayerProgram
from vdla.compiler.layer_programs.written import WrittenProgram
from vdla.compiler.map import MapError, MappedOperator, MappingCandidates, candidates, is_alone
from vdla.compiler.operators.vdla import TemplateError
from vdla.compiler.te import Stage
from vdla.compiler.tensorize import IntrinsicError
from vdla.hardware.config import Config

THREADS = 2
_MOST = 2
"""The programs of each kind that are compiled of a layer."""


class LayerPlaces(Protocol):
    """Where the neighbours of a layer expect elements."""

    @property
    def reads_rows(self) -> bool:
        """Whether rows of activations may be the operand of the weight buffer."""

    def is_result(self, unpacking: te.Tensor) -> bool:
        """Whether a plain result, as elements of a program's output, lies as neighbours read it."""

    def is_read_in_place(self, packed: te.Tensor) -> bool:
        """Whether an input of a program lies as neighbours wrote it, or is a constant."""


def mapped_programs(extension: Extension, output: te.Tensor, config: Config, places: LayerPlaces) -> WrittenProgram:
    """The mapper's programs of a layer with a step of `extension`, or the first reason why none."""
    label = f"mapping onto {extension.name}"
    try:
        every = _candidates(extension, output, config)
    except MapError as error:
        told = (*error.refused, *error.others)
        return WrittenProgram(label, (), told[0].reason if told else str(error))
    except (IntrinsicError, ExtensionError) as error:
        return WrittenProgram(label, (), str(error))
    mapped = every.found
    if places.reads_rows:
        mapped = (*mapped, *(operator.with_terms_first() for operator in mapped))
    placed = [operator for operator in mapped if places.is_result(operator.unpacking)]
    if not placed:
        rule = "results must lie in blocks of channels, as those of templates do"
        return WrittenProgram(label, (), f"{rule}, got others of {len(mapped)} mappings")
    programs = [program for operator in _promising(placed, places) if (program := _compiled(operator)) is not None]
    reason = "" if programs else "a mapping must have tiles that fit the buffers, got none"
    return WrittenProgram(label, tuple(programs), reason)


def _candidates(extension: Extension, output: te.Tensor, config: Config) -> MappingCandidates:
    """The mappings with a step of an extension: alone, or before or behind others."""
    if is_alone(output, intrinsic := extension_intrinsic(extension, config)):
        return candidates(output, config, THREADS, [intrinsic], output.name)
    every = candidates(output, config, THREADS, name=output.name)
    used = tuple(operator for operator in every.found if _is_step(extension, operator))
    if not used:
        raise MapError(f"map {output.name}: a step must be {extension.name}, got {every.found[0].mapping}")
    return replace(every, found=used)


def _is_step(extension: Extension, operator: MappedOperator) -> bool:
    return any(step.intrinsic.name == extension.name for step in operator.mapping.computation.all_steps)


def weight_dtype(extension: Extension) -> str:
    """The type of the weights that an instruction reads; empty without weights."""
    stage = None if extension.output is None else extension.output.stage
    reads = stage.reads if isinstance(stage, Stage) else ()
    return next((tensor.dtype for tensor in reads if extension.scopes.get(tensor.name) == "wgt"), "")


def _promising(mapped: Sequence[MappedOperator], places: LayerPlaces) -> list[MappedOperator]:
    """The lowest estimates, and those of programs whose inputs no host packs."""
    direct = [item for item in mapped if all(map(places.is_read_in_place, item.packing.values()))]
    return list(dict.fromkeys([*mapped[:_MOST], *direct[:_MOST]]))


def _compiled(operator: MappedOperator) -> LayerProgram | None:
    """The program with the best tiles; None where none can be compiled."""
    try:
        best = operator.with_best_tiles(THREADS)
        program, packing = best.program, best.packing
    except (TemplateError, LoweringError):
        return None
    names = {name: tensor.name for name, tensor in packing.items()}
    tensors = tuple(replace(tensor, name=names.get(tensor.name, tensor.name)) for tensor in program.tensors)
    return LayerProgram(replace(program, tensors=tensors), tuple(packing.values()), best.unpacking)
