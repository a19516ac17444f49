"""Pooling on the vector unit: the maximum or the average of each window, one element per cycle.

An average is a sum whose multiplier is 1 / count. If padding is not counted, windows at the borders
have smaller counts: positions form classes by their numbers of rows and columns, and each class has
its own lanes of the scale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

import numpy as np

from vdla.compiler.map.untiled_form import UntiledForm
from vdla.compiler.operators.definitions import pooling
from vdla.compiler.operators.vdla.layouts import Layout, scale_layout
from vdla.compiler.operators.vdla.operator import Array, Factors, Operator, TemplateError, template
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.roles import SCALE
from vdla.compiler.operators.vdla.tiling import choose_tiling, estimate, fits_somehow
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.channelwise import ChannelwiseWindow, channelwise_form
from vdla.compiler.templates.host_arrays import packed_scale
from vdla.compiler.templates.mapped_template import mapped_template
from vdla.compiler.templates.plain_result import plain_result
from vdla.compiler.templates.sliding_window import Pads, Pair, check_threads, four_pads, pair
from vdla.hardware.config import Config

_KINDS = ("max", "average")


@template
def pool2d(
    config: Config,
    *,
    kind: str,
    batch: int,
    height: int,
    width: int,
    channels: int,
    kernel: int | Pair,
    strides: int | Pair = 1,
    pads: int | Pair | Pads = 0,
    dilations: int | Pair = 1,
    count_include_pad: bool = True,
    activation: str = "none",
    floor: int | None = None,
    ceiling: int | None = None,
    zero_point: int = 0,
    input_zero_point: int = 0,
    raw: bool = False,
    virtual_threads: int = 2,
    tiling: Tiling | None = None,
    name: str = "",
) -> Operator:
    """The maximum or the average of each window; `kind` is max or average.

    An average counts padding, as zeros, unless `count_include_pad` is false. Where results have
    another scale than the input, `pack` takes a real multiplier, the scale of the input over that
    of the result; the multiplier of the machine is this over the count, with 24 significant bits.
    Raw results are maxima or sums.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """
    if kind not in _KINDS:
        raise TemplateError(f"{name or 'pool2d'}: kind must be max or average, got {kind!r}")
    name = name or f"{kind}_pool2d"
    if not isinstance(count_include_pad, bool):
        raise TemplateError(f"{name}: count_include_pad must be True or False, got {count_include_pad!r}")
    results = Results(
        config=config, name=name, activation=activation, floor=floor, ceiling=ceiling, zero_point=zero_point, raw=raw
    )
    pool = _Pool2d(
        config=config,
        name=name,
        batch=batch,
        height=height,
        width=width,
        in_channels=channels,
        out_channels=channels,
        kernel=pair(name, "kernel", kernel, 1),
        strides=pair(name, "strides", strides, 1),
        pads=four_pads(name, pads),
        dilations=pair(name, "dilations", dilations, 1),
        input_zero_point=input_zero_point,
        results=results,
        kind=kind,
        excluding=kind == "average" and not count_include_pad,
    )
    pool.check()
    check_threads(name, virtual_threads)
    pool, chosen = _form(pool, virtual_threads, tiling)
    note = "rows of windows: " if pool.by_rows else ""
    return mapped_template(pool, pool.packed.problem, chosen, pool.steps, note)


def _form(pool: _Pool2d, threads: int, tiling: Tiling | None) -> tuple[_Pool2d, Tiling]:
    """The pool with whole windows on the chip, or with rows of them, and its tiling.

    Rows are tried where windows do not fit, or only for fewer virtual threads.
    """
    whole, by_rows = pool, replace(pool, by_rows=True)
    if not fits_somehow(pool.config, whole.packed.problem):
        return by_rows, choose_tiling(pool.config, by_rows.packed.problem, threads, tiling, pool.name)
    chosen = choose_tiling(pool.config, whole.packed.problem, threads, tiling, pool.name)
    settled = tiling is not None or chosen.threads == threads or whole.packed.problem.through_acc
    if settled or pool.kernel[0] == 1:
        return whole, chosen
    rows = choose_tiling(pool.config, by_rows.packed.problem, threads, None, pool.name)
    cycles = (estimate(pool.config, form.packed.problem, t) for form, t in ((whole, chosen), (by_rows, rows)))
    return (by_rows, rows) if next(cycles) > next(cycles) else (whole, chosen)


@dataclass(frozen=True)
class _Pool2d(ChannelwiseWindow):
    """A pooling; `excluding`: padding is not counted in an average.

    `by_rows`: windows are read by rows of the kernel, as other operators read blocks of channels.
    """

    kind: str = "max"
    excluding: bool = False
    by_rows: bool = False

    def check(self) -> None:
        """Also reject windows that may hold only padding."""
        ChannelwiseWindow.check(self)
        if any(pad >= taps for pad, taps in zip(self.pads, self.kernel * 2, strict=True)):
            raise TemplateError(f"{self.name}: pads must be less than the kernel, got {self.pads} for {self.kernel}")
        if self.excluding and self.results.raw:
            raise TemplateError(f"{self.name}: count_include_pad must be True for raw sums, got False")

    @cached_property
    def packed(self) -> UntiledForm:
        """The program's form."""
        sums = pooling(kind=self.kind, channels=self.in_channels, fill=self.input_zero_point, **self.plain).output
        by_class = (self.classes, self.class_of) if self.by_class else ()
        output = plain_result(self.results, sums, *by_class)
        return channelwise_form(self.config, output, "ky" if self.by_rows else None)

    @property
    def by_class(self) -> bool:
        """Whether the count depends on the position."""
        return self.excluding and prod(self.classes) > 1

    @property
    def layouts(self) -> dict[str, Layout]:
        """Layouts of the program's tensors."""
        if not self.by_class:
            return super().layouts
        return super().layouts | {SCALE: scale_layout(self.config, classes=("HW", ", row class, column class"))}

    def pack(self, data: Array, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's arrays from NCHW data; `bias` is added to each maximum or sum.

        Without a multiplier, results have the scale of the data.
        """
        return self.pack_inputs(data) | self.pack_constants(bias, multiplier)

    def pack_constants(self, bias: Array | None = None, multiplier: Factors = None) -> dict[str, Array]:
        """The program's scale from biases and multipliers."""
        if multiplier is None and not self.results.raw:
            multiplier = 1.0
        summands = 1 if self.kind == "max" else self.taps
        offset = np.full((self.in_channels,) + (1, 1) * self.by_class, -self.input_zero_point * summands)
        counts = self._counts() if self.excluding else np.array([[[summands]]])
        each = counts if self.by_class else counts.item()
        return packed_scale(self.packed, self.results, bias, multiplier, offset, each)

    def _counts(self) -> Array:
        """[1, row class, column class]: elements in a window that are not padding, at least 1."""
        rows, cols = (self.inside_by_class(axis).sum(axis=1) for axis in (0, 1))
        return np.asarray(np.maximum(rows[None, :, None] * cols, 1))
