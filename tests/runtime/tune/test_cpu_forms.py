# SPDX-License-Identifier: Apache-2.0
"""Every form of a kernel computes what the default form does, in the same layouts outside of it."""

from __future__ import annotations

import time

import numpy as np
import pytest
from helpers.graphs import small_graph

from vdla.compiler.graph import Graph, Node
from vdla.runtime.tune.cpu_measurer import _Default
from vdla.runtime.tune.network_kernels import NetworkKernel, network_kernels

CHANNELS, SIDE = 20, 6


def floats(*shape: int) -> np.ndarray:
    scale = float(np.prod(shape[1:])) ** -0.5
    return (scale * np.random.default_rng(sum(shape)).standard_normal(shape)).astype(np.float32)


def network() -> Graph:
    """A plain image to blocks, windows, a sum, a 3x3 convolution, a product: a kernel of each."""
    around = {"pads": (1, 1, 1, 1)}
    nodes = [
        Node("Conv", ("x", "first", "bias"), ("a",), {**around, "strides": (2, 2)}),
        Node("Conv", ("a", "windows", "bias"), ("b",), {**around, "group": CHANNELS}),
        Node("Relu", ("b",), ("c",)),
        Node("Conv", ("c", "point"), ("d",), {}),
        Node("Add", ("d", "a"), ("e",)),
        Node("Conv", ("e", "square", "bias"), ("f",), around),
        Node("GlobalAveragePool", ("f",), ("g",)),
        Node("Flatten", ("g",), ("h",)),
        Node("Gemm", ("h", "matrix"), ("y",)),
    ]
    image = (1, CHANNELS, SIDE, SIDE)
    shapes = {**dict.fromkeys("abcdef", image), "g": (1, CHANNELS, 1, 1), "h": (1, CHANNELS), "y": (1, 70)}
    return small_graph(
        nodes, (1, 3, 2 * SIDE, 2 * SIDE), shapes=shapes, bias=floats(CHANNELS),
        first=floats(CHANNELS, 3, 3, 3), windows=floats(CHANNELS, 1, 3, 3), point=floats(CHANNELS, CHANNELS, 1, 1),
        square=floats(CHANNELS, CHANNELS, 3, 3), matrix=floats(CHANNELS, 70),
    )  # fmt: skip


GIVEN = ("default", "given", 0)
PLAIN, BLOCKS, NARROW = ("default", "plain", 0), ("default", "blocks", 0), ("default", "given", 8)
FORMS = {
    "kernel 1 Conv": {GIVEN, PLAIN, BLOCKS, NARROW},
    "kernel 2 Conv+Relu": {GIVEN, PLAIN},
    "kernel 3 Conv+Add": {GIVEN, PLAIN, NARROW},
    "kernel 7 Gemm": {GIVEN, ("default", "given", 32), ("default", "given", 64)},
}
"""Of a processor with vectors of 16 floats."""


@pytest.fixture(scope="module")
def kernels() -> dict[str, NetworkKernel]:
    return {kernel.task.name: kernel for kernel in network_kernels(network())}


_LONG = ("kernel 1 Conv", "kernel 2 Conv+Relu", "kernel 4 Conv")


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", ["kernel 3 Conv+Add", "kernel 7 Gemm", *(pytest.param(name, marks=pytest.mark.long) for name in _LONG)]
)
def test_every_form_has_the_same_results(name: str, kernels: dict[str, NetworkKernel]) -> None:
    task = kernels[name].task
    if task.target.vector_bytes == 64 and name in FORMS:
        assert set(task.forms) == FORMS[name]
    default = _Default(task, 0, time.process_time)
    for key in task.forms:
        points = (point for point in task.space.points() if tuple(task._key_of(point)) == key)
        default.candidate(next(points))  # refuses other results


def test_forms_of_other_layouts_repack_the_image_and_the_result(kernels: dict[str, NetworkKernel]) -> None:
    task, image = kernels["kernel 2 Conv+Relu"].task, 4 * CHANNELS * SIDE**2
    forms = {key.layout: problem for key, problem in task._problems.items()}
    assert (forms["given"].repacked_bytes, forms["plain"].repacked_bytes) == (0, 2 * image)
