# SPDX-License-Identifier: Apache-2.0
"""All mappings of a plain expression, the lowest estimate first, and forms of fixed places.

The estimate only ranks; across mappings it is rough, so measure the first few, each with the best
tiles of its own (`MappedOperator.with_best_tiles`). Operators that exchange packed tensors agree on
fixed places instead of searching them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace

from vdla.compiler import te
from vdla.compiler.map.after_sums import chain_of, sums_below
from vdla.compiler.map.computation import Computation, contractions
from vdla.compiler.map.cores import Core, machine_cores, of_intrinsics
from vdla.compiler.map.element_wise import element_wise
from vdla.compiler.map.entries import axis_extents
from vdla.compiler.map.expression_parts import MapError, Refusal, sums_of, viewed
from vdla.compiler.map.keys import Keys, keys_of
from vdla.compiler.map.mapped_operator import MappedOperator
from vdla.compiler.map.mapping import (
    Groups,
    Mapping,
    intrinsic_signatures,
    mappings,
    signature_groups,
    signatures,
    subsets,
)
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.map.way_out import joined
from vdla.compiler.operators.vdla.operator import TemplateError
from vdla.compiler.operators.vdla.tiling import quick_tiling
from vdla.compiler.te.expr import axis_name
from vdla.compiler.tensorize import Intrinsic
from vdla.hardware.config import Config

DEFAULT_THREADS = 2


@dataclass(frozen=True, slots=True)
class MappingCandidates:
    """The mappings of an expression in the order of their cost, and those that were refused.

    `others` are the intrinsics that compute something else.
    """

    found: tuple[MappedOperator, ...]
    refused: tuple[Refusal, ...]
    others: tuple[Refusal, ...]


def candidates(
    output: te.Tensor,
    config: Config,
    threads: int = DEFAULT_THREADS,
    intrinsics: Sequence[Intrinsic] | None = None,
    name: str = "",
) -> MappingCandidates:
    """Every legal mapping of `output` onto the intrinsics of a machine.

    `output` is a reduction or element-wise over plain inputs, an epilogue that reads one element of
    such a result, a table indexed by such an epilogue, or some elements of any of these; or one of
    the two results of `te.argmax` or `te.argmin`, which are mapped as keys.

    Raises:
        MapError: no intrinsic covers the expression; the message has the first reason of each.
    """
    name = name or output.name
    result, view = viewed(output)
    keys = keys_of(result)
    result = joined(result if keys is None else keys.sums, config)
    request = PackedRequest(result, view, config, threads, name, keys)
    cores = machine_cores(config) if intrinsics is None else of_intrinsics(intrinsics)
    others: dict[str, list[str]] = {}
    results: list[MappedOperator] = []
    refused: list[Refusal] = []
    for core, computation in _computations(sums_of(result), cores, others):
        for mapping in mappings(computation, core):
            _try(results, refused, mapping, request)
    named = [Refusal(", ".join(names), reason) for reason, names in others.items()]
    if not results and not refused:
        why = "; ".join(map(str, named))
        raise MapError(f"map {name}: some intrinsic must cover the expression, got none; {why}", others=tuple(named))
    if not results:
        raise MapError(f"map {name}: some mapping must be legal, got none; {refused[0]}", refused=tuple(refused))
    ordered = sorted(results, key=lambda operator: operator.rough_cost)
    return MappingCandidates(tuple(ordered), tuple(refused), tuple(named))


def _computations(
    sums: te.Tensor, cores: Sequence[Core], others: dict[str, list[str]]
) -> Iterator[tuple[Core, Computation]]:
    """The ways to compute the sums; `others` receives the intrinsics that do not, by reason."""
    steps = [core for core in cores if not core.is_only_step]
    inner = sums_below(sums)
    if inner is not None:
        try:
            chain = chain_of(sums, inner, steps)
        except MapError as error:
            others.setdefault(str(error), []).append(f"steps on {inner.name}")
            return
        for core, computation in _contractions(inner, cores, others):
            try:
                yield core, chain.behind(computation)
            except MapError as error:
                others.setdefault(str(error), []).append(core.pattern.name)
        return
    yield from _contractions(sums, cores, others)
    try:
        yield element_wise(sums, steps)
    except MapError as error:
        others.setdefault(str(error), []).append("element-wise steps")


def is_alone(output: te.Tensor, intrinsic: Intrinsic) -> bool:
    """Whether an intrinsic can compute the sums of an expression by itself: there are no steps
    behind them, and it is none on sums.
    """
    return Core(intrinsic, intrinsic).is_only_step and sums_below(sums_of(viewed(output)[0])) is None


def _contractions(
    sums: te.Tensor, cores: Sequence[Core], others: dict[str, list[str]]
) -> Iterator[tuple[Core, Computation]]:
    """The ways to compute the sums by one step alone."""
    for core in (core for core in cores if core.is_only_step):
        try:
            yield from ((core, computation) for computation in contractions(sums, core))
        except MapError as error:
            others.setdefault(str(error), []).append(core.pattern.name)


@dataclass(frozen=True, slots=True)
class PackedRequest:
    """What a mapping is tried for; `view` has the elements of `result` that are wanted, which are
    read from `keys`, if it has these.
    """

    result: te.Tensor
    view: te.Tensor | None
    config: Config
    threads: int
    name: str
    keys: Keys | None


def _try(operators: list[MappedOperator], refused: list[Refusal], mapping: Mapping, request: PackedRequest) -> None:
    """Add the mapping with tiles that fit, or the reason against it.

    Where whole windows do not fit as many virtual threads as are wanted, windows are also read in
    pieces, along the first axis of the reduction that is outside of the intrinsic.
    """
    try:
        whole = _operator(mapping, request)
    except (MapError, TemplateError) as error:
        refused.append(Refusal(str(mapping), str(error)))
        taps = _chunks(mapping) if isinstance(error, TemplateError) else []
    else:
        operators.append(whole)
        taps = _chunks(mapping) if whole.tiling.threads < request.threads else []
    if mapping.chunk is None and taps:
        _try(operators, refused, replace(mapping, chunk=taps[0]), request)


def _operator(mapping: Mapping, request: PackedRequest) -> MappedOperator:
    form = PackedForm(request.config, mapping, request.result)
    form.require_whole_entries()
    untiled = UntiledForm(form)
    tiling = quick_tiling(request.config, untiled.problem, request.threads, request.name)
    return MappedOperator(request.name, untiled, tiling, request.view, request.keys)


def _chunks(mapping: Mapping) -> list[str]:
    """The axes along which windows may be read in pieces: where no axis is added up inside."""
    reduced = [axis for axis, extent in mapping.computation.reduce.items() if extent > 1]
    return [axis for axis in reduced if not mapping.mapped & set(reduced)] if mapping.computation.held is None else []


@dataclass(frozen=True, slots=True)
class Applications:
    """The ways to apply an intrinsic, those that use most of its lanes first; without any, `reason`
    is the first difference.
    """

    found: tuple[Mapping, ...]
    reason: str | None = None

    def __bool__(self) -> bool:
        return bool(self.found)


def applications(output: te.Tensor, intrinsic: Intrinsic) -> Applications:
    """How `intrinsic` can compute a plain expression, or its sums where it has an epilogue."""
    core = Core(intrinsic, intrinsic)
    sums = sums_of(viewed(output)[0])
    try:
        computations = list(contractions(sums, core)) if core.is_only_step else [element_wise(sums, [core])[1]]
    except MapError as error:
        return Applications((), str(error))
    mappings = [Mapping(computation, groups) for computation in computations for groups in _groups(computation, core)]
    return Applications(tuple(sorted(mappings, key=lambda mapping: -mapping.used)))


def _groups(computation: Computation, core: Core) -> Iterator[Groups]:
    """The axes that can become each axis of the intrinsic; of lanes alone, the last one has any."""
    if core.is_only_step:
        yield from signature_groups(computation, core)
        return
    *others, lanes = axis_extents(core.pattern)
    for chosen in subsets([axis for axis, extent in computation.spatial.items() if extent > 1]):
        yield {**dict.fromkeys(others, ()), lanes: chosen}


def fixed_form(
    config: Config, output: te.Tensor, groups: MappingOf[str, tuple[str, ...]], chunk: str | None = None
) -> UntiledForm:
    """The form in which each axis of the intrinsic has the axes of `groups`, by their plain names.

    Tensors of the program have the names of the plain ones. Windows are read in pieces along
    `chunk`.

    Raises:
        MapError: no intrinsic with these axes computes the expression so.
    """
    result = joined(viewed(output)[0], config)
    named = {axis_name(axis): tuple(map(axis_name, members)) for axis, members in groups.items()}
    cores = [core for core in machine_cores(config) if set(core.axes) == set(named)]
    reasons = []
    for core, computation in _computations(sums_of(result), cores, {}):
        mapping = Mapping(computation, named, None if chunk is None else axis_name(chunk), fixed=True)
        try:
            _require_places(core, mapping)
            return UntiledForm(PackedForm(config, mapping, result, suffix=""))
        except MapError as error:
            reasons.append(str(error))
    why = reasons[0] if reasons else f"none with the axes {', '.join(groups)}"
    raise MapError(f"map {output.name}: some intrinsic must have its axes at fixed places, got {why}")


def _require_places(core: Core, mapping: Mapping) -> None:
    """MapError unless each axis exists, and beside weights indexes only what its place indexes."""
    axis_signatures = signatures(mapping.computation)
    places = {} if mapping.computation.held is None else intrinsic_signatures(core)
    for place, members in mapping.groups.items():
        for axis in members:
            if axis not in axis_signatures:
                raise MapError(f"axis {axis} must be one of {', '.join(axis_signatures)}, got none of that name")
            if axis_signatures[axis] - places.get(place, axis_signatures[axis]):
                got = ", ".join(sorted(axis_signatures[axis] - places[place]))
                raise MapError(f"axis {axis} must index only what {place} does, got {got}")
