"""All ways to compute a plain expression on a machine, the lowest estimate first.

The estimate only ranks; across mappings it is rough, so measure the first few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics.gemm import gemm
from vdla.compiler.map.errors import MapError
from vdla.compiler.map.mapped_operator import MappedOperator
from vdla.compiler.map.mapping import Mapping, Refusal, mappings
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.packing import packed_inputs
from vdla.compiler.map.tile_facts import tiling_problem
from vdla.compiler.operators.vdla.operator import TemplateError
from vdla.compiler.operators.vdla.tiling import best_tiling
from vdla.compiler.te import Stage
from vdla.compiler.tensorize import Intrinsic
from vdla.hardware.config import Config

DEFAULT_THREADS = 2


@dataclass(frozen=True, slots=True)
class MappingCandidates:
    """The mappings of an expression in the order of their cost, and those that were refused."""

    found: tuple[MappedOperator, ...]
    refused: tuple[Refusal, ...]


def candidates(
    output: te.Tensor,
    config: Config,
    threads: int = DEFAULT_THREADS,
    intrinsics: Sequence[Intrinsic] | None = None,
    name: str = "",
) -> MappingCandidates:
    """Every legal mapping of `output` onto the intrinsics of a machine.

    `output` is a reduction, or an epilogue that reads one element of it, over plain inputs.

    Raises:
        MapError: no intrinsic covers the expression; the message has the first reason of each.
    """
    name = name or output.name
    sums, reasons = sums_of(output), []
    found: list[MappedOperator] = []
    refused: list[Refusal] = []
    for intrinsic in intrinsics or (gemm(config),):
        try:
            for mapping in mappings(sums, intrinsic):
                _try(found, refused, mapping, PackedRequest(output, config, threads, name))
        except MapError as error:
            reasons.append(f"{intrinsic.name}: {error}")
    if not found and not refused:
        raise MapError(f"map {name}: some intrinsic must cover the expression, got none; " + "; ".join(reasons))
    if not found:
        raise MapError(f"map {name}: some mapping must be legal, got none; {refused[0].mapping}: {refused[0].reason}")
    return MappingCandidates(tuple(sorted(found, key=lambda operator: operator.cost)), tuple(refused))


@dataclass(frozen=True, slots=True)
class PackedRequest:
    """What a mapping is tried for."""

    output: te.Tensor
    config: Config
    threads: int
    name: str


def _try(found: list[MappedOperator], refused: list[Refusal], mapping: Mapping, request: PackedRequest) -> None:
    """Add the mapping with its best tiles, or the reason against it."""
    try:
        form = PackedForm(request.config, mapping, request.output)
        packed_inputs(form)
        tiling = best_tiling(request.config, tiling_problem(form), request.threads, request.name)
    except (MapError, TemplateError) as error:
        refused.append(Refusal(str(mapping), str(error)))
    else:
        found.append(MappedOperator(request.name, form, tiling))


def sums_of(output: te.Tensor) -> te.Tensor:
    """The reduction of an expression: the result itself, or the one that its epilogue reads."""
    stage = output.stage
    if isinstance(stage, Stage) and stage.reduction is None:
        computed = [tensor for tensor in stage.reads if tensor.stage is not None]
        if len(computed) == 1:
            return computed[0]
    return output
