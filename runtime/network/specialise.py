# SPDX-License-Identifier: Apache-2.0
"""Networks for shapes that are known when they run: from a recipe in a file to an artifact."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from vdla.compiler.graph import Graph
from vdla.compiler.graph.onnx import import_model
from vdla.compiler.graph.onnx.import_model import input_shapes
from vdla.compiler.target import Target
from vdla.hardware.config import Config
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.errors import ArtifactError
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.recipe import Recipe
from vdla.runtime.executor.specialised import SpecialiseModel
from vdla.support.symbolic_shapes import Shape


def recipe_of(
    graph: Graph, machine: Config | Target, cpu: Target, gpu: str | None, all_on_gpu: bool, place: dict[str, str]
) -> Recipe:
    """The recipe of a graph of ONNX's operators."""
    from vdla.compiler.graph.onnx.export import export_model

    return Recipe(
        inputs=input_shapes(graph),
        cpu=_target_fields(cpu),
        machine=machine.to_dict() if isinstance(machine, Config) else None,
        gpu=gpu,
        all_on_gpu=all_on_gpu,
        place=place,
        model=export_model(graph).SerializeToString(),
    )


def specialiser(compile_network: Callable[..., Model], recipe: Recipe, name: str) -> SpecialiseModel:
    """Compiles networks as a recipe says; the model, named `name`, is read at the first call."""
    graphs: list[Graph] = []

    def specialise(shapes: Mapping[str, Shape]) -> Artifact:
        if not graphs:
            graphs.append(import_model(recipe.model, name=name))
        cpu = _target(recipe)
        machine = cpu if recipe.machine is None else Config.from_dict(recipe.machine)
        target = recipe.gpu if recipe.all_on_gpu and recipe.gpu is not None else machine
        beside = None if target is cpu else cpu
        gpu = None if recipe.all_on_gpu else recipe.gpu
        place = recipe.place
        return compile_network(graphs[0], target, cpu=beside, gpu=gpu, place=place, shapes=shapes).artifact

    return specialise


def _target_fields(target: Target) -> dict[str, Any]:
    """A CPU as JSON."""
    values = {field.name: getattr(target, field.name) for field in fields(target)}
    return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in values.items()}


def _target(recipe: Recipe) -> Target:
    values: dict[str, Any] = {
        name: frozenset(value) if isinstance(value, list | tuple) else value for name, value in recipe.cpu.items()
    }
    try:
        return Target(**values)
    except TypeError as error:
        raise ArtifactError(f"recipe: cpu must describe a CPU, got {error}") from None
