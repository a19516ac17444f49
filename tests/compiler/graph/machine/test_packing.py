# SPDX-License-Identifier: Apache-2.0
"""Packed layouts: the nodes that pack and unpack, against NumPy and the templates' own packing."""

from dataclasses import replace

import numpy as np
import pytest

from vdla.compiler.graph import Graph, Node, TensorType, check_graph
from vdla.compiler.graph.machine.call import MachineNode
from vdla.compiler.graph.machine.calls import conv
from vdla.compiler.graph.machine.matmul_call import FactorLayout, LanesLayout, row_terms
from vdla.compiler.graph.machine.packing import Broadcast, Channels, GatheredLayout, InputLayout, PackedLayout, Patches
from vdla.compiler.operators.vdla.operator import Layout
from vdla.compiler.templates import batched_matmul
from vdla.compiler.templates.conv2d import Conv2d
from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_scale, scale_from_float, unpack_scale
from vdla.runtime.network.evaluator import evaluate
from vdla.runtime.numpy_operators.integer import row_terms as row_terms_of
from vdla.support.window import window_of

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
    assert packed.shape == layout.packed_shape
    assert np.array_equal(packed, blocks_of(x.reshape(layout.image), *machine))
    assert np.array_equal(packed, layout.packed(x)) and np.array_equal(packed.ravel()[layout.places], x)


@pytest.mark.parametrize("shape", [(1, 3, 5, 4), (7,), (2, 20)])
def test_gathered_elements(shape):
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, shape, np.int8)
    index = rng.integers(-1, x.size, (3, 1, 11))
    layout = GatheredLayout(shape, index, fill=-7)
    made = layout.pack("x", "p", "int8")
    types = {"x": TensorType("int8", shape), **made.types}
    graph = check_graph(Graph("g", ("x",), ("p",), made.nodes, made.constants, types))
    found = evaluate(graph, {"x": x}, prefer="numpy")["p"]
    wanted = [[[-7 if at < 0 else x.flat[at] for at in row] for row in rows] for rows in index]
    assert found.dtype == np.int8 and found.tolist() == wanted and np.array_equal(found, layout.packed(x))
    assert layout.nbytes == found.nbytes


