"""An element-wise operator of one or two activations: its definition on the host and the machine.

The zero point of a single term, and those of a sum, are in the bias.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.definitions import Definition
from vdla.compiler.operators.vdla.checks import check_range
from vdla.compiler.operators.vdla.layouts import Layout
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, TemplateError
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import DATA, OTHER
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.channelwise import channelwise_form, channelwise_layouts
from vdla.compiler.templates.host_arrays import packed_inputs, packed_scale, plain_output
from vdla.compiler.templates.mapped_template import tiled_template
from vdla.compiler.templates.plain_result import plain_result
from vdla.compiler.templates.sliding_window import check_extents, check_threads
from vdla.hardware.factors import MAX_FACTOR
from vdla.support.integers import is_int


def checked_activations(results: Results, batch: int, height: int, width: int, channels: int) -> dict[str, Any]:
    """The extents and the type of activations, as definitions take them.

    Raises:
        TemplateError: an extent or an option of the results is out of range.
    """
    extents = {"batch": batch, "height": height, "width": width, "channels": channels}
    check_extents(results.name, extents.items())
    results.check()
    return {"batch": batch, "channels": channels, "size": (height, width), "dtype": results.config.inp_dtype}


def check_factor_pair(name: str, factors: object, least: int) -> None:
    """Reject anything but two integers from `least` on that the machine can multiply by."""
    pair = factors if isinstance(factors, tuple) and len(factors) == 2 else (None, None)
    if not all(is_int(factor) and least <= factor <= MAX_FACTOR for factor in pair):
        rule = f"factors must be two integers from {least} to {MAX_FACTOR}"
        raise TemplateError(f"{name}: {rule}, got {factors}")


def check_zero_points(results: Results, what: str, zero_points: tuple[int, ...]) -> None:
    """Reject zero points of inputs that are out of range."""
    for zero in zero_points:
        check_range(f"{results.name}: {what}", zero, results.config.inp_dtype)


def elementwise_operator(
    results: Results, definition: Definition, terms: int, offset: int, threads: int, tiling: Tiling | None
) -> Operator:
    """The operator of a definition of `terms` for each result, to which a bias adds `offset`."""
    check_threads(results.name, threads)
    form = _ElementwiseForm(results, definition, offset)
    return tiled_template(form, threads, tiling, terms * prod(definition.output.shape))


@dataclass(frozen=True, eq=False)
class _ElementwiseForm:
    """A definition of raw sums, requantised with `offset` in the bias."""

    results: Results
    definition: Definition
    offset: int

    @cached_property
    def packed(self) -> UntiledForm:
        """The program's form."""
        return channelwise_form(self.results.config, plain_result(self.results, self.definition.output))

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        own = channelwise_layouts(self.results.config)
        return own | {OTHER: own[DATA]} if len(self.definition.inputs) > 1 else own

    @property
    def pack(self) -> Callable[..., dict[str, Array]]:
        """From one or two NCHW activations to the program's arrays."""
        return self.pack_one if len(self.definition.inputs) == 1 else self.pack_pair

    def pack_one(self, data: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from an NCHW activation; without a multiplier, sums are clipped."""
        return self.pack_inputs(data) | self.pack_constants(bias, multiplier)

    def pack_pair(
        self, data: Array, other: Array, bias: Array | None = None, multiplier: Factors = None
    ) -> dict[str, Array]:
        """The program's arrays from two NCHW activations."""
        return self.pack_inputs(data, other) | self.pack_constants(bias, multiplier)

    def pack_inputs(self, data: Array | None = None, other: Array | None = None) -> dict[str, Array]:
        """The program's arrays from NCHW activations, those that are given."""
        return packed_inputs(self.packed, data=data, other=other)

    def pack_constants(self, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's scale; without a multiplier, sums are only clipped."""
        if multiplier is None and not self.results.raw:
            multiplier = 1.0
        offset = np.full(self.definition.output.shape[1], self.offset)
        return packed_scale(self.packed, self.results, bias, multiplier, offset)

    def unpack(self, outputs: Mapping[str, Array]) -> Array:
        """NCHW results from the program's outputs."""
        return plain_output(self.packed, outputs)
