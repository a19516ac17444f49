"""Packed layouts of the programs' tensors, by name.

A name has the dimensions from the outermost to the innermost, as in oneDNN: an upper-case letter is
a dimension, a number with the letter in lower case a block of it. `NCHW1n16c` is [N / 1, C / 16, H,
W, 1, 16].
"""

from __future__ import annotations

from dataclasses import dataclass

from vdla.hardware.config import Config


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout by name, and its dimensions as the program's tensors describe them.

    With `gaps`, sections of channels are not whole blocks, and have padding between them.
    """

    name: str
    dimensions: str
    gaps: bool = False

    def __str__(self) -> str:
        return self.name


def activation_layout(config: Config, channels: str = "C", block: str = "block_in") -> Layout:
    """Activations in blocks of `block`; with patches, channels are KH*KW*C."""
    letter = "C" if channels == "C" else "P"
    name = f"N{letter}HW{config.batch}n{getattr(config, block)}{letter.lower()}"
    return Layout(name, f"N/batch, {channels}/{block}, H, W, batch, {block}")


def result_layout(config: Config) -> Layout:
    """Results of a convolution."""
    name = f"NCHW{config.batch}n{config.block_out}c"
    return Layout(name, "N/batch, CO/block_out, H, W, batch, block_out")


def weight_layout(config: Config, channels: str = "C") -> Layout:
    """Weights of a convolution; with patches, channels are KH*KW*C."""
    letter, kernel = ("IHW", ", KH, KW") if channels == "C" else ("P", "")
    name = f"O{letter}{config.block_out}o{config.block_in}{letter[0].lower()}"
    return Layout(name, f"CO/block_out, {channels}/block_in{kernel}, block_out, block_in")


def factor_layout(config: Config, block: str) -> Layout:
    """A factor of batched products, G: blocks of its depth, C, and of its rows or columns, R."""
    name = f"GCR{getattr(config, block)}r{config.block_in}c"
    return Layout(name, f"sections, depth/block_in, rows/{block}, {block}, block_in")


def depthwise_weight_layout(config: Config) -> Layout:
    """Weights of a depthwise convolution; K is a kernel position."""
    return Layout(f"CK{config.block_in}k{config.block_out}c", "C/block_out, KH*KW/block_in, block_in, block_out")


def transposed_weight_layout(config: Config, strides: tuple[int, int]) -> Layout:
    """Weights of a transposed convolution: H and W are cut into phases of the strides."""
    name = f"OI{strides[0]}h{strides[1]}wHW{config.block_out}o{config.block_in}i"
    return Layout(name, "CO/block_out, C/block_in, SH, SW, KH/SH, KW/SW, block_out, block_in")


def transposed_result_layout(config: Config, strides: tuple[int, int]) -> Layout:
    """Results of a transposed convolution: H and W are cut into phases of the strides."""
    name = f"NCH{strides[0]}hW{strides[1]}w{config.batch}n{config.block_out}c"
    return Layout(name, "N/batch, CO/block_out, H/SH, SH, W/SW, SW, batch, block_out")


def scale_layout(config: Config, channels: str = "C", classes: tuple[str, str] = ("", "")) -> Layout:
    """Scales, one lane for each channel and class of positions.

    `classes` has the name of their dimensions and its description.
    """
    name = f"C{classes[0]}{config.block_out}c"
    return Layout(name, f"{channels}/block_out{classes[1]}, block_out: bias, multiplier, shift")


def in_sections(layout: Layout, at: int, *, gaps: bool = False) -> Layout:
    """The layout with a dimension G of sections of channels, of this place: 1 behind a batch."""
    sides = layout.dimensions.split(", ")
    dimensions = ", ".join([*sides[:at], "sections", *sides[at:]])
    return Layout(f"{layout.name[:at]}G{layout.name[at:]}", dimensions, gaps)
