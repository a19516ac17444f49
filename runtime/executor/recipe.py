# SPDX-License-Identifier: Apache-2.0
"""How plans for further shapes are compiled: what a model with open extents has besides its plans.

A machine without a compiler reads the declared shapes of the inputs only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vdla.runtime.executor.errors import ArtifactError, ExecutorError
from vdla.support.symbolic_shapes import Shape, list_text, numbers_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """`model` is a model of ONNX, quantised if the plans are; `inputs` are its declared shapes.

    The plans are for the accelerator `machine`, the CPU `cpu` and the GPU `gpu`, on which all runs
    with `all_on_gpu`; `place` names devices for nodes.
    """

    inputs: Mapping[str, Any]
    cpu: Mapping[str, Any]
    machine: Mapping[str, Any] | None = None
    gpu: str | None = None
    all_on_gpu: bool = False
    place: Mapping[str, str] = field(default_factory=dict)
    model: bytes = field(default_factory=bytes, repr=False)

    def require_inputs(self, where: str, names: Sequence[str]) -> None:
        """ArtifactError unless the declared shapes are those of inputs of these names."""
        for name in names:
            shape = self.inputs.get(name, 0)
            if shape is not None and not (isinstance(shape, tuple) and all(type(e) in (int, str) for e in shape)):
                raise ArtifactError(f"{where}: {name} must have extents in the recipe, got {shape!r}")

    def check(self, where: str, shapes: Mapping[str, Shape]) -> None:
        """ExecutorError unless inputs of these shapes fit the model."""
        numbers_of(where, self.inputs, shapes, ExecutorError)

    def text(self, name: str) -> str:
        """The declared shape of an input in messages."""
        declared = self.inputs[name]
        return "[...]" if declared is None else list_text(declared)

    def to_json(self) -> dict[str, Any]:
        """All but the model."""
        names = ("inputs", "cpu", "machine", "gpu", "all_on_gpu", "place")
        return {"kind": "Recipe", **{name: getattr(self, name) for name in names}}
