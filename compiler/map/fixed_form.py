"""The form of an expression whose axes have fixed places in the intrinsic.

Operators that exchange packed tensors agree on these places instead of searching them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vdla.compiler import te
from vdla.compiler.map.computation import Computation, contractions
from vdla.compiler.map.cores import Core, machine_cores
from vdla.compiler.map.element_wise import element_wise
from vdla.compiler.map.errors import MapError
from vdla.compiler.map.expression_parts import sums_of, viewed
from vdla.compiler.map.mapping import Mapping as AxisMapping
from vdla.compiler.map.mapping import intrinsic_signatures, signatures
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.te.expr import axis_name
from vdla.hardware.config import Config


def fixed_form(
    config: Config, output: te.Tensor, groups: Mapping[str, tuple[str, ...]], chunk: str | None = None
) -> UntiledForm:
    """The form in which each axis of the intrinsic has the axes of `groups`, by their plain names.

    Tensors of the program have the names of the plain ones. Windows are read in pieces along
    `chunk`.

    Raises:
        MapError: no intrinsic with these axes computes the expression so.
    """
    result, _ = viewed(output)
    named = {axis_name(axis): tuple(map(axis_name, members)) for axis, members in groups.items()}
    reasons = []
    for core, computation in _computations(config, sums_of(result), set(named)):
        mapping = AxisMapping(computation, named, None if chunk is None else axis_name(chunk), fixed=True)
        try:
            _require_places(core, mapping)
            return UntiledForm(PackedForm(config, mapping, result, suffix=""))
        except MapError as error:
            reasons.append(str(error))
    why = reasons[0] if reasons else f"none with the axes {', '.join(groups)}"
    raise MapError(f"map {output.name}: some intrinsic must have its axes at fixed places, got {why}")


def _require_places(core: Core, mapping: AxisMapping) -> None:
    """MapError unless each axis exists, and beside weights indexes only what its place indexes."""
    found = signatures(mapping.computation)
    places = {} if core.held is None else intrinsic_signatures(core)
    for place, members in mapping.groups.items():
        for axis in members:
            if axis not in found:
                raise MapError(f"axis {axis} must be one of {', '.join(found)}, got none of that name")
            if found[axis] - places.get(place, found[axis]):
                got = ", ".join(sorted(found[axis] - places[place]))
                raise MapError(f"axis {axis} must index only what {place} does, got {got}")


def _computations(config: Config, sums: te.Tensor, axes: set[str]) -> Iterator[tuple[Core, Computation]]:
    """The ways to compute sums by an intrinsic with these axes."""
    cores = [core for core in machine_cores(config) if set(core.axes) == axes]
    for core in cores:
        if core.is_only_step:
            try:
                yield from ((core, computation) for computation in contractions(sums, core))
            except MapError:
                continue
    steps = [core for core in cores if not core.accumulates and core.held is None]
    if steps:
        try:
            yield element_wise(sums, steps)
        except MapError:
            return
