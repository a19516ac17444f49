# SPDX-License-Identifier: Apache-2.0
"""Values of networks in integers, between QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import numpy as np

from vdla.networks.network_builder import NetworkBuilder

SIXTEENTHS = 1 / 16
"""The scale of most values."""


def requantised(net: NetworkBuilder, x: str, scale: float, name: str, zero_point: int = 0) -> str:
    """Floats as integers of a scale, and back."""
    parameters = [net.constant(f"{name}.scale", np.array(scale, np.float32))]
    parameters.append(net.constant(f"{name}.zero", np.array(zero_point, np.int8)))
    quantised = net.node("QuantizeLinear", [x, *parameters], f"{name}.quantised")
    return net.node("DequantizeLinear", [quantised, *parameters], f"{name}.values")


def dequantised(net: NetworkBuilder, integers: str, scale: float, name: str) -> str:
    """Integers as multiples of a scale."""
    parameters = [net.constant(f"{name}.scale", np.array(scale, np.float32))]
    parameters.append(net.constant(f"{name}.zero", np.array(0, np.int8)))
    return net.node("DequantizeLinear", [integers, *parameters], name)


def sign(net: NetworkBuilder, x: str, name: str) -> str:
    """+1 or -1; that of 0 is +1."""
    half = net.constant(f"{name}.half", np.array(SIXTEENTHS / 2, np.float32))
    return net.node("Sign", [net.node("Add", [x, half], f"{name}.moved")], f"{name}.sign")
