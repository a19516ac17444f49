"""The operator of a template: a definition in its packed form, with tiles and the host's arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from vdla.compiler.map.mapped_operator import MappedOperator
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.vdla.layouts import Layout
from vdla.compiler.operators.vdla.operator import Array, Operator
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.tiling import choose_tiling
from vdla.compiler.operators.vdla.tiling_problem import Tiling, TilingProblem


class PackedDefinition(Protocol):
    """What a template knows: the form of its definition, and what its options mean on the host."""

    @property
    def results(self) -> Results:
        """The options of the results, with the operator's name and its machine."""

    @property
    def packed(self) -> UntiledForm:
        """The program's form."""

    @property
    def layouts(self) -> Mapping[str, Layout]:
        """Layouts of the program's tensors."""

    @property
    def pack(self) -> Callable[..., dict[str, Array]]:
        """From plain arrays to the program's inputs."""

    @property
    def pack_inputs(self) -> Callable[..., dict[str, Array]]:
        """The part of `pack` that takes activations."""

    @property
    def pack_constants(self) -> Callable[..., dict[str, Array]]:
        """The part of `pack` that takes the rest."""

    @property
    def unpack(self) -> Callable[[Mapping[str, Array]], Any]:
        """From the program's outputs to the plain result."""


def tiled_template(
    definition: PackedDefinition, threads: int, tiling: Tiling | None, macs: int, *, chained: bool = False
) -> Operator:
    """The operator of a definition with the given tiles, or the best that a search finds.

    Raises:
        TemplateError: the given tiling is invalid or does not fit the buffers, or no tiling fits.
    """
    problem, results = replace(definition.packed.problem, chained=chained), definition.results
    chosen = choose_tiling(results.config, problem, threads, tiling, results.name)
    return mapped_template(definition, problem, chosen, macs)


def mapped_template(
    definition: PackedDefinition, problem: TilingProblem, tiling: Tiling, macs: int, note: str = ""
) -> Operator:
    """The operator of a definition with its tiles; `note` precedes them in the description."""
    results = definition.results

    def tiled(tiles: Tiling) -> Operator:
        return Operator(
            name=results.name,
            config=results.config,
            function=MappedOperator(results.name, definition.packed, tiles).function,
            macs=macs,
            pack=definition.pack,
            pack_inputs=definition.pack_inputs,
            pack_constants=definition.pack_constants,
            unpack=definition.unpack,
            layouts=definition.layouts,
            problem=problem,
            timed=definition.packed.timed_problem,
            tiling=tiles,
            with_tiles=tiled,
            description=f"{note}{tiles}",
        )

    return tiled(tiling)
