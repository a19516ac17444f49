# SPDX-License-Identifier: Apache-2.0
"""A plain expression mapped onto a machine: its program, and packing to and from plain arrays."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import ir, te
from vdla.compiler.codegen.vdla import compile_function
from vdla.compiler.map.expression_parts import MapError
from vdla.compiler.map.keys import Keys
from vdla.compiler.map.mapping import Mapping
from vdla.compiler.map.packed_form import PackedForm
from vdla.compiler.map.packing import gather, packed_inputs, unpacked
from vdla.compiler.map.tile_facts import share_read
from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.vdla.roles import OUTPUT
from vdla.compiler.operators.vdla.schedule import schedule_tiles
from vdla.compiler.operators.vdla.tile_candidates import Candidates, estimated
from vdla.compiler.operators.vdla.tile_timeline import estimate
from vdla.compiler.operators.vdla.tiling import best_choice
from vdla.compiler.operators.vdla.tiling_problem import Tiling, TilingProblem
from vdla.hardware.config import Config
from vdla.hardware.program import Program
from vdla.support.html_repr import shown_by

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class MappedOperator:
    """A mapping with its tiles.

    `pack` and `unpack` convert plain arrays, by the names of the plain tensors; `packing` and
    `unpacking` are the same as tensor expressions. `view` has the elements of the form's result
    that are wanted; all of them without one. `keys` is set if these are keys, from which `unpack`
    reads the plain result. `known_estimate` is that of the tiles, if a search of
    tiles has computed it.
    """

    name: str
    untiled: UntiledForm
    tiling: Tiling
    view: te.Tensor | None = None
    keys: Keys | None = None
    known_estimate: float | None = None

    _repr_html_ = shown_by("programs", "mapped_operator_html")

    @property
    def form(self) -> PackedForm:
        """The packed operands and the names of loops."""
        return self.untiled.form

    @property
    def config(self) -> Config:
        """The machine."""
        return self.form.config

    @property
    def mapping(self) -> Mapping:
        """Which axes are inside the intrinsic."""
        return self.form.mapping

    @property
    def description(self) -> str:
        """The mapping and the tiles, in a line."""
        return f"{self.mapping}; {self.tiling}"

    @property
    def problem(self) -> TilingProblem:
        """What its tiles cut up."""
        return self.untiled.problem

    @cached_property
    def estimate(self) -> float:
        """Cycles, within a few per cent if the tiles are the best ones."""
        known = self.known_estimate
        return estimate(self.config, self.problem, self.tiling) if known is None else known

    @cached_property
    def rough_cost(self) -> float:
        """Cycles in closed form, sections one after the other, and those of the host."""
        cycles = float(estimated(self.config, self.problem, Candidates.of(self.tiling))[0])
        return cycles * self.problem.sections + self.extra_cycles

    def with_best_tiles(self, threads: int) -> MappedOperator:
        """The mapping with the best tiles that a search finds."""
        tiling, cycles = best_choice(self.config, self.problem, threads, self.name)
        return self.with_tiles(tiling, cycles)

    def with_tiles(self, tiling: Tiling, known_estimate: float | None = None) -> MappedOperator:
        """The mapping with other tiles."""
        return replace(self, tiling=tiling, known_estimate=known_estimate)

    def with_terms_first(self) -> MappedOperator:
        """The mapping whose weights lie as templates leave rows of results: channels by blocks."""
        form = replace(self.form, mapping=replace(self.mapping, terms_first=True))
        return replace(self, untiled=UntiledForm(form))

    @property
    def least_cycles(self) -> float:
        """Cycles that no program of the mapping can be below: those of the steps of intrinsics."""
        problem = self.problem
        results = problem.batches * problem.sections * problem.out_blocks * problem.rows * problem.cols * problem.phases
        terms = problem.in_blocks * problem.taps * share_read(self.form)
        return results * (max(terms * problem.step, terms + len(self.form.computation.steps) - 1) + problem.after)

    @property
    def extra_bytes(self) -> int:
        """Bytes that the host writes beyond those of the plain operands."""
        return self.untiled.extra_bytes

    @property
    def extra_cycles(self) -> float:
        """Cycles in which the host lays out elements several times; it writes as fast as the memory
        port.
        """
        return self.extra_bytes / self.config.axi_bytes

    @cached_property
    def function(self) -> ir.Function:
        """The scheduled, tensorized function."""
        fn = schedule_tiles(self.config, self.untiled.staged, self.problem, self.tiling, self.form.tile_axes)
        return replace(fn, name=self.name)

    @cached_property
    def program(self) -> Program:
        """The compiled program."""
        return compile_function(self.config, self.function)

    # --- packing

    @property
    def packing(self) -> dict[str, te.Tensor]:
        """Each input of the program as a computation over its plain tensor."""
        return packed_inputs(self.untiled)

    @property
    def unpacking(self) -> te.Tensor:
        """The plain result, or its keys, as a computation over the program's output."""
        return unpacked(self.form, self.view)

    @property
    def reading(self) -> te.Tensor | None:
        """The plain result as a computation over its keys, which `unpacking` gives, if it has
        these.
        """
        keys = self.unpacking
        return None if self.keys is None else self.keys.reading(te.placeholder(keys.shape, keys.dtype, "keys"))

    def pack(self, **arrays: Array) -> dict[str, Array]:
        """The program's inputs from plain arrays by the names of the plain tensors."""
        packing = self.packing
        sources = {name: self._source(tensor) for name, tensor in packing.items()}
        wanted = {source.name: source for source in sources.values()}
        if sorted(arrays) != sorted(wanted):
            raise MapError(
                f"{self.name}: arrays must be given for exactly {', '.join(sorted(wanted))}, "
                f"got {', '.join(sorted(arrays)) or 'none'}"
            )
        checked = {name: self._checked(wanted[name], array) for name, array in arrays.items()}
        return {name: gather(tensor, checked[sources[name].name]) for name, tensor in packing.items()}

    def _checked(self, tensor: te.Tensor, array: Array) -> Array:
        """An array as the elements of a plain tensor."""
        array = np.asarray(array)
        if array.shape != tensor.shape:
            raise MapError(f"{self.name}: shape of {tensor.name} must be {list(tensor.shape)}, got {list(array.shape)}")
        low, high = ir.limits(tensor.dtype)
        if array.dtype.kind not in "iu" or (array.size and (array.min() < low or array.max() > high)):
            got = array.dtype if array.dtype.kind not in "iu" else f"{array.min()}..{array.max()}"
            raise MapError(f"{self.name}: elements of {tensor.name} must be in {low}..{high}, got {got}")
        return array.astype(ir.storage_dtype(tensor.dtype))

    @staticmethod
    def _source(tensor: te.Tensor) -> te.Tensor:
        assert tensor.stage is not None
        (source,) = tensor.stage.reads
        return source

    def unpack(self, outputs: MappingOf[str, Array]) -> Array:
        """The plain result from the program's outputs."""
        result = gather(self.unpacking, outputs[OUTPUT])
        return result if self.keys is None else self.keys.read(result)

    def __repr__(self) -> str:
        return f"<MappedOperator {self.name} for {self.config.name}: {self.description}>"
