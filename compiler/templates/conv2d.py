"""Two-dimensional convolution with any kernel, strides, pads and dilations, requantised.

Channels are padded to whole blocks. If that wastes most of the multipliers (a first layer of three
channels), the operator reads *patches* instead: `pack` lays out the windows of the input (im2col),
and kernel positions and channels share the blocks. So it does where the windows lie apart, as those
of a 1x1 kernel with strides do: what lies between them is never moved.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf, prod

from vdla.compiler.operators.vdla.operator import Operator, TemplateError, template
from vdla.compiler.operators.vdla.results import Results
from vdla.compiler.operators.vdla.tiling import choose_tiling, ranking_estimate
from vdla.compiler.operators.vdla.tiling_problem import Tiling
from vdla.compiler.templates.convolution_form import ConvolutionForm
from vdla.compiler.templates.mapped_template import mapped_template
from vdla.compiler.templates.sliding_window import Pads, Pair, check_extents, check_threads, four_pads, pair
from vdla.hardware.config import Config

_MOST_BORDERS = 16
_PACKINGS = ("channels", "patches")


@template
def conv2d(
    config: Config,
    *,
    batch: int,
    height: int,
    width: int,
    in_channels: int,
    out_channels: int,
    kernel: int | Pair,
    strides: int | Pair = 1,
    pads: int | Pair | Pads = 0,
    dilations: int | Pair = 1,
    groups: int = 1,
    activation: str = "none",
    floor: int | None = None,
    ceiling: int | None = None,
    zero_point: int = 0,
    input_zero_point: int = 0,
    raw: bool = False,
    virtual_threads: int = 2,
    packing: str = "auto",
    tiling: Tiling | None = None,
    chained: bool = False,
    name: str = "conv2d",
) -> Operator:
    """Convolution of [batch, in_channels, height, width] with [out_channels, in_channels, kh, kw].

    Results are `config.out_dtype`, requantised with a bias and a real multiplier for each channel;
    with `raw` they are the int32 sums. `activation` is none or relu; `floor` and `ceiling` are clip
    bounds (relu6). `packing` is channels, patches, or auto for the better of `packings`; `tiling`
    overrides the search, which assumes with `chained` that another operator runs before
    this one in a chain. With `groups`, weights are [out_channels, in_channels / groups, kh, kw],
    and `packing` is that of channels.

    Raises:
        TemplateError: an extent, option or zero point is out of range, or no tile fits the buffers.
    """
    check_extents(name, [("groups", groups)])
    _check_packing(name, packing)
    results = Results(
        config=config, name=name, activation=activation, floor=floor, ceiling=ceiling, zero_point=zero_point, raw=raw
    )
    conv = ConvolutionForm(
        config=config,
        name=name,
        batch=batch,
        height=height,
        width=width,
        in_channels=in_channels,
        out_channels=out_channels,
        kernel=pair(name, "kernel", kernel, 1),
        strides=pair(name, "strides", strides, 1),
        pads=four_pads(name, pads),
        dilations=pair(name, "dilations", dilations, 1),
        input_zero_point=input_zero_point,
        results=results,
        chained=chained,
        groups=groups,
    )
    conv.check()
    check_threads(name, virtual_threads)
    form, chosen = _form(conv, "channels" if groups > 1 else packing, virtual_threads, tiling)
    note = f"sections of {form.sections.merged} of {groups} groups: " if groups > 1 else f"{form.packing}: "
    return mapped_template(form, form.problem, chosen, form.macs, note)


def packings(
    config: Config, in_channels: int, kernel: Pair, strides: Pair, pads: Pads, chained: bool
) -> tuple[str, ...]:
    """The layouts, the one that reads less first where channels fill their blocks.

    Patches have less than the image if windows lie apart; no other operator of a chain writes them.
    """
    apart = kernel != strides and all(size <= step for size, step in zip(kernel, strides, strict=True))
    less = apart and in_channels >= config.block_in and not any(pads) and not chained
    return _PACKINGS[::-1] if less else _PACKINGS


def _check_packing(name: str, packing: str) -> None:
    if packing not in ("auto", *_PACKINGS):
        raise TemplateError(f"{name}: packing must be auto, channels or patches, got {packing!r}")


def _has_borders(conv: ConvolutionForm) -> bool:
    """Whether padding with a zero point may be skipped: a few lanes of the scale tell borders."""
    padded = bool(conv.input_zero_point) and not conv.results.raw and prod(conv.classes) > 1
    return padded and prod(conv.classes) <= min(_MOST_BORDERS, conv.config.scl_depth)


def _forms(conv: ConvolutionForm, packing: str) -> list[ConvolutionForm]:
    """The forms to choose from, those that read less first.

    Where sums are short, an instruction for each border may cost more than it saves.
    """
    auto = packings(conv.config, conv.in_channels, conv.kernel, conv.strides, conv.pads, conv.chained)
    borders = _has_borders(conv)
    forms = []
    for each in auto if packing == "auto" else (packing,):
        skips = borders and each == "channels"
        forms += [replace(conv, packing=each, by_border=True)] if skips else []
        forms.append(replace(conv, packing=each))
    return forms


def _form(conv: ConvolutionForm, packing: str, threads: int, tiling: Tiling | None) -> tuple[ConvolutionForm, Tiling]:
    """The form of the convolution with the lowest estimate, and its tiling."""
    best: tuple[ConvolutionForm, Tiling] | None = None
    least, refused = inf, None
    for form in _forms(conv, packing):
        if best is not None and best[0].packing != form.packing and conv.in_channels >= conv.config.block_in:
            break  # both have the same products, and the first reads less
        if form.problem.least_cycles >= least:
            continue
        try:
            chosen = choose_tiling(conv.config, form.problem, threads, tiling, conv.name)
        except TemplateError as error:
            refused = error
            continue
        cycles = ranking_estimate(conv.config, form.problem, chosen)
        if cycles < least:
            best, least = (form, chosen), cycles
    if best is None:
        assert refused is not None
        raise refused
    return best
