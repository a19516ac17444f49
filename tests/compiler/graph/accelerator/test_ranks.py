# SPDX-License-Identifier: Apache-2.0
"""Images of one, two and three dimensions: the same bits on every machine, or a reason."""

import numpy as np
import pytest
from helpers.accelerated_graph import run_accelerated
from helpers.integer_layers import LAYERS, IntegerLayers

from vdla.compiler.graph import TensorType, check_graph
from vdla.compiler.graph.accelerator import board_cpu, candidates, choose, partition
from vdla.hardware.config import Config
from vdla.runtime.network.evaluator import evaluate

SIZES = {1: (23,), 2: (9, 7), 3: (5, 4, 6)}
PRESETS = ("pynq_z1", "tiny", "batch4", "ultra96", "pynq_z1_512", "int4")


def agrees(layers, preset, seed):
    """All that the accelerator can run has the results of the definitions there; the calls."""
    graph, config = layers.graph(), Config.preset(preset)
    x = np.random.default_rng(seed).integers(-128, 128, graph.tensor("x").extents, np.int8)
    wanted = evaluate(graph, {"x": x}, prefer="numpy")
    found = candidates(graph, config)
    placed = check_graph(partition(graph, config, found.calls))
    for name, array in run_accelerated(placed, {"x": x}).items():
        assert np.array_equal(array, wanted[name]), name
    decisions = choose(graph, config, found, board_cpu(config)).decisions
    assert all(decisions[node.outputs[0]].reason for node in graph.nodes)
    return found


@pytest.mark.sampled
@pytest.mark.parametrize("rank", SIZES)
@pytest.mark.parametrize("kind", LAYERS)
def test_a_layer(kind, rank):
    """Odd channels, few and many, of one and of several images, on a machine each."""
    for index, channels in enumerate((1, 5, 20)):
        layers = IntegerLayers(index, (1 + index % 3, channels, *SIZES[rank]))
        layers.layer(kind)
        found = agrees(layers, PRESETS[(index + LAYERS.index(kind)) % len(PRESETS)], index)
        if rank == 3:
            assert not found.calls


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(10))
def test_layers_one_after_another(seed):
    rng = np.random.default_rng(seed)
    layers = IntegerLayers(seed, (int(rng.integers(1, 4)), int(rng.integers(1, 21)), *SIZES[1 + seed % 2]))
    for kind in ("conv", *rng.choice(LAYERS, 3)):
        layers.layer(str(kind))
    agrees(layers, PRESETS[seed % 5], seed)


@pytest.mark.parametrize("preset", PRESETS[:-1])
def test_a_first_layer_of_few_channels_reads_patches_of_a_signal(preset):
    layers = IntegerLayers(3, (2, 2, 40))
    layers.layer("conv")
    assert agrees(layers, preset, 0).calls


@pytest.mark.parametrize("shape", [(), (8,)])
def test_what_is_no_image_is_a_reason(shape):
    layers = IntegerLayers(0, (1, 1))
    layers.types["x"] = TensorType("int8", shape)
    layers.layer("rescale")
    reason = candidates(layers.graph(), Config.preset("pynq_z1")).reasons["v0"]
    assert reason == f"on the accelerator it must have a batch and channels, got {list(shape)}"


def test_three_dimensions_are_a_reason():
    layers = IntegerLayers(0, (1, 8, 5, 6, 4))
    layers.layer("conv")
    reason = candidates(layers.graph(), Config.preset("pynq_z1")).reasons["v0"]
    assert reason == "on the accelerator it must read an image of one or two dimensions, got 3"


@pytest.mark.parametrize(
    ("preset", "channels", "groups", "outputs"),
    [("pynq_z1", 18, 6, 18), ("pynq_z1", 24, 2, 20), ("tiny", 8, 2, 6), ("batch4", 18, 6, 12)],
)
def test_groups_with_gaps_between_their_blocks_are_one_group(preset, channels, groups, outputs):
    """The weight has zeros between the groups, so that channels keep their places."""
    layers = IntegerLayers(0, (1, channels, 9, 7))
    layers.conv(groups, outputs)
    assert agrees(layers, preset, 0).calls
