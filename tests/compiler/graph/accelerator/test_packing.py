"""Packed layouts: the nodes that pack and unpack, against NumPy and the templates' own packing."""

import numpy as np
import pytest

from vdla.compiler.graph import Graph, TensorType, check_graph
from vdla.compiler.graph.accelerator.packing import Channels, PackedLayout
from vdla.compiler.operators.vdla.packing import pack_activations
from vdla.runtime.evaluate import evaluate

IMAGES = [(1, 3, 5, 4), (3, 16, 2, 1), (2, 20), (1, 33, 7), (5, 8, 1, 1)]
ROWS = [(7, 20), (1, 7, 16), (2, 3, 5), (4, 1)]
MACHINES = [(1, 16), (4, 8), (2, 3)]


def converted(layout: PackedLayout, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`x` packed, and packed and unpacked again."""
    there, back = layout.pack("x", "p", "int8"), layout.unpack("p", "y", "int8")
    nodes = (*there.nodes, *back.nodes)
    constants = {**there.constants, **back.constants}
    types = {"x": TensorType("int8", x.shape), **there.types, **back.types}
    graph = check_graph(Graph("g", ("x",), ("p", "y"), nodes, constants, types))
    found = evaluate(graph, {"x": x}, prefer="numpy")
    return found["p"], found["y"]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("shape", IMAGES)
def test_images(shape, machine):
    x = np.random.default_rng(0).integers(-128, 128, shape, np.int8)
    layout = PackedLayout(Channels.IMAGE, shape, *machine)
    packed, back = converted(layout, x)
    assert np.array_equal(back, x)
    assert np.array_equal(packed, pack_activations(x.reshape(layout.image), *machine))
    assert packed.shape == layout.packed_shape


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("shape", ROWS)
def test_rows(shape, machine):
    x = np.random.default_rng(0).integers(-128, 128, shape, np.int8)
    layout = PackedLayout(Channels.ROWS, shape, *machine)
    packed, back = converted(layout, x)
    batch, _ = machine
    rows = x.reshape(-1, shape[-1])
    for row, values in enumerate(rows):
        found = packed[0, :, 0, row // batch, row % batch].reshape(-1)
        assert np.array_equal(found[: len(values)], values)
    assert np.array_equal(back, x)


def test_which_layouts_have_the_same_bytes():
    def layout(channels, shape, batch=1, block=16):
        return PackedLayout(channels, shape, batch, block)

    image, rows = Channels.IMAGE, Channels.ROWS
    assert layout(image, (1, 32, 1, 1)).same_bytes(layout(rows, (1, 32)))
    assert layout(image, (4, 16)).same_bytes(layout(rows, (4, 16)))
    assert not layout(image, (4, 32)).same_bytes(layout(rows, (4, 32)))
    assert layout(image, (4, 32), 4).same_bytes(layout(rows, (4, 32), 4))
    assert not layout(image, (4, 32, 1, 1), 2).same_bytes(layout(rows, (4, 32), 2))
    assert not layout(image, (1, 16, 16)).same_bytes(layout(rows, (1, 16, 16)))
    assert not layout(image, (1, 32, 2, 2)).same_bytes(layout(image, (1, 32, 2, 2), 1, 8))
