# SPDX-License-Identifier: Apache-2.0
"""Small convolutions of the kinds that the cpu benchmark measures."""

from __future__ import annotations

from dataclasses import replace

from vdla.compiler.operators.workloads import Workload

STRIDED = Workload(
    name="strided",
    operator="conv2d",
    batch=1,
    height=9,
    width=8,
    in_channels=3,
    out_channels=20,
    kernel=3,
    strides=2,
    pads=1,
    note="",
)
WINOGRAD = replace(STRIDED, name="winograd", height=8, in_channels=32, out_channels=32, strides=1)
DEPTHWISE = replace(STRIDED, name="depthwise", operator="depthwise_conv2d", in_channels=5, out_channels=5, strides=1)
