"""The options of convolutions and pools, all of them given: strides, dilations, explicit pads."""

from __future__ import annotations

from collections.abc import Sequence

from vdla.compiler.graph.graph import Graph, Node
from vdla.compiler.graph.integer.affine import decline
from vdla.compiler.operators.windows import Windows, same_pads, windows_of


def window_options(graph: Graph, node: Node, kernel: Sequence[int]) -> dict[str, tuple[int, ...]]:
    """The attributes strides, pads and dilations of a node."""
    rank = len(kernel)
    strides = tuple(node.attributes.get("strides", (1,) * rank))
    dilations = tuple(node.attributes.get("dilations", (1,) * rank))
    pads = tuple(node.attributes.get("pads", (0,) * 2 * rank))
    mode = node.attribute("auto_pad")
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        pads = same_pads(spatial(graph, node), kernel, strides, dilations, mode)
    elif mode == "VALID":
        pads = (0,) * 2 * rank
    if any(pad < 0 for pad in pads):
        decline(f"have pads of at least 0, got {list(pads)}")
    return {"strides": strides, "pads": pads, "dilations": dilations}


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
    for d in range(len(kernel)):
        if not all(windows.covers_input(d, n) for n in range(windows.counts[d])):
            decline("have an element of the input in every window")
    return {"kernel_shape": kernel, **options, "pads": _reached(windows)}


def _reached(windows: Windows) -> tuple[int, ...]:
    """The pads with those after the input as long as the last window needs, at least as given."""
    after = [max(pad, windows.last(d) + 1 - windows.extents[d]) for d, pad in enumerate(windows.pads_after)]
    return (*windows.pads_before, *after)


def overhangs(graph: Graph, node: Node) -> bool:
    """Whether a window of `ceil_mode` leaves the padded input."""
    if not node.attribute("ceil_mode"):
        return False
    given = window_options(graph, node, node.attributes["kernel_shape"])["pads"]
    return given != pool_options(graph, node)["pads"]
