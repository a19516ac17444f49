# SPDX-License-Identifier: Apache-2.0
"""A float convolution on the int8 machine: quantise, compile, run, compare with the float result.

The template pads 20 channels to whole blocks, packs plain arrays into the machine's layouts, and
unpacks the result.
"""

import numpy as np

import vdla
from vdla import Config, templates

rng = np.random.default_rng(0)
data = rng.normal(size=(1, 20, 14, 14))
weight = rng.normal(size=(40, 20, 3, 3)) * rng.uniform(0.2, 2.0, (40, 1, 1, 1))
bias = rng.normal(size=40)

# The float result, and the scales: one of the input, one of the output, one per channel of the
# weights.
padded = np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1)))
windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
exact = np.maximum(np.einsum("nchwyx,ocyx->nohw", windows, weight) + bias[:, None, None], 0)
in_scale, out_scale = np.abs(data).max() / 127, exact.max() / 127
weight_scale = np.abs(weight).max(axis=(1, 2, 3)) / 127

operator = templates.conv2d(
    Config.preset("pynq_z1"),
    batch=1, height=14, width=14, in_channels=20, out_channels=40, kernel=3, pads=1, activation="relu",
)  # fmt: skip
arrays = operator.pack(
    data=np.round(data / in_scale).astype(np.int8),
    weight=np.round(weight / weight_scale[:, None, None, None]).astype(np.int8),
    bias=np.round(bias / (in_scale * weight_scale)).astype(np.int32),
    multiplier=in_scale * weight_scale / out_scale,
)
result = vdla.run(operator.program, arrays)
error = np.abs(operator.unpack(result.outputs) * out_scale - exact).max() / exact.max()

print(operator.description)
print(f"{result.statistics.total_cycles:,} cycles, utilisation {result.statistics.utilisation:.1%}")
print(f"largest error {error:.2%} of the largest value")
assert error < 0.03
