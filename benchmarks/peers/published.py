# SPDX-License-Identifier: Apache-2.0
"""Figures that others published of their accelerators, each with its source.

A figure that its source does not have is None, and its cell is empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Figure = float | None

SOURCES: Mapping[str, str] = {
    "PG338": "Xilinx, DPU IP Product Guide, PG338 v1.2 (2019), table 9, high usage of DSPs; on a ZCU102, without "
    "depthwise convolution, average pooling, ReLU6 and Leaky ReLU",
    "zoo 1.1": "github.com/Xilinx/Vitis-AI, AI-Model-Zoo/README.md of commit 0504cc7, Ultra96, one thread",
    "zoo 2.5": "github.com/Xilinx/Vitis-AI, model_zoo/README.md of commit 00cfb6f, Kria KV260, one thread",
    "tiny 0.7": "github.com/mlcommons/tiny_results_v0.7, open/hls4ml-finn of commit 8813ede; the designs are those of "
    "Borras et al., arXiv 2206.11791",
    "tvm-vta 30": "github.com/apache/tvm-vta, pull request 30, resnet18_v1 with pipelined GEMM",
    "luffca": "luffca.com/2022/06/dnn-accelerator-gemmini-part2, output of mobilenet-linux on a Nexys Video",
}
"""name: where it stands; these were read, nothing is quoted from memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedMachine:
    """A machine and its resources."""

    machine: str
    board: str
    macs_per_cycle: int
    lut: int
    dsp: int
    bram36: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRun:
    """A network on a machine: operations of a frame in GOP, cycles and frames a second.

    Offloaded cycles are those of the convolutions but the first, and of residual additions.
    """

    network: str
    machine: str
    numbers: str
    clock_mhz: Figure = None
    gop: Figure = None
    cycles: int | None = None
    offloaded_cycles: int | None = None
    frames_per_s: Figure = None
    source: str
    differs: str


MACHINES = (
    PublishedMachine(
        machine="DPU B1152", board="ZCU102", macs_per_cycle=576, lut=28_698, dsp=194, bram36=117.5, source="PG338"
    ),
    PublishedMachine(
        machine="DPU B1600", board="ZCU102", macs_per_cycle=800, lut=30_877, dsp=282, bram36=123, source="PG338"
    ),
    PublishedMachine(
        machine="DPU B4096", board="ZCU102", macs_per_cycle=2048, lut=40_865, dsp=642, bram36=249.5, source="PG338"
    ),
)

_DATAFLOW = "hardware for this network alone, weights on the chip"


def _ultra96(network: str, gop: float, frames_per_s: float, differs: str) -> PublishedRun:
    return PublishedRun(
        network=network, machine="DPU B1600, Ultra96", numbers="int8", clock_mhz=287, gop=gop,
        frames_per_s=frames_per_s, source="zoo 1.1", differs=differs,
    )  # fmt: skip


def _kv260(network: str, gop: float, frames_per_s: float, differs: str) -> PublishedRun:
    return PublishedRun(
        network=network, machine="DPU B4096, KV260", numbers="int8", clock_mhz=300, gop=gop,
        frames_per_s=frames_per_s, source="zoo 2.5", differs=differs,
    )  # fmt: skip


def _pynq_z2(network: str, tool: str, numbers: str, frames_per_s: float, differs: str) -> PublishedRun:
    return PublishedRun(
        network=network, machine=f"{tool}, PYNQ-Z2", numbers=numbers, clock_mhz=100, frames_per_s=frames_per_s,
        source="tiny 0.7", differs=f"{differs}; {_DATAFLOW}",
    )  # fmt: skip


RUNS = (
    _ultra96("resnet18", 3.65, 74.2167, "another board, clock and memory"),
    _kv260(
        "resnet18", 3.63, 219.52, "a classifier of cars in the shape of ResNet-18 (chen_color_resnet18); another clock"
    ),
    PublishedRun(
        network="resnet18",
        machine="VTA, RTL simulation",
        numbers="int8",
        offloaded_cycles=7_729_601,
        source="tvm-vta 30",
        differs="no clock, memory of the simulation",
    ),
    _ultra96("mobilenet_v2", 0.59, 136.183, "another board, clock and memory"),
    _kv260("mobilenet_v2", 0.602, 290.62, "another clock"),
    PublishedRun(
        network="mobilenet_v2",
        machine="Gemmini, Nexys Video",
        numbers="int8",
        cycles=261_334_665,
        source="luffca",
        differs="a quarter of a batch of 4; beside a Rocket core; array, clock and memory are not stated",
    ),
    _ultra96("yolo_v8n", 65.42, 5.4, "YOLOv3, 416x416, 7 times the operations"),
    _kv260("yolo_v8n", 65.63, 14.48, "YOLOv3, 416x416, 7 times the operations"),
    _kv260("yolo_v8n", 24.62, 29.19, "OFA-YOLO, 640x640, pruned by half"),
    _pynq_z2("ds_cnn", "FINN", "3 bits", 57_268.135, "KWS-W3A3, a perceptron in place of DS-CNN"),
    _kv260("mobilenet_vww", 0.027, 1470.42, "MobileNet v1 0.25 with images of 128x128"),
    _pynq_z2("resnet8", "hls4ml", "8 bits", 36.596, "RN07, another residual network"),
    _pynq_z2("resnet8", "FINN", "1 bit", 661.473, "CNV-W1A1, another network, of binary weights"),
    _pynq_z2("autoencoder", "hls4ml", "12 and 6 bits", 53_365.414, "AD08, of 64 features and 72 channels"),
)