def blocks_of(image: np.ndarray, batch: int, block: int) -> np.ndarray:
    """[N, C, H, W] as [N / batch, C / block, H, W, batch, block], element by element."""
    (count, channels), size = image.shape[:2], image.shape[2:]
    found = np.zeros((-(-count // batch), -(-channels // block), *size, batch, block), np.int8)
    for n, c in np.ndindex(count, channels):
        found[n // batch, c // block, :, :, n % batch, c % block] = image[n, c]
    return found


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


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 2, 7, 16), (3, 20)])
def test_matrices(shape, machine):
    x = np.random.default_rng(0).integers(-128, 128, shape, np.int8)
    packed, back = converted(PackedLayout(Channels.MATRICES, shape, *machine), x)
    assert np.array_equal(back, x)
    each = [converted(PackedLayout(Channels.ROWS, shape[-2:], *machine), matrix)[0] for matrix in matrices(x)]
    assert np.array_equal(packed, np.concatenate(each))


def matrices(x: np.ndarray) -> np.ndarray:
    return x.reshape(-1, *x.shape[-2:])


def packed(layout: InputLayout, x: np.ndarray) -> np.ndarray:
    """`x` in a layout."""
    there = layout.pack("x", "p", "int8")
    types = {"x": TensorType("int8", x.shape), **there.types}
    graph = check_graph(Graph("g", ("x",), ("p",), there.nodes, there.constants, types))
    found = evaluate(graph, {"x": x}, prefer="numpy")["p"]
    assert found.shape == layout.packed_shape
    assert found.nbytes == layout.nbytes
    return found


def test_a_smaller_tensor_is_broadcast():
    x = np.random.default_rng(0).integers(-128, 128, (20,), np.int8)
    layout = PackedLayout(Channels.ROWS, (2, 3, 20), 1, 16)
    whole = packed(layout, np.broadcast_to(x, (2, 3, 20)))
    assert np.array_equal(packed(replace(layout, conversion=Broadcast()), x), whole)
    assert not layout.same_bytes(replace(layout, conversion=Broadcast()))


@pytest.mark.parametrize("preset", ["pynq_z1", "tiny", "batch4", "tall"])
@pytest.mark.parametrize("zero_points", [(0, 0), (-5, 0), (0, 3), (-128, 127)])
def test_factors_of_a_product_lie_as_its_template_packs_them(preset, zero_points):
    """The terms for the second zero point are part of the depth of the template's product."""
    config = Config.preset(preset) if preset != "tall" else replace(Config.preset("tiny"), block_out=8, name="tall")
    rng, (rows, depth, columns) = np.random.default_rng(1), (7, 9, 5)
    a, b = rng.integers(-128, 128, (2, rows, depth), np.int8), rng.integers(-128, 128, (2, depth, columns), np.int8)
    first, second = zero_points
    terms = row_terms(second, depth)
    extra = terms.count + 1 if terms else 0
    shape = (2, rows, depth + extra)
    left = packed(PackedLayout(Channels.MATRICES, shape, config.batch, config.block_in, conversion=terms), a)
    right = packed(FactorLayout(b.shape, config.block_in, config.block_out, terms), b)
    lane = int(pack_scale(0, *scale_from_float(0.01)))
    lanes = LanesLayout(b.shape, config.block_out, -first, first * second * depth, lane)
    scale = packed(lanes, b)

    wide_a = a if terms is None else row_terms_of(a, factor=-second, count=terms.count)
    ones = np.full((2, extra, columns), 127, np.int8)
    ones[:, -1:] = 1
    wide_b = np.concatenate([b, ones], axis=1)
    sums = (a.astype(int) - first) @ (b.astype(int) - second)
    biases = first * (second * depth - b.sum(axis=1, dtype=int))
    assert np.array_equal(wide_a.astype(int) @ wide_b.astype(int) + biases[:, None], sums)

    product = batched_matmul(config, batch=2, rows=rows, depth=depth + extra, columns=columns, transposed=False)
    wanted = product.pack_inputs(wide_a, wide_b)
    assert left.tobytes() == wanted["data"].tobytes()
    assert right.tobytes() == wanted["other"].tobytes()
    found = unpack_scale(scale.reshape(2, -1)[:, :columns].view(np.uint64))
    assert np.array_equal(found[0], biases)
    assert {int(part.max()) for part in found[1:]} == set(scale_from_float(0.01))


def test_which_layouts_have_the_same_bytes():
    def layout(channels, shape, batch=1, block=16):
        return PackedLayout(channels, shape, batch, block)

    image, rows, matrices = Channels
    assert layout(image, (1, 32, 1, 1)).same_bytes(layout(rows, (1, 32)))
    assert layout(image, (4, 16)).same_bytes(layout(rows, (4, 16)))
    assert not layout(image, (4, 32)).same_bytes(layout(rows, (4, 32)))
    assert layout(image, (4, 32), 4).same_bytes(layout(rows, (4, 32), 4))
    assert not layout(image, (4, 32, 1, 1), 2).same_bytes(layout(rows, (4, 32), 2))
    assert layout(matrices, (1, 5, 20)).same_bytes(layout(rows, (1, 5, 20)))
    assert not layout(matrices, (2, 5, 20)).same_bytes(layout(rows, (2, 5, 20)))
    assert not layout(image, (1, 16, 16)).same_bytes(layout(rows, (1, 16, 16)))
    assert not layout(image, (1, 32, 2, 2)).same_bytes(layout(image, (1, 32, 2, 2), 1, 8))


@pytest.mark.parametrize("packing", ["channels", "patches"])
def test_windows_are_laid_out_by_what_the_layout_holds_and_not_by_its_name(packing, monkeypatch):
    config = Config()
    monkeypatch.setattr(Layout, "__str__", lambda layout: "NPHW")
    monkeypatch.setattr(Conv2d, "layout", lambda self, name, dimensions: Layout(f"NP{name}", dimensions))
    monkeypatch.setattr(Conv2d, "packings", (packing,))
    image, kernel = (1, 16, 8, 8), np.ones((16, 16, 3, 3), np.int8)
    attributes = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "group": 1, "x_zero_point": 3}
    attributes |= {"multiplier": np.array([1]), "shift": np.array([0]), "y_zero_point": 0, "low": -128, "high": 127}
    node = Node("vdla.QConv", ("x", "w", "b"), ("y",), attributes)
    types = {"x": TensorType("int8", image), "y": TensorType("int8", image)}
    constants = {"w": kernel, "b": np.zeros(16, np.int32)}
    types |= {name: TensorType(value.dtype.name, value.shape) for name, value in constants.items()}
    call = conv(MachineNode(Graph("g", ("x",), ("y",), (node,), constants, types), node, config, {}))
    _, layout = call.inputs["data"]
    if packing == "channels":
        assert layout.conversion is None
    else:
        assert layout.conversion.attributes == Patches(window_of(attributes, (8, 8), (3, 3)), 3).attributes
