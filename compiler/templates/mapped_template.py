"""The operator of a template that the mapper packs; the template keeps its layouts on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from vdla.compiler.map.mapped_operator import MappedOperator
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.vdla.layouts import Layout
from vdla.compiler.operators.vdla.operator import Array, Operator
from vdla.compiler.operators.vdla.tiling import choose_tiling
from vdla.compiler.operators.vdla.tiling_problem import Tiling, TilingProblem
from vdla.hardware.config import Config


class HostLayouts(Protocol):
    """What a template knows of its arrays: their layouts, packing and unpacking."""

    @property
    def name(self) -> str:
        """The name of the operator."""

    @property
    def config(self) -> Config:
        """The machine."""

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
    host: HostLayouts, form: PackedForm, threads: int, tiling: Tiling | None, macs: int, *, chained: bool = False
) -> Operator:
    """The operator of a form with the given tiles, or the best that a search finds.

    Raises:
        TemplateError: the given tiling is invalid or does not fit the buffers, or no tiling fits.
    """
    untiled = UntiledForm(form)
    problem = replace(untiled.problem, chained=chained)
    return mapped_template(
        host, untiled, problem, choose_tiling(host.config, problem, threads, tiling, host.name), macs
    )


def mapped_template(
    host: HostLayouts, form: UntiledForm, problem: TilingProblem, tiling: Tiling, macs: int, note: str = ""
) -> Operator:
    """The operator of a form with its tiles; `note` precedes them in the description."""

    def tiled(tiles: Tiling) -> Operator:
        return Operator(
            name=host.name,
            config=host.config,
            function=MappedOperator(host.name, form, tiles).function,
            macs=macs,
            pack=host.pack,
            pack_inputs=host.pack_inputs,
            pack_constants=host.pack_constants,
            unpack=host.unpack,
            layouts=host.layouts,
            problem=problem,
            with_tiles=tiled,
            description=f"{note}{tiles}",
        )

    return tiled(tiling)
