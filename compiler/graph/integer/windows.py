# SPDX-License-Identifier: Apache-2.0
"""The options of convolutions and pools, without defaults: strides, dilations, explicit pads."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler.graph.graph import Graph, Node
from vdla.compiler.graph.integer.affine import decline
from vdla.compiler.operators.windows import windows_of
from vdla.support.window import AUTO_PADS, window_of


def window_options(graph: Graph, node: Node, kernel: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """The attributes strides, pads and dilations of a node."""
    size = spatial(graph, node) if node.attributes.get("auto_pad") in AUTO_PADS else (0,) * len(kernel)
    window = window_of(node.attributes, size, kernel)
    if any(pad < 0 for pad in window.pads):
        decline(f"have pads of at least 0, got {list(window.pads)}")
    return {"strides": window.strides, "pads": window.pads, "dilations": window.dilations}


def spatial(graph: Graph, node: Node) -> tuple[int, ...]:
    """The spatial extents of the first input."""
    shape = graph.tensor(node.inputs[0]).shape
    if shape is None or not all(isinstance(extent, int) for extent in shape[2:]):
        decline("have static spatial extents")
    return tuple(extent for extent in shape[2:] if isinstance(extent, int))


def pool_options(graph: Graph, node: Node) -> dict[str, tuple[int, ...]]:
    """The attributes of a pool; windows that `ceil_mode` adds read padding."""
    extents = spatial(graph, node)
    if node.op in ("GlobalAveragePool", "GlobalMaxPool", "ReduceMean"):
        ones = (1,) * len(extents)
        return {"kernel_shape": extents, "strides": ones, "pads": (0,) * 2 * len(extents), "dilations": ones}
    kernel = tuple(node.attributes["kernel_shape"])
    options = window_options(graph, node, kernel)
    strides, pads, dilations = (options[key] for key in ("strides", "pads", "dilations"))
    rounded_up = bool(node.attribute("ceil_mode"))
    windows = windows_of(node.label, extents, kernel, strides, pads, dilations, rounded_up)
    if not all(windows.reads_image(d).any(axis=1).all() for d in range(len(kernel))):
        decline("have an element of the input in every window")
    after = map(max, windows.after, windows.overhang)  # as long as the last window needs
    return {"kernel_shape": kernel, **options, "pads": (*windows.before, *after)}


def overhangs(graph: Graph, node: Node) -> bool:
    """Whether a window of `ceil_mode` leaves the padded input."""
    if not node.attribute("ceil_mode"):
        return False
    given = window_options(graph, node, node.attributes["kernel_shape"])["pads"]
    return given != pool_options(graph, node)["pads"]
