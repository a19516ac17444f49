"""The rules of plans for inputs of several shapes: the shapes alone tell them apart."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.runtime.artifact.errors import ArtifactError
from vdla.runtime.artifact.plan import Plan


def check_variants(plans: Sequence[Plan]) -> None:
    """ArtifactError unless all plans have one signature, for inputs of different shapes."""
    first, seen = plans[0], set[str]()
    for plan in plans:
        where = f"plan {plan.name}"
        for what in ("inputs", "outputs"):
            names, wanted = getattr(plan, what), getattr(first, what)
            if names != wanted:
                raise ArtifactError(
                    f"{where}: {what} of all variants must be {', '.join(wanted)}, got {', '.join(names)}"
                )
        for name in plan.inputs:
            dtype, wanted = plan.values[name].dtype, first.values[name].dtype
            if dtype != wanted:
                raise ArtifactError(f"{where}: {name} must be {wanted} in all variants, got {dtype}")
        shapes = plan.input_shapes
        if shapes in seen:
            raise ArtifactError(f"{where}: variants must differ in the shapes of inputs, got {shapes} twice")
        seen.add(shapes)
