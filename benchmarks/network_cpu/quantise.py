"""Post-training quantisation of layers, by the ranges of one run: enough to compare speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from vdla.benchmarks.network_cpu.layers import ConvLayer, DenseLayer, Floats, MaxPoolLayer, NetworkLayer
from vdla.benchmarks.network_cpu.model_of_layers import Affine, Int8Parameters, before_addition, float_model


def activation_ranges(layers: Sequence[NetworkLayer], source: str, image: Floats) -> Mapping[str, Affine]:
    """The quantisation of every tensor, by its least and greatest value for `image`."""
    import onnxruntime

    pre = [before_addition(layer) for layer in layers if isinstance(layer, ConvLayer) and layer.residual is not None]
    names = [layer.y for layer in layers] + pre
    model = float_model(layers, source, image.shape, names)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    found = {source: _affine(image)}
    found |= {name: _affine(value) for name, value in zip(names, session.run(names, {source: image}), strict=True)}
    for layer in layers:
        if isinstance(layer, MaxPoolLayer):
            found[layer.y] = found[layer.x]
    return found


def quantised_weights(layers: Sequence[NetworkLayer], ranges: Mapping[str, Affine]) -> Mapping[str, Int8Parameters]:
    """Symmetric int8 weights with a scale for each output, by the name of the layer's result."""
    return {
        layer.y: _quantised(layer.weight, layer.bias, ranges[layer.x].scale)
        for layer in layers
        if isinstance(layer, ConvLayer | DenseLayer)
    }


def _affine(values: Floats) -> Affine:
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    scale = np.float32((high - low) / 255 or 1)
    return Affine(scale, int(np.clip(np.rint(-low / scale), 0, 255)))


def _quantised(weight: Floats, bias: Floats, x_scale: np.float32) -> Int8Parameters:
    scale = (np.abs(weight).reshape(len(weight), -1).max(axis=1) / 127).astype(np.float32)
    scale[scale == 0] = 1
    each = scale.reshape(-1, *[1] * (weight.ndim - 1))
    return Int8Parameters(
        np.clip(np.rint(weight / each), -127, 127).astype(np.int8),
        scale,
        np.rint(bias / (scale * x_scale)).astype(np.int32),
    )
