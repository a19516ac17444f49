# SPDX-License-Identifier: Apache-2.0
"""The basis of the benchmarks: workload table, lower bound, reference results, receipt."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from vdla.benchmarks.harness import BenchmarkResult, receipt, versions
from vdla.benchmarks.layers import frame
from vdla.compiler.operators.workload_bound import bound
from vdla.compiler.operators.workloads import Workload, WorkloadError, resnet18_layers, workload, workloads
from vdla.hardware.config import Config, Dram
from vdla.runtime.diagnosis.layers import random_data, reference

PYNQ = Config.preset("pynq_z1")
SMALL = Workload(
    name="S1",
    operator="conv2d",
    batch=2,
    height=5,
    width=6,
    in_channels=3,
    out_channels=4,
    kernel=3,
    strides=2,
    pads=1,
    note="",
)


def test_the_table_has_the_papers_operators() -> None:
    assert [layer.name for layer in resnet18_layers()] == [f"C{n}" for n in range(2, 13)]
    assert workload("c12") == Workload(
        name="C12",
        operator="conv2d",
        batch=1,
        height=7,
        width=7,
        in_channels=512,
        out_channels=512,
        kernel=3,
        strides=1,
        pads=1,
        note="ResNet-18",
    )
    assert {layer.operator for layer in workloads().values()} == {"conv2d", "depthwise_conv2d", "conv2d_transpose"}


def test_an_unknown_workload_lists_the_choices() -> None:
    with pytest.raises(WorkloadError) as failure:
        workload("C13")
    assert str(failure.value) == f"workload: name must be one of {', '.join(workloads())}, got 'C13' (did you mean C3?)"


def test_multiply_accumulates_equal_a_hand_count() -> None:
    assert workload("C2").macs == 56 * 56 * 64 * 64 * 9
    assert workload("D1").macs == 112 * 112 * 32 * 9
    assert workload("CT1").macs == 4 * 4 * 1024 * 512 * 16
    assert (workload("CT1").out_height, workload("CT1").out_width) == (8, 8)


@pytest.mark.parametrize(
    ("name", "compute", "reads", "writes"),
    [
        ("C1", 453_963, 19_992, 100_352),  # 3 channels do not fill a block: nothing is rounded up
        ("C2", 440_896, 29_696, 25_088),  # products with the zeros around the image are not counted
        ("C3", 50_176, 25_600, 25_088),
        ("C5", 25_088, 7_296, 12_544),  # a strided 1x1 kernel reads a quarter of its input
    ],
)
def test_the_bound_equals_a_hand_computation(name: str, compute: int, reads: int, writes: int) -> None:
    limit = bound(workload(name), PYNQ)
    assert (limit.compute_cycles, limit.read_cycles, limit.write_cycles) == (compute, reads, writes)
    assert (limit.cycles, limit.limited_by) == (compute, "compute")


@pytest.mark.parametrize(
    ("name", "axi_bits", "limited_by", "cycles"),
    [("C5", 64, "compute", 12_544), ("C5", 32, "writes", 25_088), ("C12", 64, "reads", 298_048)],
)
def test_the_greatest_of_compute_reads_and_writes_decides(
    name: str, axi_bits: int, limited_by: str, cycles: int
) -> None:
    limit = bound(workload(name), replace(Config.preset("pynq_z1_512"), axi_bits=axi_bits))
    assert (limit.limited_by, limit.cycles) == (limited_by, cycles)


@pytest.mark.parametrize(
    ("name", "compute", "reads", "writes"),
    [
        ("D2", 4 * 167 * 167, 8 * 112 * 112 + 72, 2 * 4 * 56 * 56),  # blocks, rows, columns on the vector unit
        ("CT1", 64 * 32 * 14 * 14, 8 * 256 + 2 * 512 * 1024, 8 * 8 * 64),  # 14 products of rows stay inside
    ],
)
def test_the_bound_of_other_operators_equals_a_hand_computation(
    name: str, compute: int, reads: int, writes: int
) -> None:
    limit = bound(workload(name), PYNQ)
    assert (limit.compute_cycles, limit.read_cycles, limit.write_cycles) == (compute, reads, writes)
    assert limit.cycles == max(compute, reads, writes)


def test_the_bound_counts_slow_memory_ports_and_raw_results() -> None:
    plain, slow = bound(workload("C8"), PYNQ), bound(workload("C8"), replace(PYNQ, dram=Dram(beat_cycles=2)))
    assert (slow.read_cycles, slow.write_cycles) == (2 * plain.read_cycles, 2 * plain.write_cycles)
    ports = replace(PYNQ, axi_bits=128, axi_ports=2)
    assert bound(workload("C8"), ports).read_cycles == plain.read_cycles // 2  # writes use one of the ports
    assert bound(workload("C8"), ports).write_cycles == plain.write_cycles
    raw = bound(workload("C5"), PYNQ, raw=True)
    assert (raw.written_bytes, raw.limited_by, raw.cycles) == (4 * 28 * 28 * 128, "writes", 50_176)


def test_a_frame_has_the_19_convolutions_of_resnet18_behind_its_first() -> None:
    assert frame() == {"C2": 4, "C4": 1, "C5": 1, "C6": 3, "C7": 1, "C8": 1, "C9": 3, "C10": 1, "C11": 1, "C12": 3}
    assert frame().total() == 19


def test_the_bound_rounds_up_to_whole_batches_and_blocks() -> None:
    config = Config.preset("batch4")  # 4 x 16 x 8
    limit = bound(replace(SMALL, in_channels=17), config)
    assert limit.macs == 4 * 32 * 8 * (2 + 3 + 2) * (2 + 3 + 3)  # rows -1 and 5 and column -1 are padding
    assert limit.read_bytes == 4 * 32 * 5 * 6 + 32 * 8 * 9
    assert limit.written_bytes == 4 * 8 * 3 * 3


def naive(layer: Workload, operands: object, bits: int) -> np.ndarray:
    """The layer as nested loops over Python integers."""
    result = np.zeros((layer.batch, layer.out_channels, layer.out_height, layer.out_width), np.int8)
    for n, o, y, x in np.ndindex(*result.shape):
        total = int(operands.bias[o])
        for c, ky, kx in np.ndindex(layer.in_channels, layer.kernel, layer.kernel):
            row, column = y * layer.strides + ky - layer.pads, x * layer.strides + kx - layer.pads
            if 0 <= row < layer.height and 0 <= column < layer.width:
                total += int(operands.data[n, c, row, column]) * int(operands.weight[o, c, ky, kx])
        shift = int(operands.shift[o])
        scaled = (total * int(operands.mult[o]) + (1 << (shift - 1))) >> shift
        result[n, o, y, x] = max(-(1 << (bits - 1)), min((1 << (bits - 1)) - 1, scaled))
    return result


@pytest.mark.parametrize("preset", ["pynq_z1", "int4"])
@pytest.mark.parametrize("layer", [SMALL, replace(SMALL, kernel=1, pads=0), replace(SMALL, strides=1, pads=2)])
def test_the_reference_equals_naive_loops(layer: Workload, preset: str) -> None:
    config = Config.preset(preset)
    operands = random_data(layer, config, 3)
    expected = naive(layer, operands, config.out_bits)
    assert np.array_equal(reference(layer, operands, config.out_bits), expected)
    assert len(np.unique(expected)) > 8  # the scales spread results over the output's range


def test_random_data_depends_on_seed_and_layer_only() -> None:
    first, again = (random_data(SMALL, PYNQ, 7) for _ in range(2))
    assert np.array_equal(first.data, again.data)
    assert not np.array_equal(first.data, random_data(SMALL, PYNQ, 8).data)
    assert not np.array_equal(first.data, random_data(replace(SMALL, name="S2"), PYNQ, 7).data)


def test_a_result_is_json_with_a_receipt_to_rerun_it() -> None:
    made = receipt(PYNQ, [], 5, "vdla bench example --json -")
    document = json.loads(BenchmarkResult("example", {"ratio": 0.5}, [{"layer": "C2"}], made).json())
    assert document["figures"] == {"ratio": 0.5}
    assert document["rows"] == [{"layer": "C2"}]
    assert document["receipt"]["config_fingerprint"] == PYNQ.fingerprint
    assert document["receipt"]["versions"] == versions()
    assert set(versions()) == {"vdla", "numpy", "numba", "python"}
    assert (document["receipt"]["seed"], document["receipt"]["command"]) == (5, "vdla bench example --json -")
