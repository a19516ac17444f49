# SPDX-License-Identifier: Apache-2.0
"""Plain definitions of small extents, random arrays, and their results by the interpreter."""

from __future__ import annotations

from functools import partial

import numpy as np

from vdla.compiler import te
from vdla.compiler.interpret import interpret
from vdla.compiler.operators import definitions
from vdla.compiler.operators.definitions import Definition
from vdla.hardware.config import Config
from vdla.hardware.numerics import pack_scale


def kinds(config: Config) -> dict[str, Definition]:
    """One definition of every kind, in the types of a machine; templates cover few of them."""
    types = {"dtype": config.inp_dtype, "weight_dtype": config.wgt_dtype}
    conv, small = partial(definitions.convolution, **types), {"batch": 1, "in_channels": 6, "out_channels": 10}
    transposed, kind = partial(definitions.transposed_convolution, **types), {"dtype": config.inp_dtype}
    raw = partial(conv, raw=True)
    conv = partial(conv, raw=False)
    return {
        "conv2d": conv(**small, size=(6, 7), kernel=3, pads=1),
        "conv2d_strided": conv(**small, size=(7, 7), kernel=1, strides=2),
        "conv2d_grouped": conv(batch=1, in_channels=8, out_channels=12, size=(5, 6), kernel=3, groups=2),
        "conv2d_batch": raw(batch=5, in_channels=3, out_channels=5, size=(4, 4), kernel=3, pads=1),
        "conv2d_dilated": raw(**small, size=(7, 8), kernel=(3, 2), dilations=2, strides=(1, 2), pads=(2, 1)),
        "conv1d": conv(batch=2, in_channels=5, out_channels=6, size=(12,), kernel=3, strides=2, pads=1),
        "conv1d_grouped": raw(batch=1, in_channels=6, out_channels=9, size=(11,), kernel=3, dilations=2, groups=3),
        "conv3d": conv(batch=1, in_channels=3, out_channels=5, size=(3, 4, 4), kernel=2, pads=1),
        "dense": definitions.dense(rows=5, in_features=13, out_features=9, raw=False, **types),
        "matrix_vector": definitions.matrix_vector(rows=11, columns=13, **types),
        "batched_product": definitions.batched_product(batch=3, rows=5, depth=7, columns=6, **types),
        "attention_scores": definitions.attention_scores(batch=1, heads=2, tokens=5, size=6, **types),
        "attention_values": definitions.attention_values(batch=2, heads=2, tokens=5, size=6, **types),
        "lstm_gates": definitions.lstm_gates(batch=2, inputs=5, hidden=6, **types),
        "depthwise": definitions.depthwise_convolution(
            batch=1, channels=6, size=(5, 6), kernel=3, strides=(1, 2), pads=1, raw=False, **types
        ),
        "depthwise_dilated": definitions.depthwise_convolution(
            batch=3, channels=9, size=(5,), kernel=2, dilations=2, **types
        ),
        "max_pooling": definitions.pooling(
            kind="max", batch=1, channels=6, size=(5, 6), kernel=3, strides=2, pads=1, raw=False, **kind
        ),
        "average_pooling": definitions.pooling(
            kind="average", batch=2, channels=5, size=(5, 6), kernel=2, strides=1, pads=1, count_include_pad=False,
            raw=False, **kind,
        ),
        "global_pooling": definitions.pooling(
            kind="average", batch=1, channels=6, size=(24, 24), kernel=24, raw=False, **kind
        ),
        "residual": definitions.residual_addition(batch=1, channels=6, size=(4, 5), factors=(3, -5), raw=False, **kind),
        "rescaling": definitions.rescaling(batch=1, channels=6, size=(4, 5), zero_point=-3, raw=False, **kind),
        "extremum": definitions.extremum(
            kind="minimum", batch=1, channels=6, size=(4, 5), factors=(3, 5), zero_points=(2, -7), **kind
        ),
        "leaky_relu": definitions.leaky_relu(
            batch=1, channels=6, size=(4, 5), factors=(10, 1), zero_point=4, raw=False, **kind
        ),
        "transposed": transposed(
            batch=1, in_channels=5, out_channels=6, size=(3, 4), kernel=4, strides=2, pads=1, raw=False
        ),
        "transposed_uneven": transposed(
            batch=2, in_channels=3, out_channels=2, size=(4, 3), kernel=(3, 5), strides=(3, 1), pads=(1, 2),
            output_padding=(1, 0),
        ),
        "transposed_dilated": transposed(
            batch=1, in_channels=5, out_channels=3, size=(4,), kernel=3, strides=4, pads=1, dilations=2, raw=False
        ),
        "correlation": definitions.correlation(batch=1, channels=5, height=3, width=4, reach=3, **types),
    }  # fmt: skip


def random_arrays(definition: Definition, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Arrays for the inputs over the whole range of their types."""
    arrays = {}
    for tensor in definition.inputs:
        if tensor.dtype == "int64":  # lanes of a scale
            lanes = (rng.integers(-99, 99, tensor.shape), rng.integers(1, 999, tensor.shape), 16)
            arrays[tensor.name] = pack_scale(*lanes).view(np.int64)
        else:
            half = 1 << (int(tensor.dtype.removeprefix("int")) - 1)
            arrays[tensor.name] = rng.integers(-half, half, tensor.shape).astype(np.int8)
    return arrays


def expected(definition: Definition, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The result of the plain expression, by the interpreter."""
    function = te.create_function(list(definition.inputs), [definition.output], definition.name)
    return interpret(function, arrays)[definition.output.name]
